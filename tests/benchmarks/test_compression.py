"""What compression would take off messages, by class: sizes and speeds on messages of real fits.

Each party compresses what it is about to send and opens it again, beside sending it as it is, with
the libraries that Dask takes where they are installed: lz4, and zstd at its fastest level (here by
numcodecs, which comes with zarr). A ratio is compressed to plain bytes; a speed is of plain bytes,
compressing and opening one after the other. Compression pays on lines slower than *pays below*:
there the bytes that are left out take longer than compressing and opening all. *Saved* is of the
time that all bytes of the method take on the busiest direction of a line of 100 Mbit/s; the share
of the whole fit is smaller. With benchmarks off: one method on few digits.
"""

import json
import os
import time
from unittest import mock

import numpy as np
import pytest
from numcodecs import LZ4, Zstd

from daskfc import Federation
from daskfc.federation.driver import opening
from daskfc.federation.messages.declaration import content_of
from daskfc.federation.worker import guard
from daskfc.federation.worker.nanny import PartyNanny
from tests.benchmarks.test_fedsc import DATA
from tests.benchmarks.test_wide_area import BANDWIDTH, ON_ROWS, PLACES, digits, lines_of
from tests.benchmarks.wide_sites import METHODS

CODECS = {"lz4": LZ4(), "zstd": Zstd(1)}
FILE = "compression.jsonl"
SMALL = 0.01  # of a method's bytes on the busiest line; classes with less are left out
LARGEST = 4_000_000  # bytes of a message that are compressed; speeds and ratios do not change then


def bytes_of(message):
    """Return the bytes of a message's arrays and text, as they go over a connection."""
    parts = [
        value.tobytes() if isinstance(value, np.ndarray) else str(value).encode()
        for value in content_of(message)
    ]
    return b"".join(parts)[:LARGEST]


def compressed(content):
    """Return for each codec its bytes and its seconds there and back."""
    found = {}
    for name, codec in CODECS.items():
        start = time.perf_counter()
        small = codec.encode(content)
        back = codec.decode(small)
        found[name] = len(bytes(small)), time.perf_counter() - start
        assert bytes(back) == content
    return found


class CompressingWorker(guard.PartyWorker):
    """Compresses what leaves, beside sending it."""

    def record(self, leaving):
        lines = []
        for envelope in leaving.values():
            if content := bytes_of(envelope.message):
                row = {"message": type(envelope.message).__name__, "bytes": len(content)}
                lines.append(json.dumps({**row, **compressed(content)}) + "\n")
        with (self.party.folder / FILE).open("a") as file:
            file.writelines(lines)
        return super().record(leaving)


class CompressingNanny(PartyNanny):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.Worker = CompressingWorker


def summed(rows):
    """Return bytes, compressed bytes and seconds by class of message."""
    found = {}
    for row in rows:
        own = found.setdefault(row["message"], {"bytes": 0, **{c: [0, 0.0] for c in CODECS}})
        own["bytes"] += row["bytes"]
        for codec in CODECS:
            for i in (0, 1):
                own[codec][i] += row[codec][i]
    return found


def rows_of_fit(place, name, urls, method, params, folder):
    """Fit with parties that compress; return a row a class of message."""
    with (
        mock.patch.object(opening, "PartyNanny", CompressingNanny),
        Federation.local(urls, cluster={"cluster": "local", "startup": "300s"}) as federation,
    ):
        federation.workspace = str(folder)
        model = METHODS[method](**params)
        model.fit(federation)
    files = folder.rglob(FILE)
    told = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    return table(place, name, summed(told), model.ledger_)


def table(place, name, found, ledger):
    line = max(lines_of(ledger).values(), key=lambda own: sum(own.values()))
    rows, whole = [], sum(line.values())
    for message, n_bytes in sorted(line.items(), key=lambda one: -one[1]):
        if n_bytes < SMALL * whole:
            continue
        own = found[message]
        row = {"data": place, "method": name, "message": message, "MB": n_bytes / 1e6}
        for codec in CODECS:
            size, seconds = own[codec]
            ratio, rate = size / own["bytes"], own["bytes"] / seconds
            saved = (1 - ratio) / BANDWIDTH - 1 / rate  # seconds a byte
            row |= {
                f"{codec}, ratio": ratio,
                f"{codec}, MB/s": rate / 1e6,
                f"{codec} pays below, Mbit/s": 8e-6 * rate * max(0.0, 1 - ratio),
                f"{codec} saves": f"{100 * max(0.0, saved) * n_bytes * BANDWIDTH / whole:.1f} %",
            }
        rows.append(row)
    return rows


def rows_of(places, folder):
    rows = []
    for number, (place, (stores, methods)) in enumerate(places.items()):
        urls = stores(str(folder / f"stores-{number}"))
        for name, (method, params) in methods.items():
            own = folder / f"{number}-{method}-{len(rows)}"
            rows += rows_of_fit(place, name, urls, method, params, own)
            print(*rows[-3:], f"load {os.getloadavg()[0]:.1f}", sep="\n")
    return rows


@pytest.mark.slow
@pytest.mark.parametrize("place", PLACES)
def test_compression(benchmark, tmp_path, place):
    if benchmark.enabled and place == "Cora" and DATA is None:
        pytest.skip("DASKFC_DATA names no folder with Cora")
    if not benchmark.enabled and place != "digits":
        pytest.skip("with benchmarks off, a few digits")
    few = {"subsample": {"n": 200, "seed": 0}}
    stores = {place: (lambda folder: digits(folder, 3, **few), {"k-FED": ON_ROWS["k-FED"]})}
    places = {place: PLACES[place]} if benchmark.enabled else stores
    benchmark.group = "Compression on the wire"
    benchmark.extra_info["rows"] = rows = benchmark.pedantic(rows_of, args=(places, tmp_path))
    assert "LabelledSamples" in {row["message"] for row in rows}
    assert all(0 < row["lz4, ratio"] < 1.02 for row in rows)


def test_uniform_bytes_stay_as_long_and_equal_ones_do_not():
    uniform = np.random.default_rng(0).bytes(100_000)
    for codec in CODECS:
        assert compressed(uniform)[codec][0] >= len(uniform)
        assert compressed(bytes(100_000))[codec][0] < 1000
