"""Check a run's data before it starts, where the stores can be read from here."""

from collections.abc import Mapping

import numpy as np
from sklearn.neighbors import NearestNeighbors

from daskfc.errors import InvalidInput
from daskfc.runs.pipeline.methods import CheckedPipeline
from daskfc.stores import ClientStore
from daskfc.stores.store.ranges import column_warnings

_SCALES = frozenset({"standardise", "min-max", "robust"})
_LOOKED_AT = 500  # ours: samples of a client that are compared with each other
_FEW = 0.05  # ours: least share of samples with a near one; copies of a few make no clusters
_APART = 10.0  # ours: widths beyond which nothing is alike; the Gaussian kernel is 2e-22 there


def check_bound(checked: CheckedPipeline, stores: Mapping[str, ClientStore]) -> None:
    """Raise if unprepared features exceed a declared ``max_abs``; names a client, no value."""
    most = checked.pipeline.params.get("max_abs")
    if most is None or checked.prepare.steps:
        return
    for name, store in stores.items():
        if not store.unprepared and any(np.abs(rows).max() > most for _, rows in store.blocks()):
            raise InvalidInput(
                f"the features of client {name!r} must lie within the declared max_abs={most:g}; "
                "some do not. Declare a larger bound, or none."
            )


def data_warnings(checked: CheckedPipeline, stores: Mapping[str, ClientStore]) -> list[str]:
    """Return warnings, for the summary, on what makes clusters of these stores doubtful."""
    prepared = {name for name, _ in checked.prepare.steps}
    told = column_warnings(stores, scaled=bool(prepared & _SCALES))
    width = checked.pipeline.params.get("kernel_width")
    if width and not prepared and _share_alike(stores, width) < _FEW:
        told.append(
            f"a kernel_width of {width:g} is less than a tenth of the distances of neighbours, "
            "where these were compared: hardly two samples are similar. Raise it, or leave it out."
        )
    return told


def _share_alike(stores: Mapping[str, ClientStore], width: float) -> float:
    """Return the share of some samples near another one of their client; 1 if it is not known."""
    near, n = 0, 0
    for store in stores.values():
        if store.unprepared:
            return 1.0
        rows = store.rows(0, min(store.n_samples, _LOOKED_AT))
        if len(rows) < 2:
            continue
        distances, _ = NearestNeighbors(n_neighbors=1).fit(rows).kneighbors()
        near, n = near + int(np.count_nonzero(distances < _APART * width)), n + len(rows)
    return near / n if n else 1.0
