import importlib
import json
import os
import re
import shutil
import signal
import sys
import threading
import warnings
from pathlib import Path
from types import SimpleNamespace

import pytest

from daskfc.cli.terminal.exits import exits, signals_as_interrupt
from daskfc.errors import DecodingError
from daskfc.runs import Run
from tests.runs.fakes import FakeFederation, FakeMethod, party_error


def but_progress(result):
    """Return the lines on standard error without those of progress, which a slow machine tells."""
    return [line for line in result.stderr.splitlines() if not re.match(r" +\d+ s  ", line)]


def one_line(result):
    (line,) = but_progress(result)
    return line


def test_run_prints_the_table_and_the_folder(fake, daskfc, files):
    result = daskfc("run", *files)
    assert result.exit_code == 0, result.output
    for words in ("kappa", "CodedRows", "Peak memory", "runs/a/report.html"):
        assert words in result.stdout
    assert but_progress(result) == []


def test_json_is_the_summary_and_nothing_else(fake, daskfc, files):
    result = daskfc("run", *files, "--json", "--set", "seeds=[3]")
    assert result.exit_code == 0
    summary = json.loads(result.stdout)
    assert summary["status"] == "done"
    assert summary["seeds"] == [3]
    assert summary == json.loads(Path("runs/a/summary.json").read_text())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--set", "params.n_clusters=0"], "must be a whole number of at least 1; got 0"),
        (["--set", "params.n_clusters=500"], "500 clusters"),
        (["--set", "seedz=[5]"], "'seedz'"),
        (["--set", "method=OmniFD"], "there are FederatedKMeans, FederatedGaussianMixture"),
        (["--set", "metrics=[x]"], "no metric is called 'x'"),
        (["--storage", "none.yaml"], "none.yaml"),
        (["--cluster", "none.yaml"], "none.yaml"),
        (["--name", "a/b"], "name"),
    ],
)
def test_bad_input_is_2_and_one_line_and_starts_nothing(fake, daskfc, files, words, said):
    result = daskfc("run", *files, *words)
    assert result.exit_code == 2
    assert said in one_line(result)
    assert result.stdout == ""
    assert FakeFederation.opened == 0
    assert not os.path.exists("runs")


def test_a_missing_pipeline_is_2(fake, daskfc):
    result = daskfc("run", "none.yaml")
    assert result.exit_code == 2
    assert "no such file" in one_line(result)


def test_a_mistyped_option_is_2(daskfc):
    assert daskfc("run", "p.yaml", "--storrage", "x").exit_code == 2


def test_an_existing_run_is_2(fake, daskfc, files):
    daskfc("run", *files)
    result = daskfc("run", *files)
    assert result.exit_code == 2
    assert "not written over" in one_line(result)


def test_a_failure_is_1_and_says_how_to_resume(fake, daskfc, files):
    FakeMethod.trouble[1] = party_error()
    result = daskfc("run", *files)
    assert result.exit_code == 1
    assert "step 'encode' of party 'client-1' failed" in one_line(result)
    assert "daskfc resume runs/a" in one_line(result)
    result = daskfc("resume", "runs/a")
    assert result.exit_code == 0, result.output
    assert "kappa" in result.stdout
    assert Run("runs/a").status == "done"


def test_a_failure_with_json_still_prints_one_object(fake, daskfc, files):
    FakeMethod.trouble[0] = DecodingError("answers of client-1 contradict the others")
    result = daskfc("run", *files, "--json")
    assert result.exit_code == 1
    summary = json.loads(result.stdout)
    assert summary["status"] == "failed"
    assert summary["resumable"] is True
    assert "contradict" in summary["error"]


def test_an_unexpected_error_is_one_line_without_traceback(fake, daskfc, files):
    FakeMethod.trouble[0] = ZeroDivisionError("a\nb")
    result = daskfc("run", *files)
    assert result.exit_code == 1
    assert "unexpected ZeroDivisionError" in one_line(result)
    assert "runs/a/log.txt" in one_line(result)


def test_an_interrupt_is_1_and_resumable(fake, daskfc, files):
    FakeMethod.trouble[0] = KeyboardInterrupt()
    result = daskfc("run", *files)
    assert result.exit_code == 1
    assert "daskfc resume runs/a" in one_line(result)
    assert daskfc("resume", "runs/a", "--json").exit_code == 0


SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@pytest.fixture
def heeded():
    """No signal is ignored: tests may themselves run in the background, or under nohup."""
    before = {each: signal.signal(each, signal.default_int_handler) for each in SIGNALS}
    yield
    for each, handler in before.items():
        signal.signal(each, handler)


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_to_end_is_an_interrupt_and_cleaning_up_is_not_disturbed(number, heeded):
    before = [signal.getsignal(each) for each in SIGNALS]
    cleaned = []

    @signals_as_interrupt()
    def work():
        try:
            signal.raise_signal(number)
        finally:
            for again in SIGNALS:
                signal.raise_signal(again)
            cleaned.append(True)

    with pytest.raises(KeyboardInterrupt):
        work()
    assert cleaned
    assert [signal.getsignal(each) for each in SIGNALS] == before


def test_a_signal_within_a_destructor_still_ends_the_run(heeded):
    class Interrupted:
        def __del__(self):
            signal.raise_signal(signal.SIGTERM)

    @signals_as_interrupt()
    def work():
        Interrupted()
        threading.Event().wait(30)

    hook = sys.unraisablehook
    with pytest.raises(KeyboardInterrupt):
        work()
    assert sys.unraisablehook is hook


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_other_errors_of_a_destructor_do_not_end_a_run(heeded):
    class Faulty:
        def __del__(self):
            raise ValueError

    with signals_as_interrupt():
        Faulty()


def test_a_signal_that_is_ignored_stays_so():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
    try:
        with signals_as_interrupt():
            signal.raise_signal(signal.SIGHUP)
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_an_interrupt_promises_nothing_that_is_not_left(fake, daskfc, files, monkeypatch):
    monkeypatch.setattr(FakeMethod, "can_start_again", lambda self: False)
    FakeMethod.trouble[0] = KeyboardInterrupt()
    result = daskfc("run", *files)
    assert result.exit_code == 1
    assert one_line(result) == "daskfc: interrupted."
    assert json.loads(daskfc("report", "runs/a", "--json").stdout)["resumable"] is False


def test_an_interrupt_of_a_run_that_is_done_is_none(fake, daskfc, files, monkeypatch):
    def interrupted(folder):
        raise KeyboardInterrupt

    monkeypatch.setattr("daskfc.runs.outcome.folder.RunFolder.drop_work", interrupted)
    result = daskfc("run", *files)
    assert result.exit_code == 0
    assert "kappa" in result.stdout


def test_an_interrupt_while_results_are_printed_says_that_the_run_is_done(
    fake, daskfc, files, monkeypatch
):
    def interrupted(*_):
        raise KeyboardInterrupt

    # the package has a command of the module's name
    monkeypatch.setattr(sys.modules["daskfc.cli.runs"], "_print", interrupted)
    result = daskfc("run", *files)
    assert result.exit_code == 1
    assert one_line(result) == ("daskfc: interrupted. The run is done; see: daskfc report runs/a")


def test_an_edited_run_is_2_and_one_line(fake, daskfc, files):
    FakeMethod.trouble[1] = party_error()
    daskfc("run", *files)
    record = Path("runs/a/run.json")
    record.write_text(record.read_text().replace('"n_clusters": 3', '"n_clusters": 4'))
    result = daskfc("resume", "runs/a")
    assert result.exit_code == 2
    assert "'pipeline.params.n_clusters' was changed since the run began" in one_line(result)


def test_a_report_without_a_summary_is_2_and_one_line(fake, daskfc, files):
    daskfc("run", *files)
    os.unlink("runs/a/summary.json")
    for words in (["report", "runs/a"], ["report", "runs/a", "--json"]):
        result = daskfc(*words)
        assert result.exit_code == 2
        assert "summary.json: is missing or damaged" in one_line(result)


def test_resume_of_a_done_run_is_2(fake, daskfc, files):
    daskfc("run", *files)
    result = daskfc("resume", "runs/a")
    assert result.exit_code == 2
    assert "nothing to resume" in one_line(result)


def test_resume_of_nothing_is_2(daskfc):
    result = daskfc("resume", "runs/none")
    assert result.exit_code == 2
    assert "run.json" in one_line(result)


def test_report_writes_the_page_again(fake, daskfc, files):
    daskfc("run", *files)
    os.unlink("runs/a/report.html")
    result = daskfc("report", "runs/a")
    assert result.exit_code == 0
    assert "report: runs/a/report.html" in result.stdout
    assert os.path.exists("runs/a/report.html")


def test_a_title_is_kept(fake, daskfc, files):
    daskfc("run", *files)
    assert daskfc("report", "runs/a", "--title", "Beds & <staff>").exit_code == 0
    for _ in range(2):
        with open("runs/a/report.html", encoding="utf-8") as page:
            assert "<h1>Beds &amp; &lt;staff&gt;</h1>" in page.read()
        daskfc("report", "runs/a")
    refused = daskfc("report", "runs/a", "--title", "")
    assert refused.exit_code == 2
    assert "one line of 1 to 200 characters" in one_line(refused)


def test_the_card_is_a_page_or_json(fake, daskfc, files):
    daskfc("run", *files)
    result = daskfc("card", "runs/a", "--purpose", "To plan beds")
    assert result.stdout == "card: runs/a/card.html\n"
    with open("runs/a/card.html", encoding="utf-8") as page:
        assert "To plan beds" in page.read()
    told = json.loads(daskfc("card", "runs/a", "--json").stdout)
    assert (told["purpose"], told["run"]) == ("To plan beds", "a")


def test_a_card_of_a_failed_run_is_refused(fake, daskfc, files):
    FakeMethod.trouble[0] = party_error()
    daskfc("run", *files)
    result = daskfc("card", "runs/a")
    assert result.exit_code == 2
    assert "a card is of a run that is done" in one_line(result)


def test_report_of_a_failed_run(fake, daskfc, files):
    FakeMethod.trouble[0] = party_error()
    daskfc("run", *files)
    result = daskfc("report", "runs/a")
    assert result.exit_code == 0
    assert "failed" in result.stdout


def test_a_warning_is_a_sentence_without_its_place(capsys):
    with exits():
        warnings.simplefilter("always")
        warnings.warn("samples are\n few.", UserWarning, stacklevel=1)
        warnings.warn("a name goes.", DeprecationWarning, stacklevel=1)
    told = "Note: samples are few.\nDeprecationWarning: a name goes.\n"
    assert capsys.readouterr().err == told


def test_an_unexpected_error_outside_a_run_leaves_its_traceback(capsys):
    with pytest.raises(SystemExit) as left, exits():
        raise LookupError("somewhere")
    assert left.value.code == 1
    sentence = capsys.readouterr().err
    path = sentence.split(" is in ")[1].split(". Please")[0]
    assert re.search(r"/daskfc-\w+\.log$", path)
    with open(path, encoding="utf-8") as log:
        assert "LookupError: somewhere" in log.read()
    os.unlink(path)


def test_compare_prints_runs_side_by_side(fake, daskfc, files):
    daskfc("run", *files)
    daskfc("run", *files[:-1], "b", "--set", "params.n_clusters=2")
    result = daskfc("compare", "runs/a", "runs/b")
    assert result.exit_code == 0, result.output
    lines = [line.split() for line in result.stdout.splitlines()]
    assert ["n_clusters", "3", "2"] in lines
    assert ["messages", "4", "4"] in lines
    assert ["payload", "bytes", "160", "bytes", "160", "bytes"] in lines


def test_compare_with_json_is_one_object(fake, daskfc, files):
    daskfc("run", *files)
    told = json.loads(daskfc("compare", "runs/a", "runs/a", "--json").stdout)
    assert list(told) == ["a (1)", "a (2)"]
    assert told["a (1)"]["cost"]["payload bytes"] == 160
    assert told["a (2)"]["clusters"]["agreement with a (ari)"] == 1.0


@pytest.mark.parametrize(
    ("folders", "said"), [(["none", "runs/a"], "none: no run is there"), (["runs/a"], "two runs")]
)
def test_compare_of_what_is_no_run_is_2(fake, daskfc, files, folders, said):
    daskfc("run", *files)
    result = daskfc("compare", *folders)
    assert result.exit_code == 2
    assert said in one_line(result)


def test_hidden_folders_are_no_runs(fake, daskfc, files):
    """A sync program keeps copies in some, and a run that is being removed lies in one."""
    assert daskfc("run", *files).exit_code == 0
    shutil.copytree("runs/a", "runs/.a.removed")
    found = json.loads(daskfc("runs", "--json").stdout)
    assert [row["name"] for row in found] == ["a"]


def test_a_run_tells_its_warnings_and_that_it_keeps_its_settings(monkeypatch, capsys):
    commands = importlib.import_module("daskfc.cli.runs")
    monkeypatch.setattr(commands, "changed_settings", lambda *_: "It keeps its settings.")
    config = {"warnings": ["Samples are few."]}
    for started, more in ((False, ""), (True, "Note: It keeps its settings.\n")):
        commands._note(SimpleNamespace(config={**config, "started": started}), "p.yaml", [])
        assert capsys.readouterr().err == f"Note: Samples are few.\n{more}"
