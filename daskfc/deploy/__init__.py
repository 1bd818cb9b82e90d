"""Where parties run: the cluster's YAML file, and the processes that are started by it."""

import lazy_loader as _lazy

__getattr__, __dir__, __all__ = _lazy.attach_stub(__name__, __file__)
