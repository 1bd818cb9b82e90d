"""What the documentation site is built with: its directives, its check of links."""

import dataclasses
import importlib
import inspect
import pkgutil
import re
import sys
from pathlib import Path

import click
import pytest
from docutils import nodes
from docutils.core import publish_doctree
from docutils.parsers.rst import directives

import daskfc
from daskfc.cli import main
from daskfc.federation import Message
from daskfc.protocols import METHODS
from daskfc.runs.pipeline.promises import parameters_of

DOCS = Path(__file__).parents[1] / "docs"


@pytest.fixture(scope="module")
def site():
    """Return the site's own modules; the directives are known to docutils meanwhile."""
    sys.path.insert(0, str(DOCS / "_ext"))
    try:
        declared, links = importlib.import_module("declared"), importlib.import_module("links")
    finally:
        sys.path.remove(str(DOCS / "_ext"))
    before = dict(directives._directives)
    for kind in (
        declared.Messages,
        declared.Parameters,
        declared.Paper,
        declared.Block,
        declared.Commands,
    ):
        directives.register_directive(kind.__name__.lower(), kind)
    yield links
    directives._directives.clear()
    directives._directives.update(before)


def rows_of(text):
    tree = publish_doctree(text, settings_overrides={"report_level": 5, "halt_level": 3})
    bodies = tree.findall(nodes.tbody)
    return [[entry.astext() for entry in row] for body in bodies for row in body]


def every_message():
    for module in pkgutil.walk_packages(daskfc.__path__, "daskfc."):
        if ".testing" not in module.name and not module.name.endswith("__main__"):
            for value in vars(importlib.import_module(module.name)).values():
                own = inspect.isclass(value) and value.__module__ == module.name
                if own and issubclass(value, Message) and value is not Message:
                    yield value


def test_every_message_is_on_a_page():
    """Nothing may leave a party that the documentation does not tell."""
    pages = [path.read_text(encoding="utf-8") for path in DOCS.rglob("*.md")]
    blocks = [block for page in pages for block in re.findall(r":::\{messages\}\n([^:]+)", page)]
    told = set(" ".join(blocks).split())
    for message in every_message():
        assert message.__module__ in told, f"{message.__name__} of {message.__module__}"


def test_every_axis_of_a_message_has_a_name_or_a_size():
    for message in every_message():
        for field in dataclasses.fields(message):
            axes = getattr(field.metadata.get("daskfc"), "axes", ())
            told = [isinstance(axis, str | int) and axis != "" for axis in axes]
            assert all(told), f"{message.__name__}.{field.name}: {axes}"


def test_messages_are_shown_as_they_are_declared(site):
    module = "daskfc.protocols.omnifc.messages"
    rows = rows_of(f".. messages::\n\n   {module}\n")
    (row,) = rows
    declared = importlib.import_module(module).ClusterReport
    assert row == ["ClusterReport", "server → caller", "plain", declared.reveals]


@pytest.mark.parametrize("name", METHODS)
def test_all_parameters_are_shown(site, name):
    rows = rows_of(f".. parameters:: {name}\n")
    assert [row[0] for row in rows] == list(inspect.signature(METHODS[name]).parameters)
    told = parameters_of(METHODS[name])
    assert all(row[3] == told[row[0]].replace("`", "") for row in rows)


def options_of(group, words):
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from options_of(command, f"{words} {name}")
            continue
        context = click.Context(command, info_name=f"{words} {name}")
        for one in command.params:
            if isinstance(one, click.Option) and (record := one.get_help_record(context)):
                yield record


def test_every_option_has_a_place_and_no_line_is_cut(site):
    tree = publish_doctree(".. commands::\n", settings_overrides={"report_level": 5})
    terms = [*tree.findall(nodes.term)]
    told = [item.children[1].astext() for item in tree.findall(nodes.definition_list_item)]
    options = [*options_of(main, "daskfc")]
    assert [(term.astext(), one) for term, one in zip(terms, told, strict=True)] == options
    places = [place for term in terms for place in term["ids"]]
    assert len(set(places)) == len(places) == len(options)
    assert "daskfc-run-storage" in places
    blocks = {block.astext() for block in tree.findall(nodes.literal_block)}
    assert all(text.lstrip().startswith("Example") for text in blocks)  # all else is in sentences


def test_a_block_that_no_file_has_is_an_error(site):
    with pytest.raises(Exception, match="no block 'Nonsense'"):
        rows_of(".. block:: daskfc.protocols.omnifc Nonsense\n")


def test_links_that_lead_nowhere_are_found(site, tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "a.html").write_text(
        '<p id="here"></p><a href="#here"></a><a href="sub/b.html#there"></a>'
        '<a href="https://example.org/x"></a><img src="figure.svg">',
        encoding="utf-8",
    )
    (tmp_path / "sub" / "b.html").write_text(
        '<a href="../a.html#gone"></a><a href="c.html"></a><a href="../a.html?x#here"></a>',
        encoding="utf-8",
    )
    assert set(site.broken(tmp_path)) == {
        ("a.html", "sub/b.html#there"),
        ("a.html", "figure.svg"),
        ("sub/b.html", "../a.html#gone"),
        ("sub/b.html", "c.html"),
    }
