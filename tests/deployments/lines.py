"""The command lines of files that users copy, read as the command line itself reads them."""

import re
import shlex
from pathlib import Path

import click

from daskfc.cli import main

ROOT = Path(__file__).parents[2]
CONFIGS = ROOT / "cluster-configs"
PAGES = ROOT / "docs" / "deploy"


def parsed(words):
    """Return what a command and its options mean; an unknown option or a missing one is an error.

    Parameters
    ----------
    words : list of str
        Without the program.
    """
    command, left = main, [*words]
    context = click.Context(main)
    while isinstance(command, click.Group):
        name, command, left = command.resolve_command(context, left)
    return {"command": name, **command.make_context(name, left).params}


def unit(text):
    """Return the lines of a unit by section and key; keys that are there twice are joined."""
    sections = {}
    for line in text.replace("\\\n", " ").splitlines():
        if found := re.fullmatch(r"\[(\w+)\]", line):
            held = sections.setdefault(found[1], {})
        elif line and not line.startswith("#"):
            key, _, value = line.partition("=")
            held[key] = f"{held[key]} {value}" if key in held else value
    return sections


def of_unit(path):
    """Return the words of a unit's ExecStart=, without the program."""
    return shlex.split(unit(path.read_text("utf-8"))["Service"]["ExecStart"])[1:]


def crontab(text):
    """Return the settings of a crontab, and its lines: five fields and a command."""
    settings, lines = {}, []
    for line in text.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        if found := re.fullmatch(r"(\w+)\s*=\s*(.*)", line):
            settings[found[1]] = found[2]
        else:
            lines.append(tuple(line.split(maxsplit=5)))
    return settings, lines


def of_crontab(path):
    """Return the words of each line's daskfc, as the shell takes them apart."""
    settings, lines = crontab(path.read_text("utf-8"))
    for *_, command in lines:
        (typed,) = re.findall(r"daskfc (.+?) >>log", command)
        yield re.sub(r"\$(\w+)", lambda found: settings[found[1]], typed).split()


def of_page(path):
    """Return the words of each command that a page shows, typed with daskfc's whole path or not."""
    text = path.read_text("utf-8").replace("\\\n", " ")
    for typed in re.findall(r"^(?: {4}|\$ )(?:\S+/)?daskfc (.+)$", text, re.MULTILINE):
        yield shlex.split(typed)
