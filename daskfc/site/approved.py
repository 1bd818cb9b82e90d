"""Approved protocols: which steps a method has, where they run, and whose results they take.

If submitters could call the steps of an installed method in any order, raw samples could leave as
something else: by a step that reads them, then one that sends its argument. A party of a site
therefore performs a step only in a use that the announced method has with the announced parameters.
The approved uses of each method are a file in ``protocols``, which people can read.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import resources
from typing import Any

from daskfc.site.request import Refusal
from daskfc.yaml_files import read_yaml

PLACE, ROUTE, WHERE = "at", "sends", "where"
"""Keys of a step besides its arguments: the party's role, which way its messages go, and what all
of its entries need."""

TO_EACH = " (to each)"
"""Behind what each client gets its own of, so that masks do not hold clients to the same of it."""

_FOLDER = "protocols"
_GIVEN, _NO_CLAIM = "given", "given without delta"
_NOISE = "noise"  # the parameter of methods, and the argument of steps, that a policy may require


@dataclass(frozen=True)
class StepUse:
    """One use of a step, ``module.name``, as a party in the role `at` is asked for it.

    "(made before)" after a name means that its kept result is sent. `takes` has each argument's
    sources: steps of the same party, message classes, "caller" for the submitter's values, and
    functions that these name; `messages` has the classes of messages that the submitter made.
    """

    step: str
    at: str
    sends: frozenset[str]
    takes: Mapping[str, frozenset[str]]
    left_out: frozenset[str] = frozenset()
    function: Callable[..., Any] | None = None
    given: Mapping[str, Any] = field(default_factory=dict, compare=False)
    messages: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def parts(self) -> Iterable[tuple[str, str]]:
        """Return what must be approved: pairs of a key of the step's entry, and a value there."""
        yield PLACE, self.at
        for route in self.sends:
            yield ROUTE, route
        for argument, sources in self.takes.items():
            for source in sources:
                yield argument, source


def setting(value: Any) -> Any:
    """Return a parameter's value as approvals use it: a bool, str or None itself, else "given".

    Noise without a delta claims nothing, and hides nothing of what is told beside it.
    """
    if value is None or isinstance(value, bool | str):
        return value
    return _NO_CLAIM if isinstance(value, Mapping) and value.get("delta") is None else _GIVEN


@dataclass(frozen=True)
class Protocol:
    """The steps of a method or task, the values of their keys, and the settings that each needs."""

    method: str
    steps: Mapping[str, Mapping[str, Mapping[str, Mapping[str, Sequence[Any]]]]]

    @classmethod
    def of(cls, method: str) -> "Protocol":
        """Return the protocol of a method of daskfc, without steps for any other name."""
        return _read(method)

    def refusal(self, use: StepUse, parameters: Mapping[str, Any]) -> Refusal | None:
        """Return a refusal if the method has no such use with its announced parameters."""
        known = self.steps.get(use.step)
        if known is None:
            return Refusal("steps", f"{self.method} has no step {use.step}.")
        if _NOISE in use.left_out and parameters.get(_NOISE) is not None:
            told = f"step {use.step} is asked for without the noise that was announced."
            return Refusal("steps", told)
        for key, made in use.messages.items():
            # "caller" is there for None: what a party sends would be what the caller wants it to be
            if made & {one.removesuffix(TO_EACH) for one in known.get(key, ())}:
                told = f"{self.method} has no step {use.step} whose {key} is a message of no party."
                return Refusal("steps", told)
        for key, value in use.parts():
            if value not in known.get(key, ()):
                return Refusal(
                    "steps", f"{self.method} has no step {use.step} {_told(key, value)}."
                )
            for name, settings in known[key][value].items():
                if setting(parameters.get(name)) not in settings:
                    told = f"{_told(key, value)} where its {name} is {parameters.get(name)!r}"
                    return Refusal("steps", f"{self.method} has no step {use.step} {told}.")
        return None


def _told(key: str, value: str) -> str:
    if key == PLACE:
        return f"at a {value}"
    return f"that sends {value}" if key == ROUTE else f"whose {key} is from {value}"


@lru_cache
def _read(method: str) -> Protocol:
    names = {path.name: path for path in resources.files("daskfc.site").joinpath(_FOLDER).iterdir()}
    path = names.get(f"{method}.yaml")  # among those files: a name leads nowhere else
    if path is None:
        return Protocol(method, {})
    content = read_yaml(path.read_text(encoding="utf-8"), path.name)
    return Protocol(method, {step: _read_step(entry) for step, entry in content["steps"].items()})


def _read_step(entry: Mapping[str, Any]) -> dict[str, dict[str, Mapping[str, Sequence[Any]]]]:
    """Return values and the settings that they need, written ``value`` or ``{value: needs}``."""
    all_need = entry.get(WHERE, {})
    return {
        key: {
            value: {**all_need, **needs}
            for one in listed
            for value, needs in (({one: {}} if isinstance(one, str) else one).items())
        }
        for key, listed in entry.items()
        if key != WHERE
    }
