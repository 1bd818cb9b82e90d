"""What choosing the type of a store costs: bytes on disk and seconds, beside float32 by hand.

Rows wait as float64 until all are there, and are then written in the type that they need. With
benchmarks off: few samples.
"""

import time

import numpy as np
import pandas as pd
import pytest

from daskfc.stores import add_store

N, D = 100_000, 20


def csv_of(path, X):
    pd.DataFrame(X).to_csv(path, index=False)
    return str(path)


def built(case, folder):
    """Return the row of a store, and its seconds."""
    file, dtype = case
    start = time.perf_counter()
    url = f"{folder}/{dtype}.zarr"
    row = add_store("a", [file], url, source={}, dtype=dtype, overwrite=True)
    return row, time.perf_counter() - start


def rows_of(folder, n, turns):
    random = np.random.default_rng(0)
    files = {
        "fractions": csv_of(folder / "fractions.csv", random.normal(size=(n, D))),
        "time stamps": csv_of(folder / "stamps.csv", random.normal(1.65e9, 1e4, size=(n, D))),
        "bytes": csv_of(folder / "bytes.csv", random.integers(0, 256, size=(n, D))),
    }
    cases = [(data, dtype) for data in files for dtype in ("float32", "float64", None)]
    cases.remove(("time stamps", "float32"))  # refused
    seconds = dict.fromkeys(cases, np.inf)
    made = {}
    for _ in range(turns):  # by turns, for the machine may be busy meanwhile
        for case in cases:
            made[case], took = built((files[case[0]], case[1]), folder)
            seconds[case] = min(seconds[case], took)
    first = cases[0]
    return [
        {
            "data": data,
            "by hand": dtype or "–",
            "stored": (row := made[data, dtype])["dtype"],
            "MB": row["bytes_on_disk"] / 1e6,
            "s": seconds[data, dtype],
            "bytes, ratio": row["bytes_on_disk"] / made[first]["bytes_on_disk"],
            "time, ratio": seconds[data, dtype] / seconds[first],
        }
        for data, dtype in cases
    ]


@pytest.mark.slow
def test_store_types(benchmark, tmp_path):
    n, turns = (N, 3) if benchmark.enabled else (2000, 1)
    benchmark.group = "Stores whose type is chosen"
    benchmark.extra_info["rows"] = rows = benchmark.pedantic(rows_of, args=(tmp_path, n, turns))
    stored = ["float32", "float64", "float32", "float64", "float64", "float32", "float64", "uint8"]
    assert [row["stored"] for row in rows] == stored
    assert rows[2]["bytes, ratio"] == pytest.approx(1, abs=0.01)
