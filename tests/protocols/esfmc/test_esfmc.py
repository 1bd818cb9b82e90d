"""ESFMC on real worker processes: against its steps in one place, incomplete views, its ledger."""

import os
import signal

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score, silhouette_score

from daskfc.errors import InvalidInput, PartyError, PrivacyError
from daskfc.federation import Federation
from daskfc.protocols import ESFMC
from daskfc.runs import run
from daskfc.runs.report.table import noise_in_words
from daskfc.stores import write_store

jax = pytest.importorskip("jax", reason="JAX is not installed (daskfc[multiview])")

pytestmark = pytest.mark.slow

N, K, V, COLUMNS = 240, 4, 3, 6
TRUE = np.random.default_rng(5).integers(0, K, N)


def views(seed=0, n=N, true=TRUE, spread=0.08):
    """Three views; in each, two of the four clusters are hard to tell apart."""
    random = np.random.default_rng(seed)
    found = []
    for view in range(V):
        centres = np.random.default_rng(view).random((K, COLUMNS))
        centres[view] = centres[(view + 1) % K] + 0.12
        found.append((centres[true] + spread * random.normal(size=(n, COLUMNS))).clip(-1, 2))
    return found


def stores(folder, held, rows=None, ids=None):
    """Write a store for each client: which view it has, and which samples."""
    rows = views() if rows is None else rows
    urls = {}
    for name, (view, samples) in held.items():
        urls[name] = str(folder / f"{name}.zarr")
        names = [f"view{view}.{i}" for i in range(COLUMNS)]
        own = np.asarray(ids)[samples] if ids is not None else samples.astype(str)
        write_store(
            urls[name], name, rows[view][samples], own, feature_names=names, dtype="float64",
            labels=TRUE[samples] if rows[view].shape[0] == N else None,
        )  # fmt: skip
    return urls


def everything():
    random = np.random.default_rng(1)
    return {f"client-{v + 1}": (v, random.permutation(N)) for v in range(V)}


def some(share=0.5, seed=2):
    """Leave a view or two out of some samples."""
    random = np.random.default_rng(seed)
    held = np.ones((V, N), dtype=bool)
    for sample in np.flatnonzero(random.random(N) >= share):
        lacks = random.permutation(V)[: random.integers(1, V)]
        held[lacks, sample] = False
    return {f"client-{v + 1}": (v, random.permutation(np.flatnonzero(held[v]))) for v in range(V)}


IN_ALL = [i for i in range(N) if all(i in set(own.tolist()) for _, own in some().values())]


@pytest.fixture(scope="module")
def complete(tmp_path_factory):
    with Federation.local(stores(tmp_path_factory.mktemp("all"), everything())) as running:
        yield running


@pytest.fixture(scope="module")
def incomplete(tmp_path_factory):
    with Federation.local(stores(tmp_path_factory.mktemp("some"), some())) as running:
        yield running


def fitted(federation, **params):
    params = {"local_epochs": 20, "rounds": 3, "latent_dim": 5, **params}
    return ESFMC(K, **params).fit(federation)


@pytest.fixture(scope="module")
def whole(complete):
    """A fit of three rounds, made once."""
    return fitted(complete, tolerance=0.0)


def agreement(labels):
    return adjusted_rand_score(TRUE[labels["sample_id"].to_numpy().astype(int)], labels)


def kinds(model):
    return {row.message for row in model.ledger_}


def test_views_together_tell_what_none_tells_alone(whole):
    model = whole
    assert agreement(model.labels_) > 0.95
    assert sorted(model.labels_["sample_id"].to_numpy().astype(int)) == list(range(N))
    assert kinds(model) == {
        "KeyOffer", "SealedDigestKey",
        "SampleDigests", "LinkedSamples", "LinkReport", "SharedFeatures", "RoundReport",
        "TrainingLosses", "ClientLabels", "LabelledSamples",
    }  # fmt: skip
    assert model.n_rounds_ == len(model.history_) == 3
    assert model.history_[0].losses["client-2"].losses.shape == (20, 5)


@pytest.mark.long
def test_bytes_are_clustered_as_if_they_were_divided_by_255(tmp_path):
    """And new ones as well, in the units of the fit."""
    found, predicted = {}, {}
    new = np.rint(255 * views(seed=9, spread=0.03)[0][:60].clip(0, 1))
    for top in (1, 255):
        rows = [np.rint(255 * one.clip(0, 1)) / top for one in views(spread=0.03)]
        with Federation.local(stores(tmp_path / str(top), everything(), rows)) as federation:
            model = fitted(federation)
            found[top] = model.labels_
            url = str(tmp_path / f"new-{top}.zarr")
            names = [f"view0.{i}" for i in range(COLUMNS)]
            ids = [f"new-{i}" for i in range(60)]
            write_store(url, "client-1", new / top, ids, feature_names=names, dtype="float64")
            predicted[top] = model.predict(federation, {"client-1": url})
    assert agreement(found[1]) == agreement(found[255]) == 1.0
    assert adjusted_rand_score(predicted[1], predicted[255]) > 0.9
    assert adjusted_rand_score(TRUE[:60], predicted[1]) > 0.4  # a view alone


def test_the_map_has_samples_of_all_views_and_tells_clusters_apart(complete, incomplete):
    told = fitted(complete).sample_map(complete)
    assert len(told.labels) == N
    assert silhouette_score(told.positions, told.labels) > 0.3
    told = fitted(incomplete, rounds=1, local_epochs=2).sample_map(incomplete)
    assert len(told.labels) == len(IN_ALL) < N


def test_the_same_seed_gives_the_same_labels(complete, whole):
    again = fitted(complete, tolerance=0.0)
    np.testing.assert_array_equal(whole.labels_, again.labels_)
    for one, other in zip(whole.history_, again.history_, strict=True):
        np.testing.assert_array_equal(
            one.losses["client-1"].losses, other.losses["client-1"].losses
        )


@pytest.mark.few(2)
@pytest.mark.parametrize("mode", ["local", "align"])
@pytest.mark.parametrize("recipe", ["robust", "paper"])
def test_samples_that_some_views_lack_get_labels(incomplete, mode, recipe):
    epochs = (
        {"local_epochs": 80}
        if recipe == "robust"
        else {"local_epochs": 1, "pretraining_epochs": 0, "rounds": 2}
    )
    model = fitted(incomplete, incomplete=mode, recipe=recipe, tolerance=0.0, **epochs)
    assert sorted(model.labels_["sample_id"].to_numpy().astype(int)) == list(range(N))
    if recipe == "robust":
        in_all = np.isin(model.labels_["sample_id"].to_numpy().astype(int), IN_ALL)
        assert agreement(model.labels_[in_all]) > 0.8
        assert agreement(model.labels_[~in_all]) > 0.2  # a view alone cannot tell two clusters
    assert ("Assignments" in kinds(model)) == (mode == "align")
    assert ("Votes" in kinds(model)) == (mode == "local")
    told = [row.shapes["features"][0] for row in model.ledger_ if row.message == "SharedFeatures"]
    assert (N in told) == (mode == "align" and recipe == "paper")  # rows of others' samples too


def test_rounds_do_not_end_before_heads_learned_the_servers_labels(complete, incomplete):
    """Nor, with "align", before any was aligned, in the third."""
    how = {"rounds": 4, "tolerance": 1.1, "local_epochs": 2}
    assert fitted(complete, **how).n_rounds_ == 2
    for mode in ("local", "align"):
        assert fitted(incomplete, incomplete=mode, **how).n_rounds_ == 3


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("params", "columns"),
    [({"share": "assignments"}, K), ({"shared_dim": 3, "separate_encoders": True}, 3),
     ({"share": "complete"}, 5)],
)  # fmt: skip
def test_what_is_shared_has_the_columns_that_were_asked_for(complete, params, columns):
    model = fitted(complete, **params)
    assert agreement(model.labels_) > 0.9
    shared = [row for row in model.ledger_ if row.message == "SharedFeatures"]
    assert {tuple(row.shapes["features"]) for row in shared} == {(N, columns)}


@pytest.mark.long
def test_several_clients_of_a_view(tmp_path):
    held = {}
    random = np.random.default_rng(3)
    for view in range(V):
        first, second = np.array_split(random.permutation(N), 2)
        held |= {f"site-{view}-a": (view, first), f"site-{view}-b": (view, second)}
    with Federation.local(stores(tmp_path, held)) as federation:
        model = fitted(federation, rounds=2)
    assert sorted(model.labels_["sample_id"].to_numpy().astype(int)) == list(range(N))
    assert agreement(model.labels_) > 0.8


def test_new_samples_of_one_view_or_several(complete, tmp_path):
    model = fitted(complete, local_epochs=100)
    true = np.random.default_rng(8).integers(0, K, 60)
    new = views(seed=9, n=60, true=true)
    held = {f"client-{v + 1}": (v, np.arange(60)) for v in range(V)}
    urls = stores(tmp_path, held, new, [f"new-{i}" for i in range(60)])
    own = TRUE[model.labels_["sample_id"].to_numpy().astype(int)]
    classes = [np.bincount(own[model.labels_.values == k]).argmax() for k in range(K)]

    def share(labels):
        at = [int(name.removeprefix("new-")) for name in labels["sample_id"].to_numpy()]
        return np.mean(np.array(classes)[labels.values] == true[at])

    together = model.predict(complete, urls)
    assert len(together) == 60
    alone = model.predict(complete, {"client-1": urls["client-1"]})
    assert share(together) > 0.95
    assert share(alone) > 0.6
    assert "Assignments" not in kinds(model)  # of the fit
    assert "Assignments" in {row.message for row in complete.ledger}  # of several views


def test_noise_is_in_the_ledger_and_losses_are_not_told(complete):
    model = fitted(complete, noise={"epsilon": 30.0, "delta": 1e-4}, rounds=2, tolerance=0.0)
    releases = complete.ledger.releases()
    assert set(releases) == set(complete.clients)
    for one in releases.values():
        assert one.epsilon(1e-4) == pytest.approx(model.privacy_["epsilon"])
    assert model.privacy_["epsilon"] <= 30.0 * (1 + 1e-9)
    assert "TrainingLosses" not in kinds(model)
    told = noise_in_words({**model.privacy_, "fits": 1, "epsilon_of_all_fits": 30.0})
    assert told.startswith("on features, multiplier")
    assert not model.can_start_again()
    urls = {one: complete.contract.readable[one].url for one in complete.clients[:2]}
    assert len(model.predict(complete, {"client-1": urls["client-1"]})) == N
    with pytest.raises(PrivacyError, match="one client at a time"):
        model.predict(complete, urls)


def test_what_does_not_go_together_is_refused(complete):
    with pytest.raises(PrivacyError, match="Leave 'incomplete' out"):
        ESFMC(K, noise={"epsilon": 1.0, "delta": 1e-5}, incomplete="align").fit(complete)
    with pytest.raises(InvalidInput, match="n_clusters"):
        ESFMC(1).fit(complete)
    with pytest.raises(PartyError, match="at most the number of samples, 240"):
        ESFMC(N + 1).fit(complete)


def test_a_worker_that_is_killed_while_it_trains_changes_no_label(complete, whole, monkeypatch):
    killed = []

    def kill(stage, done, total):
        if stage == "training" and done == V and not killed:  # the second round is under way
            killed.append(complete.processes.pid("client-2"))
            os.kill(killed[0], signal.SIGKILL)

    monkeypatch.setattr(complete, "on_progress", kill)
    again = fitted(complete, tolerance=0.0)
    assert killed
    assert complete.processes.pid("client-2") != killed[0]
    np.testing.assert_array_equal(again.labels_, whole.labels_)
    for one, other in zip(whole.history_, again.history_, strict=True):
        np.testing.assert_array_equal(
            one.losses["client-2"].losses, other.losses["client-2"].losses
        )


class Stop(Exception):
    pass


def test_a_fit_that_broke_off_takes_its_rounds_from_the_clients(
    complete, whole, monkeypatch, tmp_path
):
    def stop(stage, done, total):
        if stage == "training" and done == 2 * V:
            raise Stop

    monkeypatch.setattr(complete, "workspace", str(tmp_path))
    monkeypatch.setattr(complete, "on_progress", stop)
    with pytest.raises(Stop):
        fitted(complete, tolerance=0.0)
    monkeypatch.setattr(complete, "on_progress", None)
    kept = sorted(tmp_path.rglob("round-*.npz"))
    assert len(kept) >= 2 * V - 1
    written = {path: path.stat().st_mtime_ns for path in kept}
    again = fitted(complete, tolerance=0.0)
    np.testing.assert_array_equal(again.labels_, whole.labels_)
    assert {path: path.stat().st_mtime_ns for path in kept} == written  # none was trained again
    other = fitted(complete, tolerance=0.0, random_state=1)  # whose rounds these are not
    assert {path: path.stat().st_mtime_ns for path in kept} != written
    assert agreement(other.labels_) > 0.9


def test_a_noisy_fit_that_broke_off_does_not_release_again(complete, monkeypatch, tmp_path):
    """Also when another process starts it again, which knows nothing of the first."""
    how = {"noise": {"multiplier": 2.0, "delta": 1e-4}, "rounds": 2, "tolerance": 0.0}

    def stop(stage, done, total):
        if stage == "training" and done == V + 1:
            raise Stop

    monkeypatch.setattr(complete, "workspace", str(tmp_path))
    monkeypatch.setattr(complete, "on_progress", stop)
    with pytest.raises(Stop):
        fitted(complete, **how)
    monkeypatch.setattr(complete, "on_progress", None)
    with pytest.raises(PartyError, match="an earlier start of this fit of ESFMC"):
        fitted(complete, **how)
    assert not complete.ledger.releases()


@pytest.mark.long
def test_a_run_from_files_is_scored_with_every_sample_once(tmp_path):
    storage = {
        "source": {"dataset": "digits-views", "scaling": "min-max", "subsample": {"n": 200}},
        "partition": {"scheme": "views", "overlap": 0.7},
        "root": str(tmp_path / "stores"),
    }
    few = {"n_clusters": 10, "rounds": 2, "local_epochs": 40, "pretraining_epochs": 10}
    done = run(
        {"method": "ESFMC", "params": few, "compare": {"joined-views": {}}, "seeds": [0]},
        storage=storage,
        runs_dir=tmp_path / "runs",
    )
    assert done.summary["n_samples"] == 200
    assert done.labels.sizes["sample"] == 200
    for method in ("ESFMC", "joined-views"):
        assert done.summary["metrics"][method]["nmi"]["mean"] > 0.35
    told = done.summary["histories"]["Loss of the networks, cross entropy"]
    assert {name: len(line) for name, line in told.items()} == dict.fromkeys(told, 2 * 40)
    assert "<svg" in (done.folder / "report.html").read_text()
