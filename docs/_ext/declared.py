"""Directives that print what the code declares, so that no page can say something else.

``messages`` lists the messages of modules, ``parameters`` those of a method, ``paper`` where it
comes from, ``block`` shows a part of what a file says of itself, and ``commands`` the help of the
command line.
"""

import importlib
import inspect
import re
from collections.abc import Sequence
from typing import Any

import click
from docutils import nodes
from docutils.parsers.rst import Directive

from daskfc.cli import main
from daskfc.federation import Message
from daskfc.federation.messages.declaration import routes_of
from daskfc.federation.methods.parameters import constraints_of
from daskfc.runs import known_methods
from daskfc.runs.pipeline.promises import paper_of, parameters_of, privacy_of


def _entry(text: str, code: bool) -> nodes.entry:
    paragraph = nodes.paragraph()
    paragraph += nodes.literal(text, text) if code else nodes.Text(text)
    return nodes.entry("", paragraph)


def _table(titles: Sequence[str], rows: Sequence[Sequence[str]], code: int) -> nodes.table:
    """Return a table; the entries of its first so many columns are code."""
    group = nodes.tgroup(cols=len(titles))
    group += [nodes.colspec(colwidth=1) for _ in titles]
    head, body = nodes.thead(), nodes.tbody()
    head += nodes.row("", *(_entry(title, False) for title in titles))
    for row in rows:
        body += nodes.row("", *(_entry(text, i < code) for i, text in enumerate(row)))
    group += [head, body]
    return nodes.table("", group, classes=["declared"])


class Messages(Directive):
    """What the message classes of modules declare: route, protection and what they reveal.

    Its lines name the modules.
    """

    has_content = True

    def run(self) -> list[nodes.Node]:
        """Return the table."""
        found: dict[str, type[Message]] = {}
        for name in " ".join(self.content).split():
            module = importlib.import_module(name)
            for value in vars(module).values():
                of_it = inspect.isclass(value) and value.__module__ == name
                if of_it and issubclass(value, Message):
                    found[value.__name__] = value
        if not found:
            raise self.error("no message class is in these modules")
        rows = [
            (name, ", ".join(routes_of(kind)), kind.protection, kind.reveals)
            for name, kind in found.items()
        ]
        return [_table(("message", "route", "protection", "what it reveals"), rows, 1)]


class Parameters(Directive):
    """The parameters of a method with their rules, defaults and descriptions."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Return the table."""
        kind = known_methods()[self.arguments[0]]
        rules, told = constraints_of(kind), parameters_of(kind)
        rows = []
        for one in inspect.signature(kind).parameters.values():
            default = "required" if one.default is one.empty else repr(one.default)
            rule = rules[one.name].rule if one.name in rules else ""
            rows.append((one.name, default, rule, told.get(one.name, "").replace("`", "")))
        return [_table(("parameter", "default", "must be", "what it does"), rows, 2)]


class Paper(Directive):
    """The paper that a method's file names, and its privacy claim."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Return two paragraphs, or as many as there are."""
        kind = known_methods()[self.arguments[0]]
        told = {"Paper": paper_of(kind), "Privacy": privacy_of(kind)}
        return [
            nodes.paragraph("", "", nodes.strong("", f"{title}: "), nodes.Text(text))
            for title, text in told.items()
            if text
        ]


class Block(Directive):
    """One block of the text at the top of a package, such as Notation or Departures.

    The arguments are the package and the block's first word.
    """

    required_arguments = 2

    def run(self) -> list[nodes.Node]:
        """Return the block as it stands there."""
        name, word = self.arguments
        doc = inspect.getdoc(importlib.import_module(name)) or ""
        found = re.search(rf"^{word}(\s.+?)(?=^\S|\Z)", doc, re.MULTILINE | re.DOTALL)
        if found is None:
            raise self.error(f"{name} has no block {word!r}")
        text = inspect.cleandoc(" " * len(word) + found[1])
        return [nodes.literal_block(text, text, language="text")]


class Commands(Directive):
    """What every command says with ``--help``."""

    def run(self) -> list[nodes.Node]:
        """Return a section for each command."""
        return [self._section(words, command) for words, command in self._commands(main, "daskfc")]

    def _commands(self, group: click.Group, prefix: str) -> list[tuple[str, click.Command]]:
        found: list[tuple[str, click.Command]] = []
        for name, command in group.commands.items():
            words = f"{prefix} {name}"
            if isinstance(command, click.Group):
                found += self._commands(command, words)
            else:
                found.append((words, command))
        return found

    def _section(self, words: str, command: click.Command) -> nodes.section:
        context = click.Context(command, info_name=words)
        section = nodes.section(ids=[nodes.make_id(words)], names=[words], classes=["command"])
        section += nodes.title(words, words)
        usage = " ".join([words, *command.collect_usage_pieces(context)])
        section += nodes.paragraph("", "", nodes.literal(usage, usage))
        for part in inspect.cleandoc(command.help or "").split("\n\n"):
            if part.startswith("\b"):  # click leaves such lines as they are
                section += self._example(part.removeprefix("\b").strip("\n"))
            else:
                text = " ".join(part.split())
                section += nodes.paragraph(text, text)
        options = nodes.definition_list()
        for one in command.params:
            record = one.get_help_record(context) if isinstance(one, click.Option) else None
            if record is not None:
                options += self._option(words, *record)
        if len(options):
            section += options
        return section

    def _example(self, text: str) -> nodes.literal_block:
        return nodes.literal_block(text, text, language="text")

    def _option(self, words: str, name: str, told: str) -> nodes.definition_list_item:
        """Return an option and what it does; its place has the name of its long form."""
        place = nodes.make_id(f"{words} {name.rpartition('--')[2].split()[0]}")
        term = nodes.term("", "", nodes.literal(name, name), ids=[place])
        return nodes.definition_list_item(
            "", term, nodes.definition("", nodes.paragraph(told, told))
        )


def setup(app: Any) -> dict[str, Any]:
    """Tell Sphinx of the directives."""
    for kind in (Messages, Parameters, Paper, Block, Commands):
        app.add_directive(kind.__name__.lower(), kind)
    return {"parallel_read_safe": True}
