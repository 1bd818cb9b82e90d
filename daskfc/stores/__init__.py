"""Clients' data at rest: Zarr stores, the sources behind them, and how samples are dealt."""

import lazy_loader as _lazy

__getattr__, __dir__, __all__ = _lazy.attach_stub(__name__, __file__)
