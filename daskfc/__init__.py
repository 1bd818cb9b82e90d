"""daskfc: cluster data that may not be pooled, on Dask.

Each client's data stays in its own store, handled by its own worker; only declared messages leave
a client, and every one of them is counted in a ledger.

The public names are listed in `__init__.pyi` and imported on first use.
"""

from importlib.metadata import version as _version

import lazy_loader as _lazy

from daskfc.naming import correction as _correction

_imported, __dir__, __all__ = _lazy.attach_stub(__name__, __file__)


def __getattr__(name: str) -> object:
    try:
        return _imported(name)
    except AttributeError:
        if name.startswith("_"):
            raise
        meant = _correction(name, __all__, "")
        raise AttributeError(f"daskfc has no {name!r}. {meant}".rstrip(), name=name) from None


__version__ = _version("daskfc")
