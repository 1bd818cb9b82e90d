"""Read from a method's docstrings its paper, its privacy claim and its parameters."""

import inspect
import re
import sys


def _joined(text: str) -> str:
    return " ".join(text.split())


def paper_of(kind: type) -> str:
    """Return the "Paper" block that opens a method's file or package, on one line, or ""."""
    name = kind.__module__
    for module in (name, name.rpartition(".")[0]):
        text = inspect.getdoc(sys.modules[module]) if module in sys.modules else None
        found = re.search(r"^Paper\s+(.+?)(?=^\S|\Z)", text or "", flags=re.MULTILINE | re.DOTALL)
        if found:
            return _joined(found[1])
    return ""


def privacy_of(method: object) -> str:
    """Return what a method, or a class of methods, claims of privacy, on one line; empty if none.

    That is its `privacy_claim`, or the paragraph after "Privacy:" in its docstring.
    """
    kind = method if isinstance(method, type) else type(method)
    if kind is not method and (own := getattr(method, "privacy_claim", "")):
        return str(own)
    found = re.search(r"^Privacy:\s+(.+?)(?=\n\s*\n|\Z)", inspect.getdoc(kind) or "", re.M | re.S)
    return _joined(found[1]).replace("`", "") if found else ""


def parameters_of(kind: type) -> dict[str, str]:
    """Return the description of each parameter in a method's numpydoc docstring, on one line."""
    doc = inspect.getdoc(kind) or ""
    section = re.search(r"^Parameters\n-+\n(.+?)(?=^\S[^\n]*\n-{3,}$|\Z)", doc, re.M | re.S)
    found: dict[str, str] = {}
    for names, text in re.findall(
        r"^(\w[\w, ]*?)(?: *:.*)?\n((?:[ \t]+.*\n?|\n)*)", section[1] if section else "", re.M
    ):
        for name in names.split(", "):
            found[name] = _joined(text)
    return found
