"""The import of JAX, with one thread in a process; an InvalidInput if it is not installed.

With more threads, waiting ones take the cores of other clients, and the bits of a product depend on
their number. XLA reads it from ``PJRT_NPROC`` when a process first requests a device;
``--xla_cpu_multi_thread_eigen`` in ``XLA_FLAGS`` has no effect.
"""

import os

from daskfc.errors import InvalidInput

__all__ = ["device_of", "jax", "jnp"]

# Read by XLA at the first use of a device. A GPU's memory is shared with other clients.
_SETTINGS = {"PJRT_NPROC": "1", "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}

for _name, _value in _SETTINGS.items():
    os.environ.setdefault(_name, _value)

try:
    import jax
    import jax.numpy as jnp
except ImportError as error:
    raise InvalidInput(
        f"the networks of multi-view clustering must have JAX; it cannot be imported "
        f"({type(error).__name__}). Install it with: pip install 'daskfc[multiview]'."
    ) from error


def device_of(name: str) -> "jax.Device":
    """Return the first device of a kind, for "auto" a GPU if any; refuse a missing GPU."""
    if name not in ("auto", "cpu", "gpu"):
        raise InvalidInput(
            f"the device of the networks must be one of 'auto', 'cpu', 'gpu'; got {name!r}. "
            f"Correct the name."
        )
    try:
        return jax.devices(None if name == "auto" else name)[0]
    except RuntimeError as error:
        raise InvalidInput(
            f"the device of the networks was to be {name!r}; JAX sees none here. "
            f"Install it with: pip install 'jax[cuda13]', or use 'auto'."
        ) from error
