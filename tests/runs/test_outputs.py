import io
from dataclasses import replace
from html import unescape

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from rich.console import Console

from daskfc.errors import DaskfcError, InvalidInput
from daskfc.federation import Ledger
from daskfc.federation.messages.texts import text_arrays
from daskfc.runs import RunFailed, print_summary, run
from daskfc.runs.outcome.communication import communication_of, costliest_client, ledger_frame
from daskfc.runs.outcome.evaluate import EvaluationLabels, joined, score
from daskfc.runs.outcome.fits import Fit, FitShelf, folder_name, labels_cube
from daskfc.runs.pipeline.methods import known_methods
from daskfc.runs.pipeline.promises import paper_of, privacy_of
from daskfc.runs.report.profile_rows import profile_rows
from daskfc.runs.report.report import report_html
from daskfc.runs.report.table import seconds_in_words
from tests.runs.fakes import PIPELINE, FakeMethod, ledger_row


def fit(method="A", seed=0, n=4, labels=None):
    values = np.arange(n) if labels is None else np.asarray(labels)
    array = xr.DataArray(
        values.astype(np.int64),
        dims="sample",
        coords={
            "client": ("sample", np.array(["b", "a", "a", "b"][:n])),
            "sample_id": ("sample", np.array([f"é{i}" for i in range(n)])),
        },
    )
    return Fit(
        method, seed, array, ledger_frame(Ledger([ledger_row()])), {"total_s": 1.0}, {"x": 1}
    )


@pytest.fixture
def summary():
    return {
        "run_id": "a", "status": "done", "method": "OmniFC", "n_samples": 1797, "n_clients": 10,
        "seeds": [0, 1],
        "metrics": {
            "OmniFC": {"kappa": {"mean": 0.75, "std": 0.01}},
            "central": {"kappa": {"mean": 0.75, "std": 0.01}},
        },
        "methods": {"central": {"note": "sees raw data"}},
        "communication": communication_of(ledger_frame(Ledger([ledger_row()] * 3))),
        "privacy": {"statement": "the server learns [all] distances"},
        "timing": {"total_s": 130.2, "distances_s": 1.25},
        "peak_memory_bytes": {"client-1": 250_000_000, "server": 300_000_000},
    }  # fmt: skip


def printed(summary, width=120):
    console = Console(file=io.StringIO(), width=width)
    print_summary(summary, "runs/a", console)
    return console.file.getvalue()


def test_the_table_tells_all_that_was_promised(summary):
    text = printed(summary)
    for words in (
        "0.7500 ± 0.010", "central (sees raw data)", "CodedRows", "client → server", "120 bytes",
        "900 bytes", "1.2 s", "2 min 10 s", "300.0 MB", "runs/a", "1,797 samples of 10 clients",
        "the server learns [all] distances",
    ):  # fmt: skip
        assert words in text, words


def test_no_name_of_a_message_is_cut_in_a_terminal_of_80(summary):
    rows = [ledger_row(message="PseudonymousSamples", protection="plain", wire_bytes=831_000)]
    narrow = {**summary, "communication": communication_of(ledger_frame(Ledger(rows)))}
    lines = {width: printed(narrow, width).splitlines() for width in (80, 92)}
    for told in lines.values():
        (line,) = (one for one in told if "PseudonymousSamples" in one)
        assert "client → server" in line
    wire = {width: "831.0 kB" in "".join(told) for width, told in lines.items()}
    assert wire == {80: False, 92: True}
    assert max(map(len, lines[80])) <= 80


def test_a_failed_run_is_one_line_and_a_way_out(summary):
    text = printed({"run_id": "a", "status": "failed", "error": "no [disk]", "resumable": True})
    assert text.splitlines() == ["a: failed: no [disk]", "resume with: daskfc resume runs/a"]


def test_the_report_escapes_everything(summary):
    nasty = "<script>alert('x')</script>"
    summary["communication"]["by_message"][nasty] = {
        **summary["communication"]["by_message"]["CodedRows"], "reveals": nasty,
    }  # fmt: skip
    record = {
        "run_id": nasty, "status": nasty, "error": nasty, "created": nasty,
        "pipeline": {"params": {nasty: nasty}}, "versions": {nasty: nasty},
    }  # fmt: skip
    page = report_html(record, {**summary, "method": nasty, "privacy": {"statement": nasty}})
    assert "<script" not in page
    assert page.count("&lt;script&gt;") > 8


def test_the_report_needs_nothing_from_elsewhere(summary):
    page = report_html({"run_id": "a", "status": "done"}, summary)
    assert "http" not in page
    assert "src=" not in page
    assert "0.7500" in page


def test_seconds_in_words():
    assert seconds_in_words(119.99) == "120.0 s"
    assert seconds_in_words(3601) == "60 min 01 s"


def test_a_fit_comes_back_whole(tmp_path):
    shelf = FitShelf(tmp_path / "fits")
    shelf.put(fit("k-FED", 3))
    (tmp_path / "fits" / ".partial-x").mkdir()
    back = FitShelf(tmp_path / "fits").get("k-FED", 3)
    assert back.labels.identical(fit("k-FED", 3).labels.rename("label"))
    assert back.timing == {"total_s": 1.0}
    assert back.facts == {"x": 1}
    pd.testing.assert_frame_equal(back.ledger, fit().ledger, check_dtype=False)
    assert [p.name for p in (tmp_path / "fits").iterdir()] == ["k-FED-3"]


def test_a_fit_that_cannot_be_written_is_absent_and_an_older_one_stays(tmp_path):
    shelf = FitShelf(tmp_path / "fits")
    spoilt = replace(fit("A", labels=[9, 9, 9, 9]), facts={"x": object()})
    with pytest.raises(TypeError):
        shelf.put(spoilt)
    assert FitShelf(tmp_path / "fits").get("A", 0) is None
    shelf.put(fit("A"))
    with pytest.raises(TypeError):
        shelf.put(spoilt)
    assert list(FitShelf(tmp_path / "fits").get("A", 0).labels) == [0, 1, 2, 3]
    shelf.put(fit("A", labels=[5, 5, 5, 5]))  # in its place
    assert list(FitShelf(tmp_path / "fits").get("A", 0).labels) == [5, 5, 5, 5]


def test_methods_have_folders_of_their_own():
    names = [*known_methods(), "other.method", "other_method", "other method"]
    assert len({folder_name(name) for name in names}) == len(names)


def test_fits_of_other_samples_are_refused():
    with pytest.raises(DaskfcError, match="labelled other samples"):
        labels_cube([fit(), fit("B", n=3)])
    for name in ("sample_id", "client"):
        moved = fit("B")
        values = moved.labels[name].to_numpy()[::-1].copy()
        values[:2] = values[1::-1]
        moved = replace(moved, labels=moved.labels.assign_coords({name: ("sample", values)}))
        with pytest.raises(DaskfcError, match=r"B \(seed 0\) labelled other samples than A"):
            labels_cube([fit(), moved])


def test_scores_have_mean_and_deviation():
    truth = np.array([0, 0, 1, 1])
    table = score(truth, {"A": [np.array([5, 5, 7, 7]), np.array([0, 1, 0, 1])]}, ["kappa"])
    assert table == {"A": {"kappa": {"mean": 0.5, "std": 0.5}}}


def told(labels, classes=()):
    ids = text_arrays([str(i) for i in range(len(labels))])
    return EvaluationLabels(np.array(labels, dtype=np.int64), *ids, *text_arrays(classes))


def test_classes_that_python_reads_as_one_number_are_not_one():
    """int("1_0") is 10, and so is int of digits of other scripts."""
    parts = {"a": told([0, 1], ["10", "1_0"]), "b": told([0, 1], ["\uff11\uff10", "10.0"])}
    truth = joined(parts)
    assert sorted(truth.classes) == ["10", "1_0", "\uff11\uff10"]
    assert [truth.classes[label] for label in truth.labels] == ["10", "1_0", "\uff11\uff10", "10"]
    assert joined({"a": told([1, 2]), "b": told([0], ["1_0"])}).labels is None


def test_true_labels_join_on_words():
    parts = {"a": told([0, 1, 2], ["acute", "ckd", "healthy"]), "b": told([0, 1], ["ckd", "x"])}
    assert joined(parts).labels.tolist() == [0, 1, 2, 1, 3]
    letters = {"a": told([0, 1], ["a", "A"]), "b": told([0], ["a"])}  # which one client has apart
    assert joined(letters).labels.tolist() == [1, 0, 1]
    numbers = {"a": told([3, 1]), "b": told([1, 7])}
    assert joined(numbers).labels.tolist() == [3, 1, 1, 7]


def test_numbers_that_a_site_wrote_as_words_are_the_same_classes():
    parts = {"a": told([0, 1], ["1.0", "2"]), "b": told([2, 1]), "c": told([0, 0], [" 2"])}
    labels = joined(parts).labels
    assert (labels == labels[0]).tolist() == [True, False, False, True, False, False]


@pytest.mark.parametrize(
    ("parts", "why"),
    [
        ({"a": told([0]), "b": told([])}, "client 'b' lacks true labels"),
        ({"a": told([]), "b": told([])}, "clients 'a', 'b' lack true labels"),
        ({"a": told([0, 1]), "b": told([0], ["ckd"])}, "'a' are numbers and those of client 'b'"),
        ({"a": told([7]), "b": told([0], ["007"])}, "'a' are numbers and those of client 'b'"),
        ({"a": told([0], ["Yes"]), "b": told([0], ["yes"])}, "of clients 'a', 'b' are words that"),
    ],
)
def test_why_there_are_no_scores(parts, why):
    truth = joined(parts)
    assert truth.labels is None
    assert why in truth.missing


def test_scores_need_one_label_a_sample():
    with pytest.raises(InvalidInput, match="labelled 3 samples of 4"):
        score(np.zeros(4, int), {"A": [np.zeros(3, int)]}, ["kappa"])


def test_routes_and_numbers_of_a_ledger():
    rows = [
        ledger_row(),
        ledger_row(sender="client-1", receiver="client-2"),
        ledger_row(sender="server", receiver="caller"),
    ]
    frame = ledger_frame(Ledger(rows))
    assert list(frame["route"]) == ["client → server", "client → client", "server → caller"]
    assert communication_of(frame)["uploaded_floats"] == 40
    assert communication_of(frame)["by_message"]["CodedRows"]["messages"] == 3


def test_an_empty_ledger_adds_up_to_nothing():
    assert communication_of(ledger_frame(Ledger([]))) == {
        "messages": 0, "payload_bytes": 0, "wire_bytes": 0, "uploaded_floats": 0, "by_message": {},
    }  # fmt: skip


def test_promises_come_from_the_documentation():
    assert privacy_of(FakeMethod) == "none whatsoever."
    assert privacy_of(int) == ""
    assert paper_of(FakeMethod) == ""


def test_the_cost_of_several_fits_is_composed_for_the_client_they_cost_most():
    first = Ledger([
        ledger_row(sender="client-1", task="a", noise_multiplier=4.0),
        ledger_row(sender="client-1", task="a", noise_multiplier=4.0),  # the same, sent again
        ledger_row(sender="client-2", task="b", noise_multiplier=2.0),
        ledger_row(sender="client-2", task="c"),
    ])  # fmt: skip
    second = Ledger([ledger_row(sender="client-2", task="d", noise_multiplier=2.0)])
    spent = costliest_client([ledger_frame(first), ledger_frame(second)])
    assert spent.mu == pytest.approx(np.sqrt(1 / 4 + 1 / 4))
    # a start that broke off is in no fit's ledger
    spent = costliest_client([ledger_frame(first), ledger_frame(second)], [1.0])
    assert spent.mu == pytest.approx(np.sqrt(1 / 4 + 1 / 4 + 1))


def test_noise_is_told_in_a_sentence(summary):
    noise = {
        "kind": "data", "sigma": 15.0, "clip": 2.0, "delta": 1e-5, "epsilon": 1.0, "fits": 2,
        "epsilon_of_all_fits": 1.5,
    }  # fmt: skip
    summary["privacy"]["noise"] = noise
    told = "sigma 15, clip 2; ε = 1 at δ = 1e-05 for each client's rows in a fit, ε = 1.5 in all 2"
    assert told in " ".join(printed(summary).split())
    assert told in unescape(report_html({"run_id": "a", "status": "done"}, summary))
    summary["privacy"]["noise"] = {"kind": "factors", "relative_dictionary": 0.1, "epsilon": None,
                                   "delta": None}  # fmt: skip
    assert "relative dictionary 0.1; it guarantees no (ε, δ)" in printed(summary)


def test_errors_of_similarities_stand_beside_their_bounds(summary):
    summary["privacy"]["reconstruction"] = {
        "client-1": {"error": 0.125, "rms": 0.01, "bound": 1.4},
        "client-2": {"error": 0.25, "rms": 0.02, "bound": None},
    }
    lines = [line.split() for line in printed(summary).splitlines()]
    assert ["client-1", "0.125", "0.01", "1.4"] in lines
    assert ["client-2", "0.25", "0.02"] in lines


PROFILES = {
    "columns": ["<age>", "sex"], "clusters": [0, 2], "sizes": [5, 7],
    "means": [[61.25, 0.5], [40.0, 0.25]], "stds": [[2.0, 0.5], [3.0, 0.4]],
    "overall_mean": [48.9, 0.35], "separation": [0.9, 0.1],
    "withheld": {"1": "it has fewer than 5 samples"},
}  # fmt: skip


def test_profiles_are_shown_with_what_is_withheld(summary):
    told = printed({**summary, "profiles": PROFILES})
    assert "<age>" in told
    assert "61.25 ± 2" in told
    assert "Cluster 1 is not described: it has fewer than 5 samples." in told
    page = report_html({"run_id": "a", "status": "done"}, {**summary, "profiles": PROFILES})
    assert "&lt;age&gt;" in page
    assert "61.25 ± 2" in page
    assert "Cluster 1 is not described: it has fewer than 5 samples." in page
    none = {**PROFILES, "clusters": [], "sizes": [], "means": [], "stds": []}
    assert "What tells the clusters apart (" not in printed({**summary, "profiles": none})


def test_words_are_shown_below_their_column_and_gaps_beside(summary):
    sex = {"words": ["f", "<m>"], "shares": [[0.25, 0.5, 0.25], [None, None, None]],
           "overall": [0.25, 0.5, 0.25]}  # fmt: skip
    why = "fewer than 5 values are there"
    profiles = {
        **PROFILES, "shares": {"sex": sex}, "means": [[61.25, None], [None, None]],
        "stds": [[2.0, None], [None, None]], "missing": [[0.125, 0.0], [None, None]],
        "separation": [None, 0.5],
        "withheld_cells": [{"cluster": 2, "column": name, "why": why} for name in ("<age>", "sex")],
    }  # fmt: skip
    lines = [line.split() for line in printed({**summary, "profiles": profiles}).splitlines()]
    rows = [
        ["<age>", "–", "61.25", "±", "2", "–"],
        ["<age>:", "missing", "12.5%", "–"],
        ["sex", "0.500"],
        ["sex", "=", "<m>", "50.0%", "–"],
        ["sex", "=", "f", "25.0%", "–"],
        ["sex:", "other", "words", "25.0%", "–"],
    ]
    start = lines.index(rows[0])
    assert lines[start : start + len(rows)] == rows
    page = report_html({"run_id": "a", "status": "done"}, {**summary, "profiles": profiles})
    for told in (
        "sex = &lt;m&gt;",
        "12.5%",
        f"A feature is not described (–) in a cluster where {why}",
    ):
        assert told in page
    many = {"words": list("abcdefghijk"), "shares": [[0.1] * 12], "overall": [0.1] * 12}
    own = {"columns": ["x"], "separation": [0.1], "means": [[None]], "stds": [[None]]}
    told = profile_rows({**own, "shares": {"x": many}}, 6)
    assert told[-1] == ["x: 3 more, in summary.json", "", ""]
    assert len(told) == 1 + 8 + 1 + 1


def test_labels_messages_and_summary_are_there_when_the_page_cannot_be_made(
    fake, storage, tmp_path, monkeypatch
):
    def broken(*_):
        raise ValueError("no page")

    monkeypatch.setattr("daskfc.runs.execution.results.report_html", broken)
    with pytest.raises(RunFailed):
        run(PIPELINE, storage=storage, runs_dir=tmp_path, name="a")
    there = {path.name for path in (tmp_path / "a").iterdir()}
    assert {"labels.zarr", "labels.csv", "ledger.parquet", "summary.json"} <= there
