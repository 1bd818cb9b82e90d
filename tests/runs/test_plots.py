"""Figures of a run as matplotlib's axes: each shows the numbers of the run's folder."""

import sys

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba

import daskfc as fc
from daskfc.errors import InvalidInput
from daskfc.runs import Plots

SUMMARY = {
    "status": "done",
    "seeds": [4, 5],
    "methods": {"OmniFC": {}, "central": {}},
    "map": {"positions": [[0, 0], [9, 3], [1, 1], [5, 5]], "labels": [0, 1, 0, -1]},
    "quality": {
        "by_client": {"a": {"0": 5, "1": 2}, "b": {"0": 1, "1": 7}},
        "silhouette": 0.5, "silhouettes": {"0": 0.8, "1": 0.3},
    },
    "profiles": {
        "columns": ["age", "sex"],
        "clusters": [0, 1],
        "standardised": [[0.5, None], [-1.5, None]],
        "shares": {
            "sex": {
                "words": ["f", "m"],
                "overall": [0.6, 0.4, 0.0],
                "standardised": [[0.2, -0.2, None], [None, 0.4, None]],
            }
        },
    },
    "n_clusters_choice": {
        "n_clusters": 3, "by": "gap",
        "scores": {"2": 0.1, "3": 0.7, "4": None, "5": 0.6}, "errors": {"3": 0.05},
    },
}  # fmt: skip
LEDGER = pd.DataFrame(
    [
        ("OmniFC", 4, "coded", 3_000_000),
        ("OmniFC", 4, "coded", 1_000_000),
        ("OmniFC", 4, "plain", 500_000),
        ("OmniFC", 5, "plain", 9_000_000),  # another seed's
        ("central", 4, "raw", 2_000_000),
        ("evaluation", 4, "plain", 9_000_000),  # of no method
    ],
    columns=["method", "seed", "protection", "payload_bytes"],
)


@pytest.fixture(autouse=True)
def figures():
    """Draw without a screen, and leave no figure open."""
    with mpl.rc_context({"backend": "agg"}):
        yield
    plt.close("all")


@pytest.fixture
def plots():
    return Plots("a", SUMMARY, lambda: LEDGER)


def lengths(ax, side):
    return [round(getattr(bar, side)(), 6) for bars in ax.containers for bar in bars]


@pytest.mark.parametrize("name", ["map", "sizes", "profiles", "k_curve", "silhouette", "ledger"])
def test_each_draws_into_given_axes_or_into_a_figure_of_its_own(plots, name):
    given = plt.figure().add_subplot()
    assert getattr(plots, name)(given) is given
    own = getattr(plots, name)()
    assert isinstance(own, Axes)
    assert own.figure is not given.figure
    own.figure.canvas.draw()


def test_a_map_has_a_dot_a_sample_in_the_colour_of_its_cluster(plots):
    ax = plots.map(s=3)
    found = {one.get_label(): one for one in ax.collections}
    assert list(found) == ["noise", "cluster 0", "cluster 1"]
    np.testing.assert_array_equal(found["cluster 0"].get_offsets(), [[0, 0], [1, 1]])
    np.testing.assert_array_equal(found["noise"].get_offsets(), [[5, 5]])
    assert tuple(found["cluster 1"].get_facecolor()[0]) == to_rgba("C1")
    assert found["cluster 0"].get_sizes().tolist() == [3]


def test_the_figures_themselves_draw_the_map(plots):
    dots = [collection.get_offsets().data.tolist() for collection in plots(s=3).collections]
    assert dots == [one.get_offsets().data.tolist() for one in plots.map().collections]


def test_sizes_are_the_clusters_of_each_client(plots):
    ax = plots.sizes()
    assert lengths(ax, "get_height") == [5, 2, 1, 7]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["a", "b"]


def test_profiles_are_deviations_and_blank_where_withheld(plots):
    ax = plots.profiles()
    shown = np.ma.filled(ax.images[0].get_array(), np.nan)
    np.testing.assert_array_equal(shown, [[0.5, -1.5], [0.2, np.nan], [-0.2, 0.4]])
    names = [text.get_text() for text in ax.get_yticklabels()]
    assert names == ["age", "sex = f", "sex = m"]
    low, high = ax.images[0].get_clim()
    assert low == -high == -1.5


def test_the_curve_leaves_out_what_has_no_score_and_marks_the_choice(plots):
    ax = plots.k_curve()
    curve, ring = ax.lines[0], ax.lines[-1]
    assert (curve.get_xdata().tolist(), curve.get_ydata().tolist()) == ([2, 3, 5], [0.1, 0.7, 0.6])
    assert (list(ring.get_xdata()), list(ring.get_ydata())) == ([3], [0.7])
    assert ax.get_ylabel() == "gap"


def test_silhouettes_are_the_clusters_beside_that_of_all(plots):
    ax = plots.silhouette()
    assert lengths(ax, "get_height") == [0.8, 0.3]
    assert list(ax.lines[0].get_ydata()) == [0.5, 0.5]
    alone = {**SUMMARY, "quality": {"silhouette": 0.4}}  # of a run that told no cluster's
    assert list(Plots("a", alone, lambda: LEDGER).silhouette().lines[0].get_ydata()) == [0.4, 0.4]


def test_bytes_are_those_of_the_first_fit_of_each_method(plots):
    ax = plots.ledger()
    by_kind = {bars.get_label(): [bar.get_width() for bar in bars] for bars in ax.containers}
    assert by_kind == {"plain": [0.0, 0.5], "coded": [0.0, 4.0], "raw": [2.0, 0.0]}
    assert [text.get_text() for text in ax.get_yticklabels()] == ["central", "OmniFC"]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("map", "run 'a' has no map of its samples; its status is 'failed'"),
        ("sizes", "run 'a' has no clusters"),
        ("profiles", "Write 'profiles: true' in its pipeline"),
        ("k_curve", "where the pipeline says 'n_clusters: auto'"),
        ("silhouette", "has no silhouette"),
        ("ledger", "has no messages"),
    ],
)
def test_what_a_run_has_not_is_not_drawn(name, words):
    empty = Plots("a", {"status": "failed", "map": {}, "quality": {}}, lambda: LEDGER)
    with pytest.raises(InvalidInput, match=words):
        getattr(empty, name)()


def test_without_matplotlib_a_sentence_names_the_extra(plots, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(InvalidInput, match=r"pip install 'daskfc\[figures\]'"):
        plots.sizes()


@pytest.mark.slow
def test_a_run_draws_what_its_summary_says(tmp_path):
    storage = {
        "source": {"dataset": "wine"},
        "partition": {"scheme": "iid", "clients": 3},
        "root": str(tmp_path / "stores"),
    }
    pipeline = {
        "method": "omnifc",
        "params": {"n_clusters": [2, 4], "clusterer": "kmeans"},
        "prepare": ["standardise"],
        "profiles": True,
    }
    run = fc.run(pipeline, storage=storage, runs_dir=tmp_path / "runs")
    assert run.config["pipeline"]["method"] == "OmniFC"
    assert sum(len(dots.get_offsets()) for dots in run.plot.map().collections) == 178
    assert sum(lengths(run.plot.sizes(), "get_height")) == 178
    assert len(run.plot.profiles().get_yticklabels()) == 13
    assert run.plot.k_curve().lines[0].get_xdata().tolist() == [2, 3, 4]
    assert run.plot.silhouette().lines[0].get_ydata()[0] == run.summary["quality"]["silhouette"]
    own = run.ledger[run.ledger["method"] == "OmniFC"]["payload_bytes"].sum()
    assert sum(lengths(run.plot.ledger(), "get_width")) == pytest.approx(own / 1e6, rel=1e-6)
