"""The networks against a plain forward pass, and which weights each term of the loss moves."""

import numpy as np
import pytest

from daskfc.protocols.esfmc.networks import losses
from daskfc.protocols.esfmc.networks.framework import jax
from daskfc.protocols.esfmc.networks.layers import (
    apply,
    flatten,
    from_assignments,
    initial,
    shapes,
    unflatten,
)
from daskfc.protocols.esfmc.settings import NetworkSettings

ROWS = np.random.default_rng(0).random((7, 5)).astype(np.float32)
ONES = np.ones(7, np.float32)
VARIANTS = [
    NetworkSettings(hidden=(6, 4), n_latent=3),
    NetworkSettings(hidden=(), n_latent=3, n_shared=2, decode_from="z_c"),
    NetworkSettings(hidden=(4,), n_latent=3, decode_from="z", separate_encoders=True),
]


def slow(params, rows, network):
    def through(name, X, depth):
        for number in range(depth):
            X = X @ params[f"{name}{number}.W"] + params[f"{name}{number}.b"]
            X = np.maximum(X, 0) if number < depth - 1 else X
        return X

    depth = len(network.hidden) + 1
    z = other = through("encoder", rows, depth)
    if network.separate_encoders:
        other = through("encoder_of_z_c", rows, depth)
    z_c = other @ params["to_z_c.W"] + params["to_z_c.b"]
    z_x = z @ params["to_z_x.W"] + params["to_z_x.b"]
    z = np.hstack([z, other]) if network.separate_encoders else z
    decoded = through("decoder", {"z": z, "z_c": z_c, "z_x": z_x}[network.decode_from], depth)
    return z, z_c, z_x, z_c @ params["head.W"] + params["head.b"], decoded


@pytest.mark.slow
@pytest.mark.parametrize("network", VARIANTS)
def test_the_forward_pass(network):
    layout = shapes(5, 4, network)
    w = initial(layout, 0)
    params = unflatten(w, layout)
    found = jax.jit(apply, static_argnames="network")(params, ROWS, network)
    for one, wanted in zip(found, slow(params, ROWS, network), strict=True):
        assert one.shape == wanted.shape
        assert np.asarray(one) == pytest.approx(wanted, abs=1e-5)
    assert found.z.shape == (7, network.latent_columns)
    assert found.z_c.shape == (7, network.shared_columns)
    assert from_assignments(params, np.eye(4)).shape == found.z_c[:4].shape
    assert np.array_equal(flatten(params, layout), w)


def moved(of, network):
    """Names of the layers that a term of the loss has a gradient for."""
    layout = shapes(5, 4, network)
    params = unflatten(initial(layout, 0), layout)

    def term(params):
        return of(params, apply(params, ROWS, network))

    gradient = jax.jit(jax.grad(term))(params)
    return {name.split(".")[0].rstrip("0123456789") for name in layout if gradient[name].any()}


@pytest.mark.slow
def test_each_term_moves_its_own_part():
    """Z_x reconstructs and Z_c clusters (Eq. 4): neither projection has the other's gradient."""
    shared, apart = NetworkSettings((4,), 3), NetworkSettings((4,), 3, separate_encoders=True)

    def reconstruction(params, out):
        return losses.reconstruction(ROWS, out.decoded, ONES)

    def entropy(params, out):
        return losses.cross_entropy(out.logits, np.arange(7) % 4, ONES)

    def alignment(params, out):
        mapped = from_assignments(params, np.eye(4, dtype=np.float32)[np.arange(7) % 4])
        return losses.alignment(out.z_c, mapped, ONES, ONES)

    assert moved(reconstruction, shared) == {"encoder", "to_z_x", "decoder"}
    assert moved(entropy, apart) == {"encoder_of_z_c", "to_z_c", "head"}
    assert moved(alignment, shared) == {"encoder", "to_z_c", "from_assignments"}


@pytest.mark.slow
def test_dropout_drops_its_share_and_keeps_the_mean():
    network = NetworkSettings(hidden=(400,), n_latent=1)
    layout = shapes(1, 2, network)
    params = unflatten(np.zeros(sum(np.prod(shape) for shape in layout.values())), layout)
    params |= {"encoder0.b": np.ones(400), "encoder1.W": np.full((400, 1), 1 / 400)}
    run = jax.jit(apply, static_argnames=("network", "dropout"))
    z = np.asarray(run(params, np.zeros((50, 1)), network, dropout=0.25, key=jax.random.key(0)).z)
    assert z.mean() == pytest.approx(1.0, abs=0.02)
    assert z.std() == pytest.approx(np.sqrt(0.25 / 0.75 / 400), rel=0.35)


@pytest.mark.slow
@pytest.mark.parametrize("apart", [False, True])
def test_dropout_leaves_columns_out_and_keeps_the_mean(apart):
    network = NetworkSettings(hidden=(), n_latent=1, separate_encoders=apart)
    layout = shapes(400, 2, network)
    params = unflatten(np.zeros(sum(np.prod(shape) for shape in layout.values())), layout)
    params |= {f"{name}0.W": np.full((400, 1), 1 / 400) for name in ("encoder", "encoder_of_z_c")}
    run = jax.jit(apply, static_argnames=("network", "dropout"))
    rows, key = np.ones((50, 400)), jax.random.key(0)
    z = np.asarray(run(params, rows, network, dropout=0.25, key=key).z)
    assert z.shape == (50, 1 + apart)
    assert z.mean() == pytest.approx(1.0, abs=0.02)
    assert z.std() == pytest.approx(np.sqrt(0.25 / 0.75 / 400), rel=0.35)
    if apart:  # each encoder lacks columns of its own
        assert abs(np.corrcoef(z.T)[0, 1]) < 0.5
    np.testing.assert_allclose(run(params, rows, network).z, 1.0, rtol=1e-5)


def test_first_weights_are_those_of_linear_layers_in_pytorch():
    layout = shapes(216, 10, NetworkSettings())
    params = unflatten(initial(layout, 0), layout)
    for name, bound in (("encoder0", 216**-0.5), ("decoder1", 64**-0.5)):
        W, b = params[f"{name}.W"], params[f"{name}.b"]
        assert np.abs(W).max() <= bound * 1.0001
        assert np.abs(b).max() <= bound * 1.0001
        assert W.std() == pytest.approx(bound / np.sqrt(3), rel=0.02)
    assert not np.array_equal(initial(layout, 0), initial(layout, 1))
