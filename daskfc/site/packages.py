"""Which installed package a method is of."""

from importlib.metadata import PackageNotFoundError, entry_points, version

__all__ = ["package_of"]

_OWN = "daskfc"


def package_of(module: str) -> tuple[str, str]:
    """Return the installed package that registers methods of a module, and its version.

    Parameters
    ----------
    module : str
        Name of the module that a method's class, or a step, is of.

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
        try:
            return _OWN, version(_OWN)
        except PackageNotFoundError:  # a source tree on the path
            return _OWN, ""
    found = {
        (point.dist.name, point.dist.version)
        for point in entry_points(group="daskfc.methods")
        if point.dist is not None and point.module.partition(".")[0] == top
    }
    return found.pop() if len(found) == 1 else ("unknown", "")
