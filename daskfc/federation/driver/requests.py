"""The request of a fit, which the policies of the parties' sites judge before it starts."""

from collections.abc import Mapping
from typing import Any

from daskfc.site import RunRequest, package_of

_MASKS = "allow_few"  # the parameter of methods that add up arrays under masks


def request_for(kind: type[Any], parameters: Mapping[str, Any], **more: Any) -> RunRequest:
    """Return the request of one start of a method, with all of its ``get_params(deep=False)``."""
    package, installed = package_of(kind.__module__)
    given: dict[str, Any] = {
        "allow_raw": bool(getattr(kind, "needs_raw", False)),
        "masked": _MASKS in parameters,
        **more,
    }
    own = {name: value for name, value in parameters.items() if name != "random_state"}
    name = vars(kind).get("method_name", kind.__name__)  # a subclass has a name of its own
    return RunRequest(name, package=package, version=installed, parameters=own, **given)
