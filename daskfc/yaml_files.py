"""Read the YAML files of runs and of sites, and refuse repeated keys."""

import math
import os
import re
from pathlib import Path
from typing import Any

import yaml

from daskfc.errors import InvalidInput

_MOST = 1_000_000  # ours: values of a file, each counted as often as aliases repeat it
_MERGE = "tag:yaml.org,2002:merge"
_MARKS = {
    "pipeline": {"method"},
    "storage": {"source", "clients"},
    "cluster": {"cluster"},
    "policy": {"raw", "methods", "submitters", "maskers", "budget", "hours"},
    "parties": {"parties", "submitters"},
    "federation": {"scheduler", "clients", "submitters"},
}
# Errors of PyYAML's constructors where a value does not fit its tag, such as 2001-99-99.
_UNFIT = (ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError)


class _Loader(yaml.SafeLoader):
    """YAML 1.2's numbers (``1e-4`` is one), no key twice in a mapping, no aliases of aliases."""

    def get_single_node(self) -> Any:
        # Before anything is made: a few lines of aliases of aliases stand for any number of values.
        node = super().get_single_node()
        if node is not None and _n_values(node, {}) > _MOST:
            raise yaml.composer.ComposerError(
                problem=f"aliases make more than {_MOST} values of it, or one that holds itself",
                problem_mark=node.start_mark,
                note="Write out what is meant.",
            )
        return node

    def compose_mapping_node(self, anchor: Any) -> Any:
        # Here, before merge keys are replaced by their content, which a key may override.
        node = super().compose_mapping_node(anchor)
        first: dict[Any, int] = {}
        for key_node, _ in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                continue  # a list or a mapping as a key is refused later, for it has no hash
            merges = key_node.tag == _MERGE
            key = key_node.value if merges else self.construct_object(key_node)
            mark = key_node.start_mark
            if key in first:
                raise yaml.constructor.ConstructorError(
                    problem=f"key {key!r} is given twice, first in line {first[key]}",
                    problem_mark=mark,
                    note="Merge a list of both." if merges else "Keep one of the two.",
                )
            first[key] = mark.line + 1
        return node


# PyYAML's own resolver wants a dot and a signed exponent, so `tolerance: 1e-4` would be a string.
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)[eE][-+]?[0-9]+$"),
    list("-+.0123456789"),
)


def _n_values(node: yaml.Node, known: dict[yaml.Node, float]) -> float:
    """Return how many values a node stands for; infinity where it contains itself."""
    if node not in known:
        known[node] = math.inf  # until it is counted
        parts = node.value if isinstance(node, yaml.SequenceNode) else []
        if isinstance(node, yaml.MappingNode):
            parts = [part for pair in node.value for part in pair]
        known[node] = 1 + sum(_n_values(part, known) for part in parts)
    return known[node]


def read_yaml(text: str, source: str) -> Any:
    """Read YAML, with one-sentence errors; ``1e-4`` is a float, a repeated key is refused."""
    try:
        return yaml.load(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = "" if mark is None else f", line {mark.line + 1}, column {mark.column + 1}"
        problem, way_out = error.problem, error.note or "Correct that line."
    except yaml.YAMLError as error:
        where, problem, way_out = "", str(error).splitlines()[0], "Correct the file."
    except _UNFIT as error:
        where, way_out = "", "Correct the file, or put the value in quotes."
        problem = f"a value does not fit its type ({type(error).__name__})"
    raise InvalidInput(f"{source}{where}: not valid YAML: {problem}. {way_out}")


def assign(tree: dict[str, Any], assignment: str) -> None:
    """Apply one ``--set a.b=value`` to the content of a file, in place."""
    key, equals, text = assignment.partition("=")
    parts = key.strip().split(".")
    if not equals or not all(parts):
        raise InvalidInput(
            f"--set {assignment!r}: must be KEY=VALUE with a dotted key; "
            "write for example --set params.n_clusters=7."
        )
    node = tree
    for part in parts[:-1]:
        below = node.setdefault(part, {})
        if below is None:
            below = node[part] = {}
        if not isinstance(below, dict):
            raise InvalidInput(
                f"--set {assignment!r}: {part!r} holds {below!r}, not a mapping, so nothing below "
                "it can be set. Set that key as a whole."
            )
        node = below
    node[parts[-1]] = read_yaml(text, f"--set {key}")


def read_mapping(path: str | os.PathLike[str], kind: str, *, keys: str) -> dict[Any, Any]:
    """Read a YAML file in UTF-8 that must hold a mapping; refuse a repeated key.

    `keys` are those that it must have, in words; a file of another `kind` is refused.
    """
    if not isinstance(path, str | os.PathLike):
        raise InvalidInput(
            f"the {kind} is given as the path of a file, or as a dictionary of its content; got "
            f"{type(path).__name__}. Give one of these."
        )
    source = os.fspath(path)
    try:
        text = Path(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        problem, way_out = "there is no such file", f"Correct the path of the {kind} file"
    except UnicodeDecodeError as error:
        problem = f"a {kind} file must be text in UTF-8; got another byte at {error.start:,}"
        way_out = "Save it as UTF-8"
    except (OSError, ValueError) as error:
        problem = f"the {kind} file cannot be read ({type(error).__name__})"
        way_out = "Correct the path, or who may read it"
    else:
        content = read_yaml(text, source)
        if isinstance(content, dict):
            _check_kind(content, kind, source)
            return content
        got = "an empty file" if content is None else type(content).__name__
        problem, way_out = f"a {kind} file must be a mapping with {keys}; got {got}", "Correct it"
    raise InvalidInput(f"{source}: {problem}. {way_out}.")


def _check_kind(content: dict[Any, Any], kind: str, source: str) -> None:
    """Raise for a file that has the keys of another kind, and none of its own."""
    if _MARKS.get(kind, set()) & content.keys():
        return
    for other, marks in _MARKS.items():
        if other != kind and marks & content.keys():
            raise InvalidInput(
                f"{source}: this is a {other} file, and a {kind} file is wanted here. Swap the "
                "two, or correct the path."
            )
