"""What a method's own documentation says: its paper, its privacy claim, its parameters."""

import inspect
import re
import sys

__all__ = ["paper_of", "parameters_of", "privacy_of"]


def _joined(text: str) -> str:
    return " ".join(text.split())


def paper_of(kind: type) -> str:
    """Return the "Paper" block that opens the file (or the package) of a method.

    Parameters
    ----------
    kind : type
        An estimator.

    Returns
    -------
    str
        On one line; empty when the file names no paper.

    Examples
    --------
    >>> from daskfc.protocols import METHODS
    >>> from daskfc.runs.promises import paper_of
    >>> "OmniFC" in paper_of(METHODS["OmniFC"])
    True
    """
    name = kind.__module__
    for module in (name, name.rpartition(".")[0]):
        text = inspect.getdoc(sys.modules[module]) if module in sys.modules else None
        found = re.search(r"^Paper\s+(.+?)(?=^\S|\Z)", text or "", flags=re.MULTILINE | re.DOTALL)
        if found:
            return _joined(found[1])
    return ""


def privacy_of(kind: type) -> str:
    """Return the paragraph "Privacy: ..." of a method's documentation.

    Parameters
    ----------
    kind : type
        An estimator.

    Returns
    -------
    str
        Without the word "Privacy:", on one line; empty when there is none.

    Examples
    --------
    >>> from daskfc.runs.promises import privacy_of
    >>> class Means:
    ...     '''Means of clients.
    ...
    ...     Notes
    ...     -----
    ...     Privacy: the server sees
    ...     every mean.
    ...     '''
    >>> privacy_of(Means)
    'the server sees every mean.'
    """
    found = re.search(r"^Privacy:\s+(.+?)(?=\n\s*\n|\Z)", inspect.getdoc(kind) or "", re.M | re.S)
    return _joined(found[1]) if found else ""


def parameters_of(kind: type) -> dict[str, str]:
    """Return what a method's documentation says of each of its parameters.

    Parameters
    ----------
    kind : type
        An estimator, documented in numpydoc's form.

    Returns
    -------
    dict of str to str
        A description on one line by the parameter's name, in the order of the documentation;
        parameters that are described together have the same.

    Examples
    --------
    >>> from daskfc.protocols import METHODS
    >>> from daskfc.runs.promises import parameters_of
    >>> parameters_of(METHODS["OmniFC"])["random_state"]
    'Seed of the clusterer. Masks and noise come from the operating system and have no seed.'
    """
    doc = inspect.getdoc(kind) or ""
    section = re.search(r"^Parameters\n-+\n(.+?)(?=^\S[^\n]*\n-{3,}$|\Z)", doc, re.M | re.S)
    found: dict[str, str] = {}
    for names, text in re.findall(
        r"^(\w[\w, ]*?)(?: *:.*)?\n((?:[ \t]+.*\n?|\n)*)", section[1] if section else "", re.M
    ):
        for name in names.split(", "):
            found[name] = _joined(text)
    return found
