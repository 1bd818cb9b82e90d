"""Cluster profiles in a run: whether they can be asked for, and what a summary tells of them."""

from typing import Any

import xarray as xr
from sklearn.base import BaseEstimator

from daskfc.errors import InvalidInput, PolicyRefused
from daskfc.federation import Federation
from daskfc.runs.pipeline.config import Pipeline
from daskfc.secure.profiles import ClusterProfiles, Profile

__all__ = ["check_profiles", "profiles_of"]


def _asked(pipeline: Pipeline) -> Profile:
    given: dict[str, Any] = pipeline.profiles or {}
    known = ("smallest", "of_one_client")
    for name in given:
        if name not in known:
            raise InvalidInput(
                f"'profiles' has no key {name!r}; it has {', '.join(known)}. Correct the name or "
                "leave it out."
            )
    return Profile(**given)


def check_profiles(pipeline: Pipeline, estimator: BaseEstimator, n_clients: int | None) -> None:
    """Refuse profiles of clusters that cannot be made of a pipeline's own method."""
    if pipeline.profiles is None:
        return
    _asked(pipeline)
    if estimator.split != "samples":
        raise InvalidInput(
            "'profiles' are sums over clients with the same columns, and each client of "
            f"{pipeline.method} has columns or views of its own. Leave them out."
        )
    if getattr(estimator, "noise", None):
        raise InvalidInput(
            f"'profiles' bear no noise, and {pipeline.method} is asked for some: they would tell "
            "what the noise hides. Leave one of the two out."
        )
    if n_clients is not None and n_clients < 2:
        raise InvalidInput(
            "'profiles' need two clients or more, as sums over fewer hide nobody's samples; got "
            f"{n_clients}. Add clients, or leave them out."
        )


def profiles_of(
    federation: Federation, pipeline: Pipeline, labels: xr.DataArray
) -> tuple[ClusterProfiles | None, str]:
    """Describe the clusters of a first fit, ``(sample,)``, where the pipeline asks for it.

    Returns None where nobody asked or a site's policy refuses; the second value is its reason. The
    labels stay usable then.
    """
    if pipeline.profiles is None:
        return None, ""
    federation.report_progress("describing the clusters", 0, 0)
    try:
        return _asked(pipeline).fit(federation, labels), ""
    except PolicyRefused as error:
        return None, f"clusters are not described: {error}"
