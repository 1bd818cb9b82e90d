"""One optimiser step on the vector w of all weights: Eq. (7), plain or preconditioned by Adam.

Notation    paper                 here
            w                     w, (p,)
            ∇U                    gradient, (p,)
            η, α                  learning_rate, temperature
            ζ                     noise, (p,), standard normal
"""

from typing import Any, NamedTuple, TypeAlias

from daskfc.protocols.esfmc.networks.framework import jnp

Array: TypeAlias = Any  # of JAX, or a tracer

# Kingma and Ba 2015, their defaults, which are PyTorch's.
_BETA_1, _BETA_2, _EPSILON = 0.9, 0.999, 1e-8


class Moments(NamedTuple):
    """Adam's state: running means (p,) of gradients and of their squares, and the step count."""

    first: Array
    second: Array
    steps: Array


def _noise(learning_rate: Array, temperature: Array, noise: Array) -> Array:
    return jnp.sqrt(2.0 * learning_rate * temperature) * noise


def sgld(
    w: Array, gradient: Array, learning_rate: Array, temperature: Array, noise: Array
) -> Array:
    """Return w - η ∇U(w) + √(2ηα) ζ (Eq. 7), which samples from exp(-U / α) (Eq. 6)."""
    return w - learning_rate * gradient + _noise(learning_rate, temperature, noise)  # Eq. (7)


def adam(
    w: Array,
    gradient: Array,
    moments: Moments,
    learning_rate: Array,
    temperature: Array,
    noise: Array,
) -> tuple[Array, Moments]:
    """Return Adam's step with the noise of Eq. (7) added, and the new moments.

    The noise is not preconditioned like the gradient: this samples from no known distribution.
    """
    steps = moments.steps + 1
    first = _BETA_1 * moments.first + (1.0 - _BETA_1) * gradient
    second = _BETA_2 * moments.second + (1.0 - _BETA_2) * gradient**2
    mean = first / (1.0 - _BETA_1**steps)
    size = jnp.sqrt(second / (1.0 - _BETA_2**steps)) + _EPSILON
    w = w - learning_rate * mean / size + _noise(learning_rate, temperature, noise)
    return w, Moments(first, second, steps)
