"""The networks of one client: encoder, two projections, decoder, clustering head and g̃.

Notation    paper   here
            w       ``params``, a dictionary of arrays by name; a vector of all of them by `flatten`
            Z       ``Outputs.z``
            Z_c     ``Outputs.z_c``
            Z_x     ``Outputs.z_x``
"""

from collections.abc import Callable, Mapping
from itertools import pairwise
from math import prod
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from daskfc.protocols.esfmc.networks.framework import jax, jnp
from daskfc.protocols.esfmc.settings import NetworkSettings
from daskfc.seeds import generator

Array: TypeAlias = Any  # of JAX, or a tracer
Params: TypeAlias = Mapping[str, Array]
Drop: TypeAlias = Callable[[Array, int], Array]


class Outputs(NamedTuple):
    """What the networks compute for n rows, one row each; softmax of `logits` (n, K) is Q^m."""

    z: Array
    z_c: Array
    z_x: Array
    logits: Array
    decoded: Array


def _chain(name: str, sizes: list[int]) -> dict[str, tuple[int, int]]:
    return {f"{name}{number}": pair for number, pair in enumerate(pairwise(sizes))}


def shapes(n_columns: int, n_clusters: int, network: NetworkSettings) -> dict[str, tuple[int, ...]]:
    """Return the shapes of all weights by name, layers' with ".W" and ".b", in their order in w."""
    down = [n_columns, *network.hidden, network.n_latent]
    d_c = network.shared_columns
    source = {"z": network.latent_columns, "z_c": d_c, "z_x": network.n_latent}
    layers = _chain("encoder", down)
    if network.separate_encoders:
        layers |= _chain("encoder_of_z_c", down)
    layers |= {
        "to_z_c": (network.n_latent, d_c),
        "to_z_x": (network.n_latent, network.n_latent),
        "head": (d_c, n_clusters),
    }
    layers |= _chain("decoder", [source[network.decode_from], *down[-2::-1]])
    layers["from_assignments"] = (n_clusters, d_c)
    both: dict[str, tuple[int, ...]] = {}
    for name, (inputs, outputs) in layers.items():
        both |= {f"{name}.W": (inputs, outputs), f"{name}.b": (outputs,)}
    return both


def initial(layout: Mapping[str, tuple[int, ...]], seed: int) -> NDArray[np.float32]:
    """Return first weights w (p,): uniform on ±1 / √inputs, PyTorch's default, as in the paper."""
    parts = []
    for name, shape in layout.items():
        bound = layout[name.removesuffix(".b").removesuffix(".W") + ".W"][0] ** -0.5
        drawn = generator(seed, "initial weights", name).uniform(-bound, bound, prod(shape))
        parts.append(drawn.astype(np.float32))
    return np.concatenate(parts)


def unflatten(w: Array, layout: Mapping[str, tuple[int, ...]]) -> dict[str, Array]:
    """Return the weights by name, cut from the vector w (p,) in the layout's order."""
    params, start = {}, 0
    for name, shape in layout.items():
        size = prod(shape)
        params[name] = w[start : start + size].reshape(shape)
        start += size
    assert start == w.size, (start, w.size)
    return params


def flatten(params: Params, layout: Mapping[str, tuple[int, ...]]) -> Array:
    """Return the vector (p,) of all weights in the layout's order, the inverse of `unflatten`."""
    return jnp.concatenate([params[name].ravel() for name in layout])


def _layer(params: Params, name: str, X: Array) -> Array:
    return X @ params[f"{name}.W"] + params[f"{name}.b"]


def _layers(params: Params, name: str, X: Array, depth: int, drop: Drop | None) -> Array:
    """Apply layers, with ReLU after every one but the last (Appendix D.2)."""
    X = X if drop is None else drop(X, depth)
    for number in range(depth):
        X = _layer(params, f"{name}{number}", X)
        if number < depth - 1:
            X = jax.nn.relu(X)
            X = X if drop is None else drop(X, number)
    return X


def _dropping(key: Array, share: float) -> Drop:
    def drop(X: Array, number: int) -> Array:
        kept = jax.random.bernoulli(jax.random.fold_in(key, number), 1.0 - share, X.shape)
        return jnp.where(kept, X / (1.0 - share), 0.0)

    return drop


def apply(
    params: Params,
    rows: Array,
    network: NetworkSettings,
    *,
    dropout: float = 0.0,
    key: Array = None,
) -> Outputs:
    """Return the networks' outputs for rows (n, n_columns); `dropout`, a share, needs a `key`."""
    depth = len(network.hidden) + 1
    drop = _dropping(key, dropout) if dropout else None
    z = _layers(params, "encoder", rows, depth, drop)
    z_of_c = z
    if network.separate_encoders:
        drop = _dropping(jax.random.fold_in(key, depth + 1), dropout) if dropout else None
        z_of_c = _layers(params, "encoder_of_z_c", rows, depth, drop)
    z_c, z_x = _layer(params, "to_z_c", z_of_c), _layer(params, "to_z_x", z)  # Eq. (3)
    z = jnp.concatenate([z, z_of_c], axis=1) if network.separate_encoders else z
    source = {"z": z, "z_c": z_c, "z_x": z_x}[network.decode_from]
    decoded = _layers(params, "decoder", source, depth, None)
    return Outputs(z, z_c, z_x, _layer(params, "head", z_c), decoded)


def from_assignments(params: Params, Q: Array) -> Array:
    """Return g̃(Q) (Eq. 11), (n, shared_columns); linear, like any function of one-hot rows."""
    return _layer(params, "from_assignments", Q)
