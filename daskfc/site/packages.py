"""Finding the installed package that a method is of."""

from collections.abc import Iterable
from functools import cache
from importlib.metadata import PackageNotFoundError, packages_distributions, version

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from daskfc.plugins import entry_points_of

_OWN = "daskfc"


def package_of(module: str) -> tuple[str, str]:
    """Return the installed package that registers methods of a module, and its version.

    Returns
    -------
    tuple of str
        "unknown" and an empty version where no package registers methods of it, or several do; the
        version of a source tree on the path is empty too.

    Examples
    --------
    >>> from daskfc.site import package_of
    >>> package_of("daskfc.protocols.omnifc.estimator")[0], package_of("__main__")
    ('daskfc', ('unknown', ''))
    """
    top = module.partition(".")[0]
    if top == _OWN:
        return _OWN, _own_version()
    found = {
        (point.dist.name, point.dist.version)
        for point in entry_points_of("daskfc.methods")
        if point.dist is not None and point.module.partition(".")[0] == top
    }
    return found.pop() if len(found) == 1 else ("unknown", "")


@cache
def _own_version() -> str:
    try:
        return version(_OWN)
    except PackageNotFoundError:  # a source tree on the path
        return ""


def modules_of(packages: Iterable[str]) -> frozenset[str]:
    """Return the top modules of packages that a policy names; "any" are those with methods."""
    if packages == "any":
        return frozenset(
            point.module.partition(".")[0] for point in entry_points_of("daskfc.methods")
        )
    asked = [Requirement(one) for one in packages]
    if not asked:
        return frozenset()
    owners: dict[str, list[str]] = {}
    for module, names in packages_distributions().items():
        for name in names:
            owners.setdefault(canonicalize_name(name), []).append(module)
    found: set[str] = set()
    for one in asked:
        name = canonicalize_name(one.name)
        try:
            if one.specifier.contains(version(name), prereleases=True):
                found.update(owners.get(name, ()))
        except PackageNotFoundError:
            if not one.specifier:
                found.add(one.name)
    return frozenset(module for module in found if module.isidentifier())
