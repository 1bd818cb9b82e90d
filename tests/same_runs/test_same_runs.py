"""What the comparison of two runs notices and what it lets pass, on folders made by hand."""

import json
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import xarray as xr
import yaml

from daskfc.runs import check_pipeline, known_methods, load_pipeline
from daskfc.runs.outcome.folder import RunFolder
from daskfc.stores import load_storage
from tests.mutations.run import ROOT
from tests.same_runs import run, sides
from tests.same_runs.cases import (
    EVERY,
    MOVED,
    NOISY,
    STORAGES,
    Case,
    file_cases,
    method_cases,
    place_in,
    why_absent,
)
from tests.same_runs.compare import compare_runs
from tests.same_runs.sides import TIMED_OUT, Outcome, Side

SUMMARY = {
    "run_id": "r",
    "metrics": {"k-FED": {"kappa": {"mean": 0.5, "std": 0.0}}},
    "communication": {"messages": 2, "payload_bytes": 48, "wire_bytes": 700},
    "privacy": {"statement": "the server sees means.", "reveals": {"Means": "the means"}},
    "timing": {"total_s": 1.0},
    "stages": [["linking", 100.0, 101.0], ["clustering", 101.5, 103.0]],
    "peak_memory_bytes": {"client-1": 1},
}


def message(**changed):
    row = {
        "method": "k-FED", "seed": 0, "round": 0, "step": "means", "sender": "client-1",
        "receiver": "server", "message": "Means", "protection": "plain",
        "shapes": {"centers": [3]}, "dtypes": {"centers": "float64"}, "payload_bytes": 24,
        "wire_bytes": 350, "time": 1.0, "task": "means|client-1|5dea19a4-3",
        "noise_multiplier": None,
    }  # fmt: skip
    row |= changed
    return {**row, "shapes": json.dumps(row["shapes"]), "dtypes": json.dumps(row["dtypes"])}


def labels(values=((0, 1, 1), (1, 0, 0)), ids=("a", "b", "c")):
    return xr.Dataset(
        {"labels": (("algorithm", "seed", "sample"), np.array([values]))},
        coords={
            "algorithm": np.array(["k-FED"], dtype=object),
            "seed": [0, 1],
            "client": ("sample", np.array(["client-1"] * 3, dtype=object)),
            "sample_id": ("sample", np.array(ids, dtype=object)),
        },
    )


def write(folder, name, *, cube=None, ledger=None, summary=None, contents="abc"):
    made = RunFolder.create(folder, name, {"contents": {"client-1": contents}, "pipeline": {}})
    made.write_labels(labels() if cube is None else cube)
    made.write_ledger(pd.DataFrame(ledger or [message(), message(sender="client-2")]))
    made.write_summary({**SUMMARY, **(summary or {})})
    return made.path


@pytest.fixture
def compared(tmp_path):
    old = write(tmp_path, "old")

    def with_new(*, noisy=False, renamed=None, **new):
        return compare_runs(old, write(tmp_path, "new", **new), noisy=noisy, renamed=renamed or {})

    return with_new


def test_what_depends_on_the_moment_is_no_difference(compared):
    second = message(sender="client-2", time=0.5, wire_bytes=351, task="means|client-2|9")
    found = compared(
        ledger=[second, message(time=2.0)],
        summary={
            "run_id": "s", "timing": {"total_s": 9.0}, "peak_memory_bytes": {"client-1": 2},
            "stages": [["linking", 200.0, 200.5], ["clustering", 200.5, 209.0]],
            "communication": {**SUMMARY["communication"], "wire_bytes": 701},
        },
    )  # fmt: skip
    assert found.differences == []
    assert found.notes == ["2 messages, 48 B, 700 → 701 on the wire"]


def test_labels(compared):
    (told,) = compared(cube=labels(((0, 1, 1), (1, 0, 1)))).differences
    assert told == "labels of k-FED, seed 1: 1 of 3 differ; clusters of [2, 1] against [1, 2]"


@pytest.mark.parametrize(
    ("cube", "match"),
    [
        (labels(ids=("a", "c", "b")), "sample_id differs in 2 of 3"),
        (labels().assign_coords(seed=[0, 2]), "seed differs in 1 of 2"),
        (labels().astype(np.int32), "int64 .* int32"),
        (labels().isel(sample=slice(2)), "'sample': 3.*'sample': 2"),
    ],
)
def test_samples_and_types_of_labels(compared, cube, match):
    (told,) = compared(cube=cube, noisy=True).differences  # these are not random
    assert re.search(match, told)


def test_labels_and_scores_of_random_runs_are_left_out(compared):
    other = {"metrics": {"k-FED": {"kappa": {"mean": 0.4, "std": 0.0}}}}
    other["quality"] = {"sizes": [3, 0]}
    cube = labels(((1, 1, 1), (1, 0, 0)))
    assert compared(cube=cube, summary=other, noisy=True).differences == []


@pytest.mark.parametrize(
    ("first", "noisy", "same"),
    [
        ({"shapes": {"centers": [9]}, "payload_bytes": 72}, True, True),
        ({"shapes": {"centers": [9]}, "payload_bytes": 72}, False, False),
        ({"shapes": {"centers": [3, 1]}}, True, False),
        ({"receiver": "caller"}, True, False),
    ],
)
def test_noise_may_change_how_long_arrays_of_messages_are(compared, first, noisy, same):
    ledger = [message(**first), message(sender="client-2")]
    assert (compared(ledger=ledger, noisy=noisy).differences == []) is same


@pytest.mark.parametrize(
    ("changed", "match"),
    [
        ({"dtypes": {"centers": "float32"}}, r"fields .*'float64'\).* → .*'float32'\)"),
        ({"shapes": {"centers": [4]}}, r"\(3,\).* → .*\(4,\)"),
        ({"payload_bytes": 25}, "payload_bytes 24 → 25"),
        ({"protection": "masked"}, "protection plain → masked"),
        ({"noise_multiplier": 2.0}, "noise_multiplier None → 2.0"),
        ({"round": 1}, "round 0.*only in OLD"),
        ({"receiver": "caller"}, "receiver server.*only in OLD"),
        ({"seed": 1}, "only in OLD"),
    ],
)
def test_messages(compared, changed, match):
    found = compared(ledger=[message(**changed), message(sender="client-2")])
    (told,) = found.differences
    assert told.startswith("messages: 1 only in OLD, 1 only in NEW; for example method k-FED")
    assert re.search(match, told)


def test_a_message_that_is_sent_twice(compared):
    (told,) = compared(ledger=[message(), message(), message(sender="client-2")]).differences
    assert told.startswith("messages: 0 only in OLD, 1 only in NEW")
    assert told.endswith("only in NEW")


def test_renamed_messages_and_steps(compared):
    ledger = [
        message(message="Centres", step="centres", shapes={"of": [3]}, dtypes={"of": "float64"},
                sender=sender)
        for sender in ("client-1", "client-2")
    ]  # fmt: skip
    renamed = {"Means": "Centres", "Means.centers": "of"}
    found = compared(ledger=ledger, renamed=renamed)
    assert found.differences == []
    assert "renamed messages: Means → Centres" in found.notes
    assert "steps: means → centres" in found.notes


def test_a_name_that_is_not_listed(compared):
    ledger = [message(message="M"), message(sender="client-2", payload_bytes=25)]
    named, other = compared(ledger=ledger).differences
    assert named == "messages: Means(centers) → M(centers), which RENAMED lacks"
    assert "1 only in OLD, 1 only in NEW" in other
    assert "payload_bytes 24 → 25" in other


@pytest.mark.parametrize(
    ("new", "match"),
    [
        (
            {"summary": {"metrics": {"k-FED": {"kappa": {"mean": 0.5000000001, "std": 0.0}}}}},
            "summary.json.metrics.k-FED.kappa.mean: 0.5 of OLD, 0.5000000001 of NEW",
        ),
        ({"summary": {"n_samples": 3}}, "summary.json.n_samples: None of OLD, 3 of NEW"),
        ({"summary": {"timing": {}}}, "keys of timing: ['total_s'] of OLD, [] of NEW"),
        ({"summary": {"stages": [["linking", 1.0, 2.0]]}}, "names of stages: ['linking', 'clust"),
        ({"contents": "xyz"}, "run.json: contents.client-1: 'abc' of OLD, 'xyz' of NEW"),
    ],
)
def test_tables_and_stores(compared, new, match):
    (told,) = compared(**new).differences
    assert match in told


def test_better_words_are_only_told(compared):
    found = compared(summary={"privacy": {**SUMMARY["privacy"], "statement": "means are seen."}})
    assert found.differences == []
    assert "other words in privacy.statement" in found.notes


# -- how runs end ---------------------------------------------------------------------------------

CASE = Case("a/b", "pipelines/a.yaml", "storage/b.yaml")
MUST_RUN = replace(CASE, must_run=True)


@pytest.mark.parametrize(
    ("case", "old", "new", "kind"),
    [
        (CASE, (2, "daskfc: no."), (2, "daskfc: no."), run.REFUSED),
        (CASE, (1, "daskfc: no."), (1, "daskfc: no."), run.FAILED),
        (CASE, (2, "daskfc: no."), (1, "daskfc: no."), run.DIFFERS),
        (CASE, (2, "daskfc: no."), (2, "daskfc: yes."), run.DIFFERS),
        (CASE, (TIMED_OUT, ""), (TIMED_OUT, ""), run.DIFFERS),
        (MUST_RUN, (2, "daskfc: no."), (2, "daskfc: no."), run.DIFFERS),
    ],
)
def test_runs_that_do_not_end_well(tmp_path, case, old, new, kind):
    ends = [Outcome(*end, tmp_path / "nothing", 1.0) for end in (old, new)]
    verdict = run.judge(case, *ends)
    assert verdict.kind == kind
    assert "a/b" in str(verdict)


def test_progress_and_warnings_are_not_compared(tmp_path):
    old, new = write(tmp_path, "old"), write(tmp_path, "new")
    ends = Outcome(0, "12 s scoring", old, 1.0), Outcome(0, "13 s scoring", new, 1.0)
    assert run.judge(CASE, *ends).kind == run.SAME


def test_results_that_cannot_be_read(tmp_path):
    ends = [Outcome(0, "", tmp_path, 1.0)] * 2
    assert "cannot be compared: FileNotFoundError" in str(run.judge(CASE, *ends))


def test_a_sentence_without_its_place(tmp_path):
    side = Side.__new__(Side)
    side.folder = tmp_path
    said = f"  1 s  stores\ndaskfc: {tmp_path}/tree/a.yaml: no. See {tmp_path}/daskfc-a_1.log.\n\n"
    assert side.sentence_of(said) == "daskfc: …/tree/a.yaml: no. See …/daskfc-….log."


@pytest.mark.parametrize(
    ("kinds", "code"),
    [(("same", "skipped", "same refusal"), 0), (("same", "DIFFERS"), 1), (("skipped",), 2)],
)
def test_exit_code(monkeypatch, capsys, kinds, code):
    verdicts = [run.Verdict(CASE, kind) for kind in kinds]
    monkeypatch.setattr(run, "compare_all", lambda arguments, folder: verdicts)
    assert run.main(["HEAD"]) == code
    assert capsys.readouterr().out.startswith(f"1 {kinds[0]}")


def test_a_commit_that_is_not_there(tmp_path):
    with pytest.raises(SystemExit, match="no-such-commit"):
        sides.unpack("no-such-commit", tmp_path)


# -- what is run ----------------------------------------------------------------------------------


def test_every_method_is_run():
    pipelines = list(EVERY.values())
    pipelines += [yaml.safe_load(p.read_text()) for p in (ROOT / "pipelines").glob("*.yaml")]
    named = {name for p in pipelines for name in (p["method"], *p.get("compare", ()))}
    assert named == set(known_methods())


@pytest.mark.parametrize("name", EVERY)
def test_pipelines_of_methods_are_valid(name):
    check_pipeline(load_pipeline(EVERY[name]), n_clients=4)


def test_cases_of_methods_have_files(tmp_path):
    sides.write_method_cases(tmp_path)
    for case in method_cases():
        load_pipeline(tmp_path / case.pipeline)
        load_storage(tmp_path / case.storage)
    noisy = {case.name for case in method_cases() if case.noisy}
    assert noisy == {f"method-{name}/iris-5" for name in NOISY}
    assert len(STORAGES) == len({case.storage for case in method_cases()})


def test_every_file_is_run_or_skipped_with_a_reason(tmp_path):
    (tmp_path / "mnist.npz").touch()
    cases = {case.name: case.skip for case in file_cases(ROOT, ROOT, tmp_path, False)}
    files = [len([*ROOT.glob(f"{folder}/*.yaml")]) for folder in ("pipelines", "storage")]
    assert len(cases) == files[0] * files[1]
    assert cases["omnifc/iris"] == ""
    assert cases["omnifc/cora"] == "no data set cora.npz"
    assert cases["omnifc/mnist"] == "70,000 samples take hours; --all includes them"
    assert cases["omnifc/existing"] == "there is no store /srv/hospital-a.zarr"
    assert "files" in cases["omnifc/hospitals"]
    everything = {case.name: case for case in file_cases(ROOT, ROOT, tmp_path, True)}
    assert everything["omnifc/mnist"].skip == ""
    (half,) = {
        c.skip for c in file_cases(ROOT, tmp_path, tmp_path, True) if c.name == "omnifc/iris"
    }
    assert half == "pipelines/omnifc.yaml is not in NEW; storage/iris.yaml is not in NEW"


def test_data_sets_that_are_absent(tmp_path, monkeypatch):
    monkeypatch.setenv("ELSEWHERE", str(tmp_path))
    (tmp_path / "ind.cora.allx").touch()
    cora = {"source": {"path": "${DASKFC_DATA}/ind.cora"}}
    assert why_absent(cora, tmp_path) == ""
    assert why_absent(cora, None) == "DASKFC_DATA names no folder of data sets"
    assert why_absent({"source": {"path": "${ELSEWHERE}/ind.cora"}}, None) == ""
    assert why_absent({"source": {"dataset": "iris"}}, None) == ""
    assert why_absent({"clients": {"a": {"store": str(tmp_path)}}}, None) == ""


def test_a_file_that_moved_is_found_in_both_trees(tmp_path):
    """One that was `pipelines/paper-kcagc.yaml` is run from where it lies now."""
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "storage").mkdir()
    for old, new in MOVED.items():
        assert (ROOT / new).is_file()
        assert place_in(ROOT, old) == ROOT / new
        (tmp_path / old).write_bytes((ROOT / new).read_bytes())
        assert place_in(tmp_path, old) == tmp_path / old
    (tmp_path / "storage" / "iris.yaml").write_bytes((ROOT / "storage" / "iris.yaml").read_bytes())
    cases = {case.name: case.skip for case in file_cases(tmp_path, ROOT, tmp_path, False)}
    assert cases["paper-kcagc/iris"] == cases["paper-fedsc/iris"] == ""


def test_samples_have_one_name_on_both_sides_where_a_tree_knows_pseudonyms(tmp_path):
    """Else every label and every message of a sample would differ by its name."""
    side = sides.Side.__new__(sides.Side)
    side.tree = ROOT
    assert side._clear_ids() == ["ids=clear"]
    side.tree = tmp_path
    assert side._clear_ids() == []
