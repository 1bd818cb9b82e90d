"""Every test here needs JAX."""

import pytest

pytest.importorskip("jax", reason="JAX is not installed (daskfc[multiview])")
