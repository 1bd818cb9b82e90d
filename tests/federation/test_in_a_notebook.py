"""What a notebook needs: progress below a cell, completion, labels of what is there."""

import sys
from types import SimpleNamespace

import pytest

from daskfc.errors import InvalidInput
from daskfc.federation.driver import stage
from daskfc.federation.driver.contract import Contract
from daskfc.federation.driver.stage import Notice, Stage, followed_in_cell, shown_in_cell
from tests.federation.methods import Above, AboveOfCaller


class Cell:
    """What is displayed below a cell, line by line, each as it is now."""

    def __init__(self):
        self.lines = []

    def HTML(self, text):
        return text

    def display(self, text, display_id=False):
        self.lines.append(text)
        place = len(self.lines) - 1
        return SimpleNamespace(update=lambda text: self.lines.__setitem__(place, text))


@pytest.fixture
def cell(monkeypatch):
    kernel = SimpleNamespace(get_ipython=lambda: SimpleNamespace(kernel=object()))
    monkeypatch.setitem(sys.modules, "IPython", kernel)
    monkeypatch.setitem(sys.modules, "IPython.display", Cell())
    return sys.modules["IPython.display"]


@pytest.fixture
def clock(monkeypatch):
    now = SimpleNamespace(s=100.0)
    monkeypatch.setattr(stage.time, "monotonic", lambda: now.s)
    return now


def test_one_line_tells_the_stage_how_far_it_is_and_how_it_ended(cell, clock):
    with shown_in_cell("OmniFC <1>") as told:
        told(Stage("distances", "tiles"), 0, 0)
        assert cell.lines == ["OmniFC &lt;1&gt;: distances (tiles) …"]
        told(Stage("k & means", "starts"), 3, 1000)
        words = 'k &amp; means (starts) <progress value="3" max="1000"></progress> 3 of 1,000'
        assert cell.lines == [f"OmniFC &lt;1&gt;: {words}"]
        clock.s = 102.5
    assert cell.lines == ["OmniFC &lt;1&gt;: done after 2.5 s"]


def test_it_is_not_drawn_more_than_ten_times_a_second(cell, clock):
    with shown_in_cell("fit") as told:
        for done in range(5):
            told("rounds", done, 10)
        assert "0 of 10" in cell.lines[0]
        clock.s += 0.2
        told("rounds", 6, 10)
        assert "6 of 10" in cell.lines[0]
        told("rounds", 10, 10)  # the last one always
        assert "10 of 10" in cell.lines[0]
        told("labels", 0, 0)  # and what begins
        assert "labels" in cell.lines[0]


def test_a_share_of_the_whole_is_the_bar(cell, clock):
    with shown_in_cell("run") as told:
        told(Stage("rounds", "of clients", 0.427), 3, 10)
        bar = '<progress value="0.427" max="1"></progress> 43%'
        assert cell.lines == [f"run: rounds (of clients) 3 of 10 {bar}"]
        told(Stage("labels", share=0.99), 0, 0)
        assert cell.lines == ['run: labels … <progress value="0.99" max="1"></progress> 99%']


def test_a_notice_stays(cell, clock):
    with shown_in_cell("run") as told:
        told(Notice("Note: <b>"), 0, 0)
        told("labels", 0, 0)
    assert cell.lines == ["run: done after 0.0 s", "Note: &lt;b&gt;"]


def test_what_fails_says_that_it_stopped(cell, clock):
    with pytest.raises(KeyError), shown_in_cell("fit"):
        raise KeyError
    assert cell.lines == ["fit: stopped after 0.0 s"]


def test_a_caller_who_is_told_otherwise_gets_no_line(cell):
    told = []
    federation = SimpleNamespace(on_progress=told.append)
    with followed_in_cell(federation, "fit"):
        assert federation.on_progress == told.append
    assert cell.lines == []


def test_nothing_is_shown_outside_of_a_notebook():
    with shown_in_cell("fit") as told:
        assert told is None


def test_a_fit_in_a_cell_shows_itself_and_leaves_the_federation_as_it_was(federation, cell):
    method = Above(18).fit(federation)
    (line,) = cell.lines
    assert line.startswith("Above: done after ")
    assert federation.on_progress is None
    assert method.labels_.sizes["sample"] == 18


def test_completion_offers_what_users_need(federation):
    method = Above(18).fit(federation)
    offered = {name for name in dir(method) if name[0] != "_"}
    assert offered >= {
        "fit", "predict", "fit_predict", "labels_", "ledger_", "timing_", "get_params", "save",
        "load", "n_samples", "random_state", "scores_of",
    }  # fmt: skip
    assert not offered & {"rehearse", "can_start_again", "mapped_by", "released_before", "split"}
    assert all(hasattr(method, name) for name in offered)
    of_federation = {name for name in dir(federation) if name[0] != "_"}
    assert of_federation == {
        "allow_raw", "clients", "close", "connect", "contract", "dashboard_link", "dask_client",
        "ledger", "limits", "local", "on_progress", "opening_ledger", "parties", "peak_memory",
        "preparation", "processes", "pseudonyms", "results", "run_id", "server", "server_workers",
        "simulate", "smallest", "trusted", "workspace",
    }  # fmt: skip


def test_without_stores_the_clients_own_samples_are_labelled(federation, monkeypatch):
    for method in (Above(18), AboveOfCaller(18)):
        labels = method.fit(federation).labels_
        assert method.predict(federation).identical(labels)
        with pytest.raises(InvalidInput, match=r"got list of client 'client-1'. Write them"):
            method.predict(federation, {"client-1": [[1.0]]})
    there = Contract(columns=federation.contract.columns, builds=federation.contract.builds)
    monkeypatch.setattr(federation, "_contract", there)  # whose stores only their sites can read
    with pytest.raises(InvalidInput, match=r"got none.*read labels_ for the samples of fit"):
        method.predict(federation)
