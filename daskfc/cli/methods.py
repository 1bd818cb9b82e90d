"""``daskfc methods``: what a pipeline may name."""

import inspect

import click
from rich.table import Column
from rich.text import Text
from sklearn.base import BaseEstimator

from daskfc.cli.terminal.exits import exits
from daskfc.cli.terminal.output import print_table, stdout_console
from daskfc.federation.methods.parameters import constraints_of
from daskfc.runs import known_methods
from daskfc.runs.pipeline.methods import method_of
from daskfc.runs.pipeline.promises import paper_of, parameters_of, privacy_of

_CLIENTS_HOLD = {
    "samples": "For clients that hold different samples.",
    "columns": "For clients that hold columns of the same samples.",
    "views": "For clients that hold views: columns of their own, of samples they share in part.",
    "grid": "For clients that hold some columns of some samples.",
}


def _parameters(kind: type[BaseEstimator]) -> str:
    words = []
    for name, parameter in inspect.signature(kind).parameters.items():
        if name == "random_state":
            continue  # the pipeline's seeds
        default = parameter.default
        needed = default is inspect.Parameter.empty
        words.append(name if needed else f"{name}={default!r}")
    return ", ".join(words)


def _first_sentence(kind: type[BaseEstimator]) -> str:
    return (inspect.getdoc(kind) or "").split("\n\n")[0].replace("\n", " ")


def _list() -> None:
    rows = []
    for name, kind in known_methods().items():
        told = (_first_sentence(kind), _CLIENTS_HOLD[kind.split], privacy_of(kind))
        promise = " ".join(part for part in told if part)
        rows.append((Text(name, style="bold"), paper_of(kind), promise, _parameters(kind)))
    titles = ("paper", "what it does and what it promises", "parameters")
    print_table((Column("method", no_wrap=True), *titles), rows, show_lines=True)


def _default(parameter: inspect.Parameter) -> str:
    if parameter.name == "random_state":
        return "the run's seeds"
    return "required" if parameter.default is parameter.empty else repr(parameter.default)


def _explain(name: str, kind: type[BaseEstimator]) -> None:
    rules, told = constraints_of(kind), parameters_of(kind)
    about = {"": _first_sentence(kind), "Data: ": _CLIENTS_HOLD[kind.split]}
    about |= {"Paper: ": paper_of(kind), "Privacy: ": privacy_of(kind)}
    lines = [Text(f"{title}{text}") for title, text in about.items() if text]
    stdout_console().print(Text(name, style="bold"), *lines, sep="\n")
    rows = []
    for parameter in inspect.signature(kind).parameters.values():
        rule = rules.get(parameter.name)
        what = told.get(parameter.name, "").replace("`", "")
        named = Text(parameter.name, style="bold")
        rows.append((named, _default(parameter), rule.rule if rule else "", what))
    titles = (Column("parameter", no_wrap=True), "default", "must be", "what it does")
    print_table(titles, rows, show_lines=True)


@click.command()
@click.argument("name", required=False)
def methods(name: str | None) -> None:
    """List the methods that a pipeline's 'method' and 'compare' may name, or explain NAME.

    The list has each method's paper, what its clients hold, what it promises or reveals, and its
    parameters with their defaults. With NAME every parameter is explained.
    """
    with exits():
        if name is None:
            _list()
        else:
            _explain(*method_of(name))
