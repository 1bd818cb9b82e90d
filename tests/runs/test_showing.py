"""Where a run shows itself."""

import sys
from types import SimpleNamespace

import pytest

from daskfc.federation import Ledger
from daskfc.federation.planning.traffic import Network
from daskfc.runs import Plan, load_pipeline, run
from daskfc.runs.outcome.communication import ledger_frame
from daskfc.runs.planning.plan import Planned
from daskfc.runs.report.showing import run_in_html
from tests.runs.fakes import PIPELINE, ledger_row


@pytest.fixture
def done(fake, storage, tmp_path):
    return run(PIPELINE, storage=storage, runs_dir=tmp_path / "runs", name="a")


def test_a_run_opens_its_report_in_the_browser(done, monkeypatch):
    opened = []
    monkeypatch.setattr("webbrowser.open", lambda url: opened.append(url) or True)
    path = done.show()
    assert opened == [f"file://{path}"]
    assert path == str((done.folder / "report.html").absolute())


def test_without_a_browser_its_tables_are_printed(done, monkeypatch, capsys):
    monkeypatch.setattr("webbrowser.open", lambda url: False)
    done.show()
    assert "Agreement with the true labels" in capsys.readouterr().out


def test_a_notebook_shows_it_below_the_cell(done, monkeypatch):
    shown = []
    monkeypatch.setattr("webbrowser.open", lambda url: pytest.fail("a browser was opened"))
    kernel = SimpleNamespace(get_ipython=lambda: SimpleNamespace(kernel=object()))
    display = SimpleNamespace(HTML=lambda text: text, display=shown.append)
    monkeypatch.setitem(sys.modules, "IPython", kernel)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    done.show()
    (frame,) = shown
    assert frame.startswith("<div><iframe title=")
    assert "&lt;h1&gt;a&lt;/h1&gt;" in frame
    assert "<script" not in frame


def test_ipython_in_a_terminal_is_no_notebook(done, monkeypatch):
    opened = []
    monkeypatch.setattr("webbrowser.open", lambda url: opened.append(url) or True)
    monkeypatch.setitem(
        sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: SimpleNamespace())
    )
    done.show()
    assert len(opened) == 1


def test_a_run_is_a_table_in_a_notebook(done):
    page = done._repr_html_()
    for words in ("Run a: done, Fake on 150 samples of 3 clients", "kappa", "clusters", "runs/a"):
        assert words in page
    summary = {**done.summary, "timing": {"total_s": 75.0}}
    assert "of 3 clients, in 75.0 s<" in run_in_html("a", summary, "runs/a")


def test_a_failed_run_says_why_and_escapes_it():
    page = run_in_html("a", {"status": "failed", "error": "no <disk>"}, "runs/a")
    assert "no &lt;disk&gt; In runs/a." in page
    assert "<table" not in page


def test_a_run_in_a_cell_tells_its_stages_unless_its_caller_is_told(
    fake, storage, tmp_path, monkeypatch
):
    shown, told = [], []
    kernel = SimpleNamespace(get_ipython=lambda: SimpleNamespace(kernel=object()))
    line = SimpleNamespace(update=shown.append)
    display = SimpleNamespace(HTML=lambda text: text, display=lambda text, display_id: line)
    monkeypatch.setitem(sys.modules, "IPython", kernel)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    where = {"storage": storage, "runs_dir": tmp_path / "runs"}
    run(PIPELINE, name="quiet", progress=lambda *stage: told.append(stage), **where)
    assert shown == []
    run(PIPELINE, name="loud", **where)
    assert shown[0].startswith("loud: starting the workers")
    assert shown[-1].startswith("loud: done after ")
    stages = {stage for stage, *_ in told} - {"building the stores"}
    assert all(any(f"loud: {stage}" in one for one in shown) for stage in stages)


def test_a_plan_is_a_table_in_a_notebook():
    frame = ledger_frame(Ledger([ledger_row(), ledger_row(payload_bytes=2000)]))
    memory = {"a": (300, "rows"), "server": (1_234_567, "distances")}
    part = Planned("OmniFC", 2, ledger=frame, rounds=7, seconds=1.26, memory=memory)
    refused = Planned("k-FED", refused="k-FED would be refused: <why>")
    pipeline = load_pipeline({"method": "OmniFC", "params": {"n_clusters": 3}})
    page = Plan(pipeline, {"a": 3}, {}, Network(), (part, refused))._repr_html_()
    for words in ("OmniFC with 1 clients", ">7<", ">2,040<", ">1.3<", ">1,234,567<", "&lt;why&gt;"):
        assert words in page
    assert page.count("<tr>") == 2
