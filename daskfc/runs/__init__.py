"""Runs: a pipeline on a storage and a cluster, in a folder of its own that can be resumed."""

import lazy_loader as _lazy

__getattr__, __dir__, __all__ = _lazy.attach_stub(__name__, __file__)
