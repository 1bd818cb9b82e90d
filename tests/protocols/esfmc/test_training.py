"""Training on one client: it learns, repeats bit by bit, and goes on where it stopped."""

import importlib
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest

from daskfc.errors import InvalidInput
from daskfc.protocols.esfmc.networks.batches import batches
from daskfc.protocols.esfmc.networks.framework import device_of, jax, jnp
from daskfc.protocols.esfmc.networks.training import ViewModel
from daskfc.protocols.esfmc.networks.units import Units
from daskfc.protocols.esfmc.settings import NetworkSettings, TrainingSettings

K = 3
NETWORK = NetworkSettings(hidden=(16,), n_latent=4, n_shared=3)
# One plan for all tests: it is compiled once.
SETTINGS = TrainingSettings(epochs=4, pretraining_epochs=3, batch_size=24, dropout=0.1)
RANDOM = np.random.default_rng(0)
TRUE = np.arange(90) % K
CENTRES = np.array([[0.1, 0.1, 0.9, 0.5], [0.9, 0.2, 0.1, 0.5], [0.5, 0.9, 0.5, 0.1]])
ROWS = (CENTRES[TRUE] + RANDOM.normal(0, 0.05, (90, 4))).astype(np.float32)
LABELS = np.where(np.arange(90) < 60, TRUE, -1)
Q = np.eye(K)[TRUE]
ALIGNED = np.arange(90) >= 60

pytestmark = pytest.mark.slow  # what compiles


def begin(seed=0):
    return ViewModel.begin(4, K, NETWORK, seed=seed, device="cpu")


def train(model, round=1, settings=SETTINGS, **options):
    given = {"assignments": Q, "aligned": ALIGNED} | options
    return model.train(ROWS, LABELS, settings=settings, round=round, **given)


def same(one, other):
    return all(np.array_equal(one.state()[name], other.state()[name]) for name in one.state())


def test_before_the_first_round_reconstruction_counts_whatever_its_weight():
    one, other = begin(), begin()
    expected = one.pretrain(ROWS, settings=SETTINGS)
    found = other.pretrain(ROWS, settings=replace(SETTINGS, reconstruction_weight=0.0))
    assert (found, same(one, other)) == (expected, True)


def test_learns_rows_labels_and_assignments():
    model = begin()
    settings = replace(SETTINGS, epochs=150, pretraining_epochs=40, learning_rate=0.01)
    before = model.pretrain(ROWS, settings=settings)
    assert before[-1].reconstruction < 0.3 * before[0].reconstruction
    assert before[-1].cross_entropy == before[-1].alignment == 0.0
    past = train(model, settings=settings)
    assert past[-1].cross_entropy < 0.1 < past[0].cross_entropy
    found = model.features(ROWS)
    assert past[-1].alignment < 0.2 * found.z_c.var(axis=0).sum()  # with columns left out
    assert (found.assignments.argmax(axis=1) == TRUE)[60:].mean() > 0.95  # rows without a label
    assert found.assignments.sum(axis=1) == pytest.approx(np.ones(90), abs=1e-5)
    shapes = [one.shape for one in (found.z, found.z_c, found.z_x, found.assignments)]
    assert shapes == [(90, 4), (90, 3), (90, 4), (90, 3)]
    assert {one.dtype for one in (found.z, found.z_c, found.z_x)} == {np.dtype(np.float32)}
    filled = model.from_assignments(np.eye(K))  # prototypes of the classes (Eq. 13)
    distances = ((found.z_c[:, None] - filled) ** 2).sum(axis=2)
    assert (distances.argmin(axis=1) == TRUE).mean() > 0.95


def test_the_total_is_the_weighted_sum_and_weights_count():
    weights = {"reconstruction_weight": 2.0, "label_weight": 0.5, "alignment_weight": 0.25}
    settings = replace(SETTINGS, dependence_weight=3.0, reconstruction="mean", **weights)
    (first, *_) = train(begin(), settings=settings)
    wanted = 2.0 / 4 * first.reconstruction + 0.5 * first.cross_entropy
    wanted += 3.0 * first.dependence + 0.25 * first.alignment
    assert first.total == pytest.approx(wanted)
    other = begin()
    train(other)
    model = begin()
    train(model, settings=settings)
    assert not np.array_equal(model.state()["weights"], other.state()["weights"])


def test_same_seed_same_bits_whatever_the_global_state():
    one, other, third = begin(), begin(), begin(seed=1)
    train(one)
    np.random.default_rng(5)
    train(other)
    train(third)
    assert same(one, other)
    assert not same(one, third)
    assert not np.array_equal(begin(1).state()["weights"], begin().state()["weights"])


def test_rounds_and_epochs_draw_other_noise():
    """Without gradients only noise is left: two epochs and two rounds must not repeat it."""
    no = {"reconstruction_weight": 0.0, "label_weight": 0.0, "dependence_weight": 0.0}
    still = replace(SETTINGS, epochs=2, alignment_weight=0.0, optimiser="sgld", **no)
    still = replace(still, prior_scale=1e6)
    model, walked = begin(), [begin().state()["weights"]]
    for round in (1, 2):
        saved = lambda epoch, losses: walked.append(model.state()["weights"])  # noqa: E731
        train(model, round, still, on_epoch=saved)
    steps = np.diff(np.array(walked, np.float64), axis=0)
    variance = 4 * 2 * still.learning_rate * still.temperature  # four batches, Eq. (7)
    assert steps.var() == pytest.approx(variance, rel=0.15)
    correlations = np.corrcoef(steps)[np.triu_indices(4, 1)]
    assert np.abs(correlations).max() < 0.25
    assert train(begin(), 1, replace(still, temperature=0.0))
    cold = begin()
    train(cold, 1, replace(still, temperature=0.0))
    assert np.array_equal(cold.state()["weights"], walked[0])


def test_the_prior_decays_weights():
    """Without other gradients, each of an epoch's four steps takes η α / s² of them (Eq. 6)."""
    no = {"reconstruction_weight": 0.0, "label_weight": 0.0, "dependence_weight": 0.0}
    alone = replace(SETTINGS, epochs=1, alignment_weight=0.0, optimiser="sgld", **no)
    model = begin()
    before = model.state()["weights"]
    train(model, settings=replace(alone, prior_scale=1e-3))
    slope = before @ model.state()["weights"] / (before @ before)
    assert slope == pytest.approx((1 - 1e-3 * 1e-4 / 1e-6) ** 4, rel=0.02)


def test_every_epoch_of_every_round_has_its_own_batches(monkeypatch):
    orders = []

    def noted(*given):
        orders.append(batches(*given))
        return orders[-1]

    monkeypatch.setattr("daskfc.protocols.esfmc.networks.training.batches", noted)
    model = begin()
    train(model)
    train(model, 2)
    assert len({order.tobytes() for order in orders}) == 2 * SETTINGS.epochs
    for order in orders:
        assert sorted(order[order >= 0]) == list(range(90))
        assert order.shape == (4, 23)


def test_assignments_that_do_not_count_have_no_effect():
    other = Q.copy()
    other[~ALIGNED] = np.nan
    one, two, three = begin(), begin(), begin()
    train(one)
    train(two, assignments=other)
    other[ALIGNED] = 1 / K
    train(three, assignments=other)
    assert same(one, two)
    assert not same(one, three)


class Stop(Exception):
    """Ends a training from its callback."""


CHILD = """
import sys, numpy as np
sys.path[:0] = {paths!r}
from tests.protocols.esfmc.test_training import K, NETWORK, ViewModel, train
with np.load({path!r}, allow_pickle=False) as saved:
    model = ViewModel.from_state(dict(saved), 4, K, NETWORK, seed=0, device="cpu")
print([loss.total.hex() for loss in train(model)])
train(model, 2)
np.savez({path!r}, **model.state())
"""


def test_stopping_and_going_on_in_another_process_gives_the_same_bits(tmp_path):
    stopped = 3
    whole = begin()
    past = train(whole)
    train(whole, 2)
    model, seen = begin(), []

    def stop(epoch, losses):
        seen.append((epoch, losses))
        if epoch == stopped:
            raise Stop

    with pytest.raises(Stop):
        train(model, on_epoch=stop)
    assert seen == list(enumerate(past, start=1))[:stopped]
    path = str(tmp_path / "state.npz")
    np.savez(path, **model.state())
    code = CHILD.format(paths=[entry for entry in sys.path if entry], path=path)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str([loss.total.hex() for loss in past[stopped:]])
    with np.load(path, allow_pickle=False) as saved:
        assert all(np.array_equal(saved[name], array) for name, array in whole.state().items())


def test_a_round_that_is_done_is_not_trained_again():
    model = begin()
    train(model)
    before = model.state()
    assert train(model) == ()
    assert all(np.array_equal(before[name], array) for name, array in model.state().items())
    assert len(train(model, 2)) == SETTINGS.epochs
    with pytest.raises(InvalidInput, match=r"'round' parameter .* of at least 2; got 1"):
        train(model, 1)


def test_units_are_kept_with_the_networks_and_serve_new_rows():
    trained = []
    for factor in (1, 256):  # a power of two: not a bit may differ
        units = Units.of(factor * ROWS)
        model = ViewModel.begin(4, K, NETWORK, seed=0, device="cpu", units=units)
        model.train(factor * ROWS, LABELS, settings=SETTINGS, round=1)
        again = ViewModel.from_state(model.state(), 4, K, NETWORK, seed=0, device="cpu")
        trained.append(again.features(factor * ROWS[:7]).z)
    assert np.array_equal(*trained)
    assert not np.allclose(again.features(ROWS[:7]).z, trained[0])


def test_a_state_of_other_networks_is_refused():
    state = begin().state()
    with pytest.raises(InvalidInput, match=r"saved array 'weights' .* must have shape"):
        ViewModel.from_state(state, 5, K, NETWORK, seed=0)
    state.pop("steps")
    with pytest.raises(InvalidInput, match=r"saved array 'steps' .* got none"):
        ViewModel.from_state(state, 4, K, NETWORK, seed=0)


def test_a_loss_that_is_not_finite_ends_with_a_sentence():
    settings = replace(SETTINGS, epochs=30, learning_rate=1e6, optimiser="sgld", temperature=0.0)
    with pytest.raises(InvalidInput, match=r"must stay finite.*lower learning_rate"):
        train(begin(), settings=settings)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"labels": np.full(90, 3)}, r"lie in \[0, 3\), or be -1"),
        ({"labels": np.full(90, -2)}, r"lie in \[0, 3\), or be -1"),
        ({"labels": np.zeros(89, int)}, r"ints of shape \(90,\)"),
        ({"labels": np.zeros(90)}, r"ints of shape \(90,\).*got float64"),
        ({"rows": ROWS[:, :3]}, r"shape \(n, 4\)"),
        ({"rows": np.where(ROWS > 0.9, np.nan, ROWS)}, "be finite"),
        ({"assignments": Q[:, :2]}, r"shape \(90, 3\)"),
        ({"assignments": None}, "come with assignments"),
        ({"aligned": ALIGNED.astype(float)}, r"bools of shape \(90,\)"),
        ({"assignments": np.full((90, K), np.inf)}, "Mark such rows"),
    ],
)
def test_wrong_arrays_get_one_sentence(change, words):
    given = {"rows": ROWS, "labels": LABELS, "assignments": Q, "aligned": ALIGNED} | change
    with pytest.raises(InvalidInput, match=words):
        begin().train(**given, settings=SETTINGS, round=1)


def test_features_of_many_rows_are_those_of_few(monkeypatch):
    model = begin()
    whole = model.features(ROWS)
    monkeypatch.setattr("daskfc.protocols.esfmc.networks.training._CHUNK", 40)
    parts = model.features(ROWS)
    assert parts.z_c == pytest.approx(whole.z_c, abs=1e-6)
    assert parts.assignments.shape == whole.assignments.shape


def test_products_take_one_thread():
    """Two that wait for each other take the cores of other clients."""
    product = jax.jit(lambda a: a @ a)
    a = jnp.ones((1200, 1200))
    product(a).block_until_ready()
    wall, cpu = time.perf_counter(), time.process_time()
    for _ in range(8):
        product(a).block_until_ready()
    assert time.process_time() - cpu < 1.4 * (time.perf_counter() - wall)


def test_without_the_framework_one_sentence_names_the_extra(monkeypatch):
    name = "daskfc.protocols.esfmc.networks.framework"
    monkeypatch.setitem(sys.modules, "jax", None)  # as if it were not installed
    monkeypatch.delitem(sys.modules, name)
    with pytest.raises(InvalidInput, match=r"pip install 'daskfc\[multiview\]'"):
        importlib.import_module(name)


def test_devices_by_name():
    assert device_of("auto") in jax.devices()
    with pytest.raises(InvalidInput, match="one of 'auto', 'cpu', 'gpu'; got 'tpu'"):
        device_of("tpu")
    if device_of("auto").platform == "cpu":
        with pytest.raises(InvalidInput, match="JAX sees none here"):
            device_of("gpu")
