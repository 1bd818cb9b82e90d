"""Whatever is written is executed: code blocks, YAML files, commands."""

import importlib
import inspect
import re
import shlex
import shutil
from pathlib import Path

import click
import pytest
import yaml

import daskfc
from daskfc.checks import checked
from daskfc.cli import main
from daskfc.deploy import load_cluster
from daskfc.deploy.certificates.party_list import FederationList
from daskfc.deploy.config.peers import check_identity
from daskfc.protocols import METHODS
from daskfc.runs import check_pipeline, known_methods, load_pipeline
from daskfc.site import Policy
from daskfc.stores import load_storage

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
DECISIONS = [*sorted((ROOT / "daskfc").rglob("DESIGN.md")), ROOT / "tests" / "DESIGN.md"]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted(DOCS.rglob("*.md")), *DECISIONS]
REFERENCE = sorted((DOCS / "reference").glob("*.rst"))
EXAMPLES = sorted((DOCS / "examples").rglob("*.py"))
PARTS = DOCS / "write-a-protocol.md"  # parts of one package: test_write_a_protocol.py
FOLDERS = ("pipelines", "storage", "cluster-configs")
# YAML that other programs read: tests/deployments, tests/deploy/test_monitoring.py
OF_OTHERS = ("containers", "kubernetes", "monitoring")
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
    if {"scheduler", "submitters"} <= tree.keys():
        return checked(FederationList, tree, "the list")
    if "cluster" in tree:
        return load_cluster(tree)
    if "parties" in tree:
        for name, role in tree["parties"].items():
            check_identity(role, name)
        return tree
    if {"raw", "budget", "methods"} & tree.keys():
        return Policy.of(tree)
    storage = load_storage(tree)
    assert storage.client_urls()
    return storage


@pytest.mark.parametrize(
    "path",
    [
        path
        for name in FOLDERS
        for path in sorted((ROOT / name).rglob("*.yaml"))
        if path.parent.name not in OF_OTHERS
    ],
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


def test_every_command_is_in_the_readme():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert [command for command in commands() if f"daskfc {command}" not in readme] == []


def test_commands_in_the_documentation_exist():
    known = {name.split()[0] for name in commands()}
    for page in PAGES:
        for name in re.findall(
            r"(?:`|^ {4,})daskfc ([a-z]+)", page.read_text(encoding="utf-8"), re.M
        ):
            assert name in known, (page, name)


def typed_commands():
    """Yield every command line of a page that somebody may copy."""
    for page in PAGES:
        text = re.sub(r"\\\n\s+", "", page.read_text(encoding="utf-8"))
        for line in re.findall(r"^ {4,}(daskfc .+)$", text, re.MULTILINE):
            yield pytest.param(line.partition(" && ")[0], id=f"{page.name}: {line}")


@pytest.mark.parametrize("line", list(typed_commands()))
def test_a_command_that_somebody_may_copy_can_be_read(line):
    """Its options are there, and its arguments are as many as they must be."""
    command, words = main, shlex.split(line)[1:]
    context = click.Context(main)
    while isinstance(command, click.Group):
        _, command, words = command.resolve_command(context, words)
    command.make_context(command.name, words)


def source_of(path):
    """Return what a page of the gallery is made of, which is there only once the site is built."""
    gallery = DOCS / "gallery"
    if gallery not in path.parents:
        return path
    if path.parent.name == "images":
        path = path.parents[1] / re.fullmatch(r"sphx_glr_(\w+)_\d{3}", path.stem)[1]
    made = DOCS / "examples" / path.relative_to(gallery).with_suffix(".py")
    return made.parent if path.stem == "index" else made


def test_links_to_files_lead_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
            assert source_of((page.parent / target).resolve()).exists(), (page, target)


def test_the_readme_can_be_read_in_a_sitting():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 200


def test_every_protocol_has_a_page_that_shows_what_its_code_declares():
    pages = [page.read_text(encoding="utf-8") for page in (DOCS / "methods").glob("*.md")]
    for name, kind in METHODS.items():
        (page,) = [page for page in pages if f":::{{parameters}} {name}\n" in page]
        package = kind.__module__.rpartition(".")[0]
        for shown in (f"{{paper}} {name}\n", f"{{block}} {package} Departures", "{messages}"):
            assert f":::{shown}" in page, (name, shown)
        own = (ROOT / package.replace(".", "/") / "messages.py").exists()
        assert (f"{package}.messages\n" if own else "daskfc.secure.") in page


def test_every_baseline_is_on_the_page_of_baselines():
    page = (DOCS / "methods" / "baselines.md").read_text(encoding="utf-8")
    for name in {*known_methods()} - {*METHODS}:
        assert f"`{name}`" in page, name


def test_the_reference_has_every_public_name():
    """Of the front door, and of every package that has a page."""
    pages = {page.stem: page.read_text(encoding="utf-8").split() for page in REFERENCE}
    everywhere = {name for words in pages.values() for name in words}
    for name in daskfc.__all__:
        assert name in everywhere, name
    for package in set(pages) - {"api", "secure", "testing"}:
        module = importlib.import_module(f"daskfc.{package}")
        for name in module.__all__:
            value = getattr(module, name)
            if inspect.isclass(value) or inspect.isfunction(value):
                assert name in everywhere, f"{package}.{name}"


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_short_and_draws(path):
    """`make docs` runs them all."""
    text = path.read_text(encoding="utf-8")
    compile(text, path, "exec")
    assert len(text.splitlines()) <= 100
    assert "plt.subplots" in text or "run.plot." in text
    assert any(start in text for start in ("fc.Federation.local", "fc.run", "fc.simulate("))


def test_there_are_fifteen_examples_in_sections():
    assert len(EXAMPLES) >= 15
    assert all((path.parent / "GALLERY_HEADER.rst").exists() for path in EXAMPLES)
    assert not list((DOCS / "examples").glob("*.py"))


def test_make_targets_in_the_documentation_exist():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for page in PAGES:
        for target in re.findall(r"`make ([a-z]+)", page.read_text(encoding="utf-8")):
            assert re.search(rf"^{target}:", makefile, re.M), (page, target)


def test_a_line_of_text_ends_at_100():
    too_long = []
    for page in PAGES:
        block = False
        for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), start=1):
            block ^= line.lstrip().startswith("```")
            if not block and not line.startswith(("|", "    ", "![")) and len(line) > 100:
                too_long.append(f"{page.relative_to(ROOT)}:{number}")
    assert too_long == []
