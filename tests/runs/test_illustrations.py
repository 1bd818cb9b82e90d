"""What a report draws, by what a run's folder holds."""

import numpy as np
import pandas as pd
import pytest

from daskfc.federation import Ledger
from daskfc.privacy import Accountant, GaussianEvent
from daskfc.runs.outcome.communication import ledger_frame
from daskfc.runs.outcome.evaluate import Truth, confusion_of
from daskfc.runs.report.illustrations import (
    of_classes,
    of_clusters,
    of_privacy,
    of_profiles,
    of_resources,
    of_traffic,
)
from daskfc.runs.report.profile_rows import profile_heat_map
from daskfc.runs.report.report import own_rows, report_html
from tests.runs.fakes import ledger_row

QUALITY = {
    "sizes": {"0": 3, "1": 1},
    "by_client": {"a": {"0": 3, "1": 0}, "b": {"0": 0, "1": 1}},
    "noise": 0.2,
    "stability": 0.91234,
    "silhouette": 0.4321,
    "warnings": ["look & see"],
}


def rows(*changes):
    return ledger_frame(Ledger([ledger_row(**row) for row in changes]))


def titles(figures):
    return [figure.title for figure in figures]


def test_the_report_shows_clusters_and_warnings():
    page = report_html({"run_id": "r", "status": "done"}, {"quality": QUALITY})
    said = ("Sizes, and what each", "20.0 % of the", "index 0.912", "0.432, of", "look &amp; see",
            "Cluster 0", "<b>weakly</b>", "<b>excellent</b>")  # fmt: skip
    for words in said:
        assert words in page
    assert page.count("<svg") == 1
    assert ">Clusters<" not in report_html({"run_id": "r", "status": "failed"}, {})


def test_the_confusion_of_classes_and_clusters_is_counted():
    truth = Truth(np.array([1, 0, 0, 1, 1]), classes=("<ill>", "well"))
    confusion = confusion_of(truth, np.array([4, 2, 4, 4, -1]))
    assert confusion == {
        "classes": ["<ill>", "well"],
        "clusters": ["noise", "2", "4"],
        "counts": [[0, 1, 1], [1, 0, 2]],
    }
    (figure,) = of_classes({"quality": QUALITY, "confusion": confusion})
    assert "&lt;ill&gt;" in figure.drawing
    assert titles(of_clusters({"quality": QUALITY})) == ["Sizes, and what each site has"]
    assert confusion_of(Truth(np.array([7, 3])), np.array([0, 0]))["classes"] == ["3", "7"]


def test_labels_that_tell_samples_apart_are_in_no_table():
    assert confusion_of(Truth(np.arange(41)), np.zeros(41, int)) == {}
    assert confusion_of(Truth(np.zeros(41, int)), np.arange(41)) == {}
    assert len(confusion_of(Truth(np.arange(40)), np.zeros(40, int))["counts"]) == 40
    assert confusion_of(Truth(None), np.zeros(3, int)) == {}


def test_the_map_says_what_it_shows():
    told = {"positions": [[0, 0], [255, 9]], "labels": [0, 1], "told": "Two directions & more."}
    page = report_html({"run_id": "r", "status": "done"}, {"map": told, "quality": QUALITY})
    assert "<h3>Map of the samples</h3>" in page
    assert "Two directions &amp; more." in page
    assert "<title>cluster 0: 3 samples; 3 at a</title>" in page
    assert "<title>cluster 1: 1 samples; 1 at b</title>" in page


def test_profiles_show_what_sets_clusters_apart_first():
    profiles = {
        "columns": ["pulse", "<age>"],
        "clusters": ["0", "1"],
        "means": [[61.0, 70.5], [72.0, 1.0]],
        "stds": [[2.0, 1.0], [3.0, 0.5]],
        "overall_mean": [66.0, 40.0],
        "standardised": [[-2.04, 0.1], [1.0, None]],
    }
    page = profile_heat_map(profiles)
    assert page.index("pulse") < page.index("&lt;age&gt;")
    for words in ("-2.0", "+1.0", "+0.1"):
        assert words in page
    lies, off = of_profiles(profiles)
    assert (off.title, off.drawing) == ("Off the mean of all samples", page)
    assert "pulse" in lies.drawing
    assert profile_heat_map(None) == profile_heat_map({"columns": [], "standardised": []}) == ""


def test_words_have_a_row_each_in_a_heat_map():
    sex = {"words": ["f", "m"], "overall": [0.4, 0.6, 0.0],
           "standardised": [[-0.3, 0.3, None], [0.2, -0.2, None]]}  # fmt: skip
    profiles = {"columns": ["sex", "age"], "clusters": [0, 1], "shares": {"sex": sex},
                "standardised": [[None, 1.5], [None, None]]}  # fmt: skip
    page = profile_heat_map(profiles)
    assert page.index("sex = m") < page.index("sex = f") < page.index("age")
    assert "+0.3" in page
    assert "other" not in page


def test_only_the_first_fit_of_the_runs_own_method_is_drawn():
    frame = pd.concat(
        [
            rows({"message": name}).assign(method=method, seed=seed)
            for name, method, seed in [("A", "M", 1), ("B", "M", 0), ("C", "other", 1)]
        ]
    )
    assert own_rows(frame, {"method": "M", "seeds": [1, 0]})["message"].tolist() == ["A"]
    assert own_rows(pd.DataFrame(), {"method": "M", "seeds": [0]}).empty
    assert own_rows(frame, {}).empty


def test_bytes_of_links_add_up():
    frame = rows(
        {"sender": "b", "receiver": "server", "payload_bytes": 1000},
        {"sender": "b", "receiver": "server", "payload_bytes": 500},
        {"sender": "server", "receiver": "b", "payload_bytes": 20, "message": "Plan"},
        {"sender": "server", "receiver": "caller", "payload_bytes": 30, "message": "Told"},
    )
    (links,) = of_traffic(frame)
    head = [part.split("<")[0] for part in links.drawing.split('scope="col">')[1:]]
    assert head == ["from", "b", "server", "caller"]
    assert "<td>·</td>" in links.drawing
    for size in ("1.5 kB", "20 bytes", "30 bytes"):
        assert size in links.drawing
    assert of_traffic(rows()) == []


def test_many_clients_are_one_in_pictures_of_messages():
    frame = rows(*({"sender": f"client-{i}", "payload_bytes": 100} for i in range(7)))
    (links,) = of_traffic(frame)
    assert ">7 clients<" in links.drawing
    assert ">700 bytes<" in links.drawing
    assert "client-3" not in links.drawing


def test_what_noise_cost_each_client_is_drawn_release_by_release():
    frame = rows(
        {"sender": "a", "task": "1", "noise_multiplier": 4.0},
        {"sender": "a", "task": "2", "noise_multiplier": 4.0},
        {"sender": "a", "task": "2", "noise_multiplier": 4.0},  # the same, sent again
        {"sender": "b", "task": "3", "noise_multiplier": 4.0},
        {"sender": "b", "task": "4"},
    )
    once, twice = (Accountant((GaussianEvent(4.0),) * n).epsilon(1e-5) for n in (1, 2))
    figures = of_privacy(frame, {"delta": 1e-5, "epsilon": twice})
    assert titles(figures) == ["What the releases of each client cost", "How ε of a grew"]
    for epsilon in (once, twice):
        assert f"ε = {epsilon:.3g}" in figures[0].drawing
    assert f"from {once:.3g} to {twice:.3g} over 2" in figures[1].drawing
    assert "earlier" not in figures[0].caption
    (bars, _) = of_privacy(frame, {"delta": 1e-5, "epsilon": 9.5})
    assert "With earlier starts of it, 9.5." in bars.caption


@pytest.mark.parametrize("noise", [None, {}, {"delta": None}])
def test_noise_without_a_guarantee_has_no_figure(noise):
    assert of_privacy(rows({"noise_multiplier": 4.0}), noise) == []


def test_parties_stand_in_one_order_the_server_first():
    told = {
        "stages": [["planning", 1.0, 2.0], ["rounds", 2.0, 5.0]],
        "peak_memory_bytes": {"b": 2 * 10**8, "a": 10**8, "server": 3 * 10**8},
    }
    line, memory = of_resources(told, rows({"sender": "a", "time": 3.0}))
    places = [line.drawing.index(f">{name}<") for name in ("server", "b", "a")]
    assert places == sorted(places)
    assert "300.0 MB" in memory.drawing
    assert titles(of_resources({}, rows())) == []
