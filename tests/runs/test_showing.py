"""Where a run shows itself."""

import sys
from types import SimpleNamespace

import pytest

from daskfc.runs import run
from daskfc.runs.report.showing import run_in_html
from tests.runs.fakes import PIPELINE


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
    assert frame.startswith("<iframe title=")
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


def test_a_failed_run_says_why_and_escapes_it():
    page = run_in_html("a", {"status": "failed", "error": "no <disk>"}, "runs/a")
    assert "no &lt;disk&gt; In runs/a." in page
    assert "<table" not in page
