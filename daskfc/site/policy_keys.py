"""Values of a policy's keys that are lists of names, of methods with limits, and of packages."""

from typing import Annotated, Any, Literal

from packaging.requirements import InvalidRequirement, Requirement
from pydantic import BeforeValidator

from daskfc.site.limits import AsLimit

__all__ = ["Methods", "Names", "Packages"]


def _names(value: Any) -> Any:
    if value == "any":
        return value
    if not isinstance(value, list | tuple) or not all(isinstance(one, str) for one in value):
        raise ValueError("must be 'any' or a list of names")
    return tuple(value)


def _methods(value: Any) -> Any:
    if value == "any":
        return None  # a union would put its branches into the path of a wrong key
    listed = [value] if isinstance(value, dict) else value
    if not isinstance(listed, list | tuple) or not all(
        isinstance(one, str | dict) for one in listed
    ):
        raise ValueError("must be 'any', a list of names, or names with limits on parameters")
    found: dict[Any, Any] = {}
    for one in listed:
        for name, limits in ({one: None} if isinstance(one, str) else one).items():
            if name in found:
                raise ValueError(f"names {name!r} twice; keep one of the two")
            found[name] = {} if limits is None else limits
    return found


def _packages(value: Any) -> Any:
    names = _names(value)
    for one in () if names == "any" else names:
        try:
            asked = Requirement(one)
        except InvalidRequirement:
            asked = None
        if asked is None or asked.url or asked.extras or asked.marker:
            raise ValueError(
                "must be 'any', or a list of packages with versions, such as 'our-methods>=1.2,<2'"
            )
    return names


Names = Annotated[tuple[str, ...] | Literal["any"], BeforeValidator(_names)]
Packages = Annotated[tuple[str, ...] | Literal["any"], BeforeValidator(_packages)]
Methods = Annotated[dict[str, dict[str, AsLimit]] | None, BeforeValidator(_methods)]
