"""Whatever is written is executed: code blocks, YAML files, commands."""

import re
import shutil
from pathlib import Path

import click
import pytest
import yaml

from daskfc.cli import main
from daskfc.deploy import load_cluster
from daskfc.runs import check_pipeline, load_pipeline
from daskfc.stores import load_storage

ROOT = Path(__file__).parents[1]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
PARTS = ROOT / "docs" / "write-a-protocol.md"  # parts of one package: test_write_a_protocol.py
FOLDERS = ("pipelines", "storage", "cluster-configs")
# A block that is not run has the reason in a comment above it: <!-- not run: needs two hosts -->
_BLOCK = re.compile(
    r"(?:<!-- not run: (?P<reason>[^>]+) -->\n+)?^```(?P<kind>\w*)\n(?P<text>.*?)^```",
    re.MULTILINE | re.DOTALL,
)


def blocks(kind):
    for page in [page for page in PAGES if page != PARTS]:
        for found in _BLOCK.finditer(page.read_text(encoding="utf-8")):
            if found["kind"] == kind:
                line = page.read_text(encoding="utf-8")[: found.start("text")].count("\n") + 1
                name = f"{page.relative_to(ROOT)}:{line}"
                yield pytest.param(found["text"], found["reason"], id=name)


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A folder with the files that blocks name, as somebody who cloned the project has them."""
    for name in FOLDERS:
        shutil.copytree(ROOT / name, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize(("text", "reason"), list(blocks("python")))
def test_python_blocks_run(project, text, reason):
    if reason is not None:
        compile(text, "block", "exec")  # not run, but still Python
        return
    exec(compile(text, "block", "exec"), {"__name__": "block"})


@pytest.mark.parametrize(("text", "reason"), list(blocks("yaml")))
def test_yaml_blocks_load(text, reason, monkeypatch):
    monkeypatch.setenv("DASKFC_DATA", "/data")
    loaded = [load_any(one) for one in yaml.safe_load_all(text)]
    assert loaded


def load_any(tree):
    """Load a file by what it says it is, and check all that can be checked without starting."""
    if "method" in tree:
        pipeline = load_pipeline(tree)
        check_pipeline(pipeline, n_clients=10)
        return pipeline
    if "cluster" in tree:
        return load_cluster(tree)
    storage = load_storage(tree)
    assert storage.client_urls()
    return storage


@pytest.mark.parametrize(
    "path",
    [path for name in FOLDERS for path in sorted((ROOT / name).rglob("*.yaml"))],
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_every_yaml_loads_and_dry_runs(path, monkeypatch):
    monkeypatch.setenv("DASKFC_DATA", "/data")
    loader = {"pipelines": load_any_pipeline, "storage": load_any_storage}
    loader.get(path.relative_to(ROOT).parts[0], load_cluster)(path)


def load_any_pipeline(path):
    check_pipeline(load_pipeline(path), n_clients=10)


def load_any_storage(path):
    assert load_storage(path).client_urls()


def commands(group=main, prefix=()):
    for name, command in group.commands.items():
        yield " ".join((*prefix, name))
        if isinstance(command, click.Group):
            yield from commands(command, (*prefix, name))


@pytest.mark.parametrize("command", list(commands()))
def test_every_command_is_in_the_readme(command):
    assert f"daskfc {command}" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_commands_in_the_documentation_exist():
    known = {name.split()[0] for name in commands()}
    for page in PAGES:
        for name in re.findall(
            r"(?:`|^ {4,})daskfc ([a-z]+)", page.read_text(encoding="utf-8"), re.M
        ):
            assert name in known, (page, name)


def test_links_to_files_lead_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), (page, target)


def test_make_targets_in_the_documentation_exist():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for page in PAGES:
        for target in re.findall(r"`make ([a-z]+)", page.read_text(encoding="utf-8")):
            assert re.search(rf"^{target}:", makefile, re.M), (page, target)


@pytest.mark.parametrize("page", [*PAGES, ROOT / "daskfc" / "DESIGN.md"], ids=lambda p: p.name)
def test_a_line_of_text_ends_at_100(page):
    block = False
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), start=1):
        block ^= line.lstrip().startswith("```")
        if not block and not line.startswith(("|", "    ", "![")):
            assert len(line) <= 100, f"line {number} has {len(line)} characters"
