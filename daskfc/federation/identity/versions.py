"""Checks, when a federation opens, that all of its processes run the same versions.

Steps travel by name and messages by class, and two versions of daskfc may mean different things by
one name. A step that a script defines travels as bytecode, which another minor version of Python
reads wrongly. Dask's wire protocol may change with every release, but not with its patches.
"""

import importlib.metadata
import platform
import warnings
from collections.abc import Iterator, Mapping

from daskfc.deploy.config.dask_insides import get_versions
from daskfc.errors import ClusterError

# The leading parts of each version that must agree; None is all of them.
_PARTS: dict[str, int | None] = {"daskfc": None, "python": 2, "dask": 2, "distributed": 2}


def _installed(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"  # a source tree on the path


# Read once, with the import: an upgrade under a running process changes nothing in it.
HERE: dict[str, str] = {
    "daskfc": _installed("daskfc"),
    "python": platform.python_version(),
    "dask": _installed("dask"),
    "distributed": _installed("distributed"),
}


def check_party_versions(theirs: Mapping[str, Mapping[str, str | None]]) -> None:
    """Raise ClusterError for another daskfc, minor Python or Dask release; warn of a patch."""
    _check({f"party {name!r}": found for name, found in theirs.items()}, HERE)


def check_scheduler_versions(theirs: Mapping[str, str | None]) -> None:
    """Compare the scheduler's versions with this process's; see `check_party_versions`."""
    # The scheduler imports daskfc to read the steps of a graph. Early releases of Dask answer None
    # for it; then this process does so too.
    told: str | None = get_versions(packages=["daskfc"])["packages"]["daskfc"]
    _check({"the scheduler": theirs}, {**HERE, "daskfc": told})


def _check(theirs: Mapping[str, Mapping[str, str | None]], here: Mapping[str, str | None]) -> None:
    refused = ", ".join(_differences(theirs, here, _PARTS))
    if refused:
        raise ClusterError(
            f"{refused}; a federation needs one version of daskfc, one minor version of Python and "
            "one release of Dask. Install there what is installed here, or the other way round."
        )
    noted = ", ".join(_differences(theirs, here, {"dask": None, "distributed": None}))
    if noted:
        warnings.warn(
            f"{noted}; patches of one release of Dask should understand each other. If the run "
            "fails, install the same everywhere.",
            UserWarning,
            stacklevel=4,
        )


def _differences(
    theirs: Mapping[str, Mapping[str, str | None]],
    here: Mapping[str, str | None],
    compared: Mapping[str, int | None],
) -> Iterator[str]:
    for who, found in theirs.items():
        for package, parts in compared.items():
            other, ours = found.get(package) or "unknown", here[package] or "unknown"
            if other.split(".")[:parts] != ours.split(".")[:parts]:
                yield f"{who} runs {package} {other} and this process {ours}"
