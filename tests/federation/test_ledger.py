import dataclasses
import errno
import json
import os
import resource

import numpy as np
import pandas as pd
import pyarrow.parquet
import pytest

from daskfc.errors import InvalidInput
from daskfc.federation import Ledger, LedgerRow
from daskfc.federation.ledger import rows as module
from daskfc.federation.ledger.rows import LedgerFile, collected


def row(message="Vector", run="r", time=1.0, **changes):
    fields = {
        "run": run,
        "round": 0,
        "step": "s",
        "sender": "client-1",
        "receiver": "server",
        "message": message,
        "protection": "plain",
        "shapes": {"values": [3]},
        "dtypes": {"values": "float64"},
        "payload_bytes": 24,
        "wire_bytes": 100,
        "time": time,
        "task": "t",
        **changes,
    }
    return LedgerRow(**fields)


def test_rows_survive_and_a_torn_line_is_left_out(tmp_path):
    file = LedgerFile(tmp_path / "ledger.jsonl")
    first, _ = file.begin([row(time=2.0), row(run="other")])
    (second,) = file.begin([row(time=1.0, wire_bytes=24)])
    file.complete([first], [111])
    assert second != first
    with file.path.open("a") as torn:
        torn.write('{"mark": "x", "run": "r", "ro')
    found = LedgerFile(file.path).read("r")
    assert [(one["time"], one["wire_bytes"]) for one in found] == [(2.0, 111), (1.0, 24)]
    assert len(Ledger(found)) == 2


def test_rows_are_the_same_however_small_the_pages(tmp_path, monkeypatch):
    file = LedgerFile(tmp_path / "ledger.jsonl")
    marks = [file.begin([row(time=float(i)), row(run="other")])[0] for i in range(9)]
    file.complete(marks[:4], [110, 111, 112, 113])
    file.complete(marks[5:], [115, 116, 117, 118])  # number 4 broke off
    whole = file.read("r")
    sizes = [110, 111, 112, 113, 100, 115, 116, 117, 118]
    by_time = sorted(whole, key=lambda one: one["time"])
    assert [one["wire_bytes"] for one in by_time] == sizes
    monkeypatch.setattr(module, "_PAGE", 1)  # one line
    asked = []

    def ask(places):
        asked.append(set(places))
        return {name: file.page("r", *place) for name, place in places.items() if name == "a"} | {
            name: ({}, [], None) for name in places if name == "b"
        }

    found = list(collected(ask, ["a", "b"]))
    assert sorted(found, key=lambda one: one["time"]) == by_time
    assert asked == [{"a", "b"}] + [{"a"}] * (9 * 2 + 8 - 1)


def test_a_page_says_nothing_of_other_runs(tmp_path, monkeypatch):
    file = LedgerFile(tmp_path / "ledger.jsonl")
    mark, other = file.begin([row(), row(run="other")])
    monkeypatch.setattr(module, "_PAGE", file.path.stat().st_size - 1)
    file.complete([mark, other], [110, 111])
    rows, unsent, end = file.page("r")
    assert (set(rows), unsent) == ({mark}, [mark])
    assert file.page("r", end, unsent) == ({mark: {"wire_bytes": 110}}, [], None)


def test_rows_of_many_messages_share_what_they_say_alike():
    first, second = Ledger([vars(row()), json.loads(json.dumps(vars(row(time=2.0))))])
    assert first.shapes is second.shapes
    assert first.dtypes is second.dtypes
    assert first.sender is second.sender


def test_a_row_after_a_torn_line_is_whole(tmp_path):
    file = LedgerFile(tmp_path / "ledger.jsonl")
    file.path.write_bytes(b'{"mark": "x", "run": "r", "step": "\xc3')
    file.begin([row()])
    assert [one["step"] for one in file.read("r")] == ["s"]


def test_a_disk_that_takes_half_a_row_keeps_none_of_it(tmp_path):
    file = LedgerFile(tmp_path / "ledger.jsonl")
    file.begin([row()])
    before = file.path.read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 50, limits[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            file.begin([row(time=2.0)])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert file.path.read_bytes() == before
    file.begin([row(time=3.0)])
    assert [one["time"] for one in file.read("r")] == [1.0, 3.0]


def test_why_a_row_was_not_written_is_said_though_its_half_cannot_be_removed(tmp_path, monkeypatch):
    def fails(number):
        def fail(*args):
            raise OSError(number, "x")

        return fail

    monkeypatch.setattr(os, "write", fails(errno.ENOSPC))
    monkeypatch.setattr(os, "ftruncate", fails(errno.EIO))
    with pytest.raises(OSError, match="x") as failure:
        LedgerFile(tmp_path / "ledger.jsonl").begin([row()])
    assert failure.value.errno == errno.ENOSPC


def test_summary_counts_by_message():
    rows = [row(), row(time=2.0, sender="client-2"), row("Pair", protection="coded")]
    told = Ledger(vars(one) for one in rows)
    table = told.summary()
    assert table.loc[("Vector", "plain")].to_dict() == {
        "messages": 2,
        "senders": 2,
        "receivers": 1,
        "payload_bytes": 48,
        "wire_bytes": 200,
    }
    assert table["wire_bytes"].sum() == told.wire_bytes == 300
    assert told.payload_bytes == 72


def test_the_summary_of_nothing_has_the_columns_of_any_other():
    whole, empty = Ledger([vars(row())]).summary(), Ledger([]).summary()
    assert len(empty) == 0
    assert list(empty.columns) == list(whole.columns)
    assert list(empty.columns) == [
        "messages",
        "senders",
        "receivers",
        "payload_bytes",
        "wire_bytes",
    ]
    assert list(empty.index.names) == list(whole.index.names) == ["message", "protection"]
    assert set(empty.dtypes) == set(whole.dtypes) == {np.dtype("int64")}


def test_the_summary_is_in_the_order_of_first_use():
    rows = [row("Z", time=1.0), row("A", time=2.0), row("Z", time=3.0), row("B", time=0.5)]
    table = Ledger(vars(one) for one in rows).summary()
    assert [message for message, _ in table.index] == ["B", "Z", "A"]


def test_a_release_that_is_sent_again_costs_once():
    rows = [
        row(time=1.0, sender="client-1", task="a", noise_multiplier=2.0),
        row(time=2.0, sender="client-1", task="a", noise_multiplier=2.0),  # sent again
        row(time=3.0, sender="client-1", task="b", noise_multiplier=1.0),
        row(time=4.0, sender="client-1", task="c"),
        row(time=5.0, sender="client-2", task="d", noise_multiplier=4.0),
        row(time=6.0, sender="server", task="e"),
    ]
    spent = Ledger(vars(one) for one in rows).releases()
    assert set(spent) == {"client-1", "client-2"}
    # several releases compose to one with mu**2 = the sum of 1 / multiplier**2
    assert spent["client-1"].mu == pytest.approx(np.sqrt(1 / 4 + 1))
    assert spent["client-2"].mu == pytest.approx(1 / 4)


@pytest.mark.parametrize(("name", "read"), [("l.csv", pd.read_csv), ("l.parquet", pd.read_parquet)])
def test_files_read_back(tmp_path, name, read):
    told = Ledger([vars(row()), vars(row(time=0.5, step="earlier"))])
    told.write(tmp_path / name)
    frame = read(tmp_path / name)
    assert list(frame.columns) == [field.name for field in dataclasses.fields(LedgerRow)]
    assert list(frame["step"]) == ["earlier", "s"]
    assert json.loads(frame["shapes"][0]) == {"values": [3]}


def test_a_file_has_no_columns_but_those_of_the_rows(tmp_path):
    Ledger([vars(row())]).write(tmp_path / "l.parquet")
    columns = pyarrow.parquet.read_schema(tmp_path / "l.parquet").names
    assert columns == [field.name for field in dataclasses.fields(LedgerRow)]


def test_other_endings_are_refused(tmp_path):
    with pytest.raises(InvalidInput, match=r"\.parquet or \.csv; got 'l\.xlsx'"):
        Ledger([]).write(tmp_path / "l.xlsx")


def test_a_notebook_shows_the_summary():
    page = Ledger([vars(row(message="<Rows>")), vars(row())])._repr_html_()
    assert "Ledger: 2 messages" in page
    assert "&lt;Rows&gt;" in page
    assert page.count("<tr>") == 3
    assert "Ledger: 0 messages, 0 bytes of content" in Ledger([])._repr_html_()
