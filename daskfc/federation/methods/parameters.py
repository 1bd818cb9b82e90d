"""Parameters of methods: declared once, as fields of the class, with the rule that they keep."""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, TypeVar

from daskfc.checks import Constraint
from daskfc.naming import correction

T = TypeVar("T")

_NONE_GIVEN = inspect.Parameter.empty


@dataclass(frozen=True)
class _Param:
    constraint: Constraint
    default: Any
    kw_only: bool


def param(constraint: Constraint, *, default: Any = _NONE_GIVEN, kw_only: bool = True) -> Any:
    """Declare a parameter of a method.

    Parameters
    ----------
    constraint : Constraint
        Its rule, see `daskfc.checks`.
    default : object, optional
        Without one the parameter must be given.
    kw_only : bool
        Whether it can only be given by name; positional ones come first, in their order.

    Examples
    --------
    >>> from daskfc.checks import integer
    >>> from daskfc.federation.methods.parameters import constraints_of, make_init, param
    >>> class Means:
    ...     n_clusters: int = param(integer(low=1), kw_only=False)
    ...     rounds: int = param(integer(low=1), default=5)
    >>> make_init(Means)
    >>> Means(3).rounds, constraints_of(Means)["rounds"].rule
    (5, 'a whole number of at least 1')
    """
    return _Param(constraint, default, kw_only)


def make_init(cls: type) -> None:
    """Give a class an ``__init__`` that only assigns its parameters, as scikit-learn requires."""
    own = {name: value for name, value in vars(cls).items() if isinstance(value, _Param)}
    if not own:
        return
    params: dict[str, _Param] = {**getattr(cls, "_declared_params", {}), **own}
    annotations: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        annotations |= inspect.get_annotations(base)
    kinds = inspect.Parameter
    parameters = [
        kinds(
            name,
            kinds.KEYWORD_ONLY if value.kw_only else kinds.POSITIONAL_OR_KEYWORD,
            default=value.default,
            annotation=annotations.get(name, kinds.empty),
        )
        for name, value in params.items()
    ]
    parameters.sort(key=lambda parameter: (parameter.kind, parameter.name == "random_state"))
    signature = inspect.Signature(parameters)

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError as error:
            unknown = [name for name in kwargs if name not in signature.parameters]
            meant = correction(unknown[0], signature.parameters, "") if unknown else ""
            told = f"got an unexpected keyword argument {unknown[0]!r}" if unknown else str(error)
            raise TypeError(f"{type(self).__name__}: {told}. {meant}".rstrip(". ")) from None
        bound.apply_defaults()
        for name, value in bound.arguments.items():
            setattr(self, name, value)

    own_self = kinds("self", kinds.POSITIONAL_OR_KEYWORD)
    __init__.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[own_self, *parameters], return_annotation=None
    )
    __init__.__qualname__ = f"{cls.__qualname__}.__init__"
    for name in own:
        delattr(cls, name)
    cls._declared_params = params  # type: ignore[attr-defined]
    cls.__init__ = __init__  # type: ignore[misc]


def constraints_of(cls: type) -> Mapping[str, Constraint]:
    """Return the rule of every parameter that a class declares or inherits."""
    params: Mapping[str, _Param] = getattr(cls, "_declared_params", {})
    return {name: value.constraint for name, value in params.items()}


def picked(kind: type[T], method: object, **others: object) -> T:
    """Return a dataclass filled from a method's parameters of the same names, and from `others`."""
    names = (field.name for field in fields(kind) if field.name not in others)  # type: ignore[arg-type]
    return kind(**{name: getattr(method, name) for name in names}, **others)
