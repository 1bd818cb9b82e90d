"""The number of clusters: what is refused, what is chosen, and what a resumed run goes on with."""

import warnings
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from sklearn.datasets import make_blobs
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import calinski_harabasz_score, silhouette_score

from daskfc import FedSC, OmniFC
from daskfc.baselines import BASELINES
from daskfc.errors import InvalidInput
from daskfc.federation import Federation, Ledger
from daskfc.federation.methods.cluster_scores import Scores
from daskfc.protocols import METHODS
from daskfc.protocols.omnifc import clusters
from daskfc.runs import RunFailed, check_pipeline, load_pipeline, resume, run
from daskfc.runs.execution.choice import choose_n_clusters
from daskfc.runs.pipeline.methods import candidates_of
from daskfc.runs.report.report import report_html
from daskfc.runs.report.table import choice_in_words
from daskfc.testing.federation import stores_of
from tests.runs.fakes import FakeMethod, party_error

# -- what can be asked for ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "n_samples", "expected"),
    [
        ("auto", None, range(2, 13)),
        ("auto", 100, range(2, 13)),
        ("auto", 6, range(2, 6)),
        ([2, 12], 13, range(2, 13)),
        ((3, 4), None, range(3, 5)),
        (3, 2, None),
        (None, None, None),
    ],
)
def test_numbers_to_choose_from(asked, n_samples, expected):
    assert candidates_of(asked, n_samples) == expected


@pytest.mark.parametrize(
    ("asked", "n_samples", "match"),
    [
        ("many", None, "must be a number, 'auto', or a list of the least and the most"),
        ([1, 3], None, "the least of at least 2 and the most above it"),
        ([3, 3], None, "the least of at least 2 and the most above it"),
        ([2, 3, 4], None, "must be a list of two ints"),
        ([2, 3.5], None, "must be a list of two ints"),
        ([2, 10], 10, "must end below the number of samples, 10; got \\[2, 10\\]"),
        ("auto", 2, "must end below the number of samples, 2"),
    ],
)
def test_ranges_that_cannot_be(asked, n_samples, match):
    with pytest.raises(InvalidInput, match=match):
        candidates_of(asked, n_samples)


NOISE = {"kind": "data", "clip": 1.0, "epsilon": 1.0, "delta": 1e-5}


@pytest.mark.parametrize(
    ("method", "params", "more", "match"),
    [
        ("OmniFC", {"clusterer": {"dbscan": {"eps": 1.0}}}, {}, "must be left out with clusterer"),
        ("OmniFC", {"clusterer": "k-means"}, {"choose": "eigengap"},
         "by 'eigengap'; it can be by 'silhouette-modularity', 'silhouette', 'modularity', "
         "'calinski-harabasz', 'gap', 'stability'"),
        ("OmniFC", {"clusterer": "hierarchical"}, {"choose": "gap"}, "cannot be chosen by 'gap'"),
        ("OmniFC", {"clusterer": {"k-means": {"rows": "distances"}}}, {"choose": "gap"},
         "cannot be chosen by 'gap'"),
        ("FedSC", {}, {"choose": "silhouette"}, "it can be by 'eigengap', 'stability'"),
        ("FedSC", {"noise": NOISE}, {}, "every fit is a release of its own"),
        ("FedSC", {}, {"choose": {"by": "stability", "seeds": [0]}}, "two different seeds or more"),
        ("FedSC", {}, {"choose": {"seeds": [0, 0]}}, "two different seeds or more"),
        ("FedSC", {"n_clusters": 3}, {"choose": "stability"}, "'n_clusters' leaves no choice"),
        ("FedSC", {"n_clusters": [2, 150]}, {}, "must end below the number of samples, 150"),
    ],
)  # fmt: skip
def test_choices_that_cannot_be_made_are_refused_before_the_start(method, params, more, match):
    given = {"method": method, "params": {"n_clusters": "auto", **params}, **more}
    with pytest.raises(InvalidInput, match=match):
        check_pipeline(load_pipeline(given), n_clients=5, n_samples=150)


def test_what_choose_may_hold():
    base = {"method": "FedSC", "params": {"n_clusters": "auto"}}
    with pytest.raises(InvalidInput, match="must be a criterion, or a mapping with 'by'"):
        load_pipeline({**base, "choose": {"with": "stability"}})
    pipeline = load_pipeline({**base, "choose": "stability"})
    assert pipeline.choose == {"by": "stability"}
    assert load_pipeline(pipeline.as_dict()) == pipeline


# -- a run without workers ------------------------------------------------------------------------


class Parts(FakeMethod):
    """Finds the same three clusters with every seed, and any other number by chance."""

    def fit(self, federation, y=None):
        seed, k = self.random_state, self.n_clusters
        FakeMethod.fits.append((k, seed, federation.preparation is not None))
        super().fit(federation)
        if k != 3:
            chance = np.random.default_rng([seed, k]).integers(0, k, self.labels_.size)
            self.labels_ = self.labels_.copy(data=chance)
        return self


class Other(Parts):
    """A method to compare with."""


@pytest.fixture
def start(fake, storage, tmp_path, monkeypatch):
    monkeypatch.setitem(METHODS, "Parts", Parts)
    monkeypatch.setitem(BASELINES, "Other", Other)

    def begin(name="a", **changes):
        pipeline = {"method": "Parts", "params": {"n_clusters": [2, 4]}, "compare": ["Other"]}
        return run({**pipeline, **changes}, storage=storage, runs_dir=tmp_path, name=name)

    return begin


def fits_of(k, *, shifted):
    return [seed for own, seed, moved in (f for f in FakeMethod.fits if len(f) == 3)
            if own == k and moved == shifted]  # fmt: skip


def test_a_run_goes_on_with_the_number_that_is_stable(start):
    done = start()
    choice = done.summary["n_clusters_choice"]
    assert (choice["n_clusters"], choice["by"]) == (3, "stability")
    assert choice["scores"]["3"] == 1.0
    assert abs(choice["scores"]["2"]) < 0.1
    assert fits_of(2, shifted=True) == [0, 1, 2]
    assert fits_of(3, shifted=False) == [0, 0]  # the run's own, and the compared one
    assert fits_of(4, shifted=False) == []
    assert done.summary["params"] == {"n_clusters": [2, 4]}
    assert set(done.all_labels["algorithm"].to_numpy()) == {"Parts", "Other"}
    assert (done.ledger["method"] == "choice").sum() == 9 * 4
    page = report_html(done.config, done.summary)
    assert "Chosen number of clusters: 3, by stability" in page
    for step in ("clusters", "2", "3", "4"):
        assert f">{step}</text>" in page
    assert page.count('r="5" class="fill g0"') == 1  # the chosen one, on the curve
    assert 'over 3 clusters"' in page
    assert "the largest that was tried" not in page


def test_the_largest_that_was_tried_is_told_to_be_that():
    choice = {"n_clusters": 12, "by": "gap", "why": "w", "scores": {"2": 0.1, "12": 0.2}}
    assert choice_in_words(choice).endswith(
        "It is the largest that was tried, so that more may fit better: n_clusters: [2, 24] looks "
        "further."
    )
    assert choice_in_words({**choice, "n_clusters": 2}).endswith("2: 0.100, 12: 0.200.")
    assert choice_in_words({**choice, "scores": {"12": 0.2}}).endswith(" 12: 0.200.")


def test_seeds_of_stability_can_be_given(start):
    start(choose={"by": "stability", "seeds": [7, 8]})
    assert fits_of(4, shifted=True) == [7, 8]


def test_a_resumed_run_keeps_what_was_fitted_and_chooses_the_same(start, tmp_path):
    whole = start().summary["n_clusters_choice"]
    FakeMethod.fits.clear()
    FakeMethod.trouble[2] = party_error()  # in the last fit with two clusters
    with pytest.raises(RunFailed):
        start("b")
    assert fits_of(2, shifted=True) == [0, 1, 2]
    done = resume(tmp_path / "b")
    assert fits_of(2, shifted=True) == [0, 1, 2, 2]
    assert done.summary["n_clusters_choice"] == whole
    assert (done.ledger["method"] == "choice").sum() == 9 * 4


def test_a_run_that_breaks_off_after_the_choice_does_not_choose_again(start, tmp_path):
    FakeMethod.trouble[9] = party_error()
    with pytest.raises(RunFailed):
        start("b", seeds=[9], choose={"seeds": [0, 1]})
    before = len(FakeMethod.fits)
    done = resume(tmp_path / "b")
    assert len(fits_of(2, shifted=True)) == 2
    assert len(FakeMethod.fits) == before + 2 * 2  # each fake fit tells twice
    assert done.summary["n_clusters_choice"]["n_clusters"] == 3
    assert (done.ledger["method"] == "choice").sum() == 6 * 4


class Scored(Parts):
    """Its server tells scores of all numbers at once."""

    criteria = ("silhouette",)
    criterion = "silhouette"
    asked: list = []  # noqa: RUF012 - what was scored, over all instances

    def scores_of(self, federation, n_clusters, *, by):
        Scored.asked.append((tuple(n_clusters), by))
        federation.start_run("scoring", random_state=0)
        return {k: None if k == 2 else 1.0 / k for k in n_clusters}


def test_scores_of_a_server_are_asked_for_once(start, tmp_path, monkeypatch):
    monkeypatch.setitem(METHODS, "Scored", Scored)
    FakeMethod.trouble[0] = party_error()
    Scored.asked.clear()
    with pytest.raises(RunFailed):
        start("b", method="Scored")
    done = resume(tmp_path / "b")
    assert Scored.asked == [((2, 3, 4), "silhouette")]
    choice = done.summary["n_clusters_choice"]
    assert (choice["n_clusters"], choice["by"]) == (3, "silhouette")
    assert choice["scores"] == {"2": None, "3": 1 / 3, "4": 0.25}
    assert (done.ledger["method"] == "choice").sum() == 1
    assert "2: none" in report_html(done.config, done.summary)


class Gaps(Parts):
    """Its server tells gap statistics."""

    criteria = ("silhouette", "gap")
    told = Scores({2: 0.5, 3: 0.9, 4: 0.95})

    def scores_of(self, federation, n_clusters, *, by):
        return self.told


@pytest.mark.parametrize(
    ("scores", "errors", "expected"),
    [
        ({2: 0.5, 3: 0.9, 4: 0.95}, {2: 0.01, 3: 0.01, 4: 0.06}, 3),
        ({2: 0.5, 3: 0.9, 4: 0.95}, {2: 0.06, 3: 0.06, 4: 0.01}, 4),  # it rises to the end
        ({2: 0.9, 3: 0.5, 4: 2.0}, {2: 0.0, 3: 0.0, 4: 0.0}, 2),  # the first, not the best
        ({2: 0.5, 3: 0.9, 4: None}, {2: 0.1, 3: 0.1}, 3),
    ],
)
def test_the_gap_statistics_rule(scores, errors, expected, monkeypatch):
    monkeypatch.setattr(Gaps, "told", Scores(scores, errors))
    nowhere = SimpleNamespace(ledger=Ledger([]), preparation=None)
    found = choose_n_clusters(nowhere, Gaps(2), range(2, 5), by="gap")
    assert (found.n_clusters, found.by) == (expected, "gap")
    assert found.as_dict()["errors"] == {str(k): error for k, error in errors.items()}


class Both(Parts):
    """Its server tells a criterion that is made of two."""

    criteria = ("silhouette-modularity",)
    criterion = "silhouette-modularity"

    def scores_of(self, federation, n_clusters, *, by):
        parts = {"silhouette": {2: 0.5, 3: 0.8, 4: None}, "modularity": {2: 0.6, 3: 0.5, 4: None}}
        return Scores({2: 0.3, 3: 0.4, 4: None}, None, parts)


def test_the_curves_of_which_a_criterion_is_made_are_kept_and_drawn(start, tmp_path, monkeypatch):
    monkeypatch.setitem(METHODS, "Both", Both)
    FakeMethod.trouble[0] = party_error()  # after the choice, which is read again
    with pytest.raises(RunFailed):
        start("b", method="Both")
    done = resume(tmp_path / "b")
    choice = done.summary["n_clusters_choice"]
    assert choice["n_clusters"] == 3
    assert choice["parts"] == {
        "silhouette": {"2": 0.5, "3": 0.8, "4": None},
        "modularity": {"2": 0.6, "3": 0.5, "4": None},
    }
    page = report_html(done.config, done.summary)
    for curve in ("silhouette-modularity", "silhouette", "modularity"):
        assert f">{curve}<" in page
    ax = done.plot.k_curve()
    drawn = {line.get_label(): line.get_ydata().tolist() for line in ax.get_lines()}
    assert drawn["silhouette"] == [0.5, 0.8]
    assert drawn["modularity"] == [0.6, 0.5]


def test_a_gap_statistic_is_kept_with_its_error(start, monkeypatch):
    monkeypatch.setitem(METHODS, "Gaps", Gaps)
    monkeypatch.setattr(Gaps, "told", Scores({2: 0.5, 3: 0.9, 4: 0.8}, {3: 0.015625}))
    done = start(method="Gaps", choose="gap")
    assert done.summary["n_clusters_choice"]["errors"] == {"3": 0.015625}
    assert "3: 0.900 ± 0.016" in report_html(done.config, done.summary)


class Nowhere:
    """A federation that nothing is asked of."""

    clients = ("a",)
    preparation = None


def stable(agreeing):
    """Fits that agree for some numbers of clusters, and not at all for others."""

    def fit(k, seed):
        warnings.warn("not chosen yet", ConvergenceWarning, stacklevel=1)
        chance = np.random.default_rng(seed).integers(0, k, 60)
        labels = np.arange(60) % k if k in agreeing else chance
        return xr.DataArray(labels, dims="sample"), pd.DataFrame({"message": [f"{k}-{seed}"]})

    return fit


def test_of_numbers_as_stable_the_largest_is_chosen():
    found = choose_n_clusters(
        Nowhere(), FedSC(2), range(2, 7), by="stability", fitting=stable({2, 3, 4})
    )
    assert found.n_clusters == 4
    assert len(found.ledger) == 5 * 3
    assert Nowhere.preparation is None


def test_stability_that_tells_nothing_is_not_taken_for_a_choice():
    with pytest.raises(InvalidInput, match="from 2 to 4 are as stable over seeds as each other"):
        choose_n_clusters(
            Nowhere(), FedSC(2, sparsify=False), range(2, 5), fitting=stable({2, 3, 4})
        )


# -- real parties ---------------------------------------------------------------------------------


def blobs(k):
    X, _ = make_blobs(
        n_samples=120, centers=k, n_features=4, cluster_std=0.6, center_box=(-6, 6), random_state=k
    )
    owners = np.random.default_rng(0).permutation(len(X)) % 4
    return {f"client-{i + 1}": X[owners == i] for i in range(4)}


ROWS = {k: blobs(k) for k in (3, 5)}


@pytest.fixture(scope="module", params=[3, 5])
def of_blobs(request, tmp_path_factory):
    urls = stores_of(tmp_path_factory.mktemp("stores"), ROWS[request.param])
    with Federation.local(urls) as federation:
        yield request.param, federation


@pytest.mark.few(4)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("clusterer", "by"),
    [
        ("k-means", None),
        ("k-means", "silhouette"),
        ("k-means", "calinski-harabasz"),
        ("k-means", "gap"),
        ("hierarchical", "calinski-harabasz"),
        ("spectral", None),
        ("spectral", "eigengap"),
    ],
)
def test_clear_clusters_are_counted(of_blobs, clusterer, by):
    k, federation = of_blobs
    model = OmniFC(2, clusterer=clusterer, n_colluding=1)
    choice = choose_n_clusters(federation, model, range(2, 8), by=by)
    assert choice.n_clusters == k
    assert "ClusterScores" in set(choice.ledger["message"])
    assert "ClientLabels" not in set(choice.ledger["message"])
    again = choose_n_clusters(federation, model, range(2, 8), by=by)
    assert again.scores == choice.scores
    if by in ("eigengap", "gap"):
        assert set(choice.errors) == (set(range(2, 8)) if by == "gap" else set())
        assert choice.errors == again.errors
        return
    fitted = OmniFC(k, clusterer=clusterer, n_colluding=1).fit(federation)
    labels = fitted.labels_.values
    pooled = np.concatenate(list(ROWS[k].values()))
    silhouette = silhouette_score(pooled, labels)
    assert fitted.silhouette_ == pytest.approx(silhouette, rel=1e-3)
    if by == "calinski-harabasz":
        silhouette = calinski_harabasz_score(pooled, labels)
    product = 1.0 if by else fitted.modularity_
    assert choice.scores[k] == pytest.approx(silhouette * product, rel=1e-3)
    if by is None:
        assert choice.by == "silhouette-modularity"
        told = {name: part[k] for name, part in choice.parts.items()}
        assert told == {"silhouette": fitted.silhouette_, "modularity": fitted.modularity_}
        assert list(choice.parts["modularity"]) == list(range(2, 8))


@pytest.mark.few(1)
@pytest.mark.slow
def test_clear_clusters_are_counted_by_stability(of_blobs):
    k, federation = of_blobs
    model = OmniFC(2, clusterer="k-means", n_colluding=1)
    choice = choose_n_clusters(federation, model, range(k - 1, k + 2), by="stability")
    assert choice.n_clusters == k
    assert federation.preparation is None


@pytest.mark.slow
def test_a_choice_leaves_an_earlier_fit_alone(of_blobs, tmp_path):
    k, federation = of_blobs
    model = OmniFC(k, clusterer="k-means", n_colluding=1).fit(federation)
    run_id = model.run_id_
    model.scores_of(federation, [2, 3], by="silhouette")
    assert model.run_id_ == run_id
    new = stores_of(tmp_path, {"client-1": ROWS[k]["client-1"][:3]})
    with pytest.raises(InvalidInput, match="the run of fit, which is over"):
        model.predict(federation, new)


@pytest.mark.slow
def test_blocks_of_neighbours_have_no_silhouette(of_blobs, monkeypatch):
    """Of few samples all distances are kept, and they have one."""
    _, federation = of_blobs
    few = OmniFC(2, distances="blocks", n_colluding=1)
    assert choose_n_clusters(federation, few, [2, 3], by="silhouette").scores[3] is not None
    monkeypatch.setattr(clusters, "FEW", 0)
    model = OmniFC(2, distances="blocks", n_colluding=1)
    with pytest.raises(InvalidInput, match="Choose the number of clusters by 'eigengap'"):
        choose_n_clusters(federation, model, [2, 3], by="silhouette")
    assert choose_n_clusters(federation, model, range(2, 8), by="eigengap").n_clusters in (3, 5)
