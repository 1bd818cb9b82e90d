"""Coding: Lagrange-coded distances, masks that cancel in sums, Shamir secret sharing."""

import lazy_loader as _lazy

__getattr__, __dir__, __all__ = _lazy.attach_stub(__name__, __file__)
