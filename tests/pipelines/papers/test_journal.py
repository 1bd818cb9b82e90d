"""How a program that reproduces a paper runs: what is done is kept, and what is missing is run."""

import pytest

from pipelines.papers.journal import Journal, carry_out


def broken():
    yield {"kind": "half"}
    raise OSError


def run(path, pieces, written):
    journal = Journal(path)
    carry_out(pieces, journal, write=lambda: written.append(len(journal.records)), shown=["x"])
    return journal


@pytest.mark.filterwarnings("default")
def test_a_second_start_runs_what_is_missing(tmp_path, capsys):
    path, written = tmp_path / "records.jsonl", []
    first = ("first", [{"kind": "found", "x": 0.123456, "y": 1}])
    with pytest.raises(OSError):
        run(path, [first, ("second", broken())], written)
    assert written == [2]
    assert "kind found, x 0.1235" in capsys.readouterr().err
    journal = run(path, [("first", broken()), ("second", [{"kind": "found"}])], written)
    kinds = [record["kind"] for record in journal.records]
    assert kinds == ["found", "done", "found", "done"]
    assert written == [2, 4, 4]
    assert Journal(path).records == journal.records
