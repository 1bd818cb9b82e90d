"""What the layout of the package promises: short files, telling names, a small front door."""

import ast
import importlib
import inspect
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

import daskfc

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "daskfc"
LONGEST = 500  # lines
VAGUE = {"utils", "util", "common", "helpers", "helper", "misc", "core", "constants", "tools"}
MODULES = sorted(PACKAGE.rglob("*.py"))
PAPERS = ROOT / "pipelines" / "papers"
PROGRAMS = sorted(PAPERS.rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))


def name_of(path):
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def test_files_can_be_read_in_a_sitting():
    lengths = {
        path: len(path.read_text(encoding="utf-8").splitlines())
        for path in [*MODULES, *PROGRAMS, *TESTS]
    }
    assert {path: lines for path, lines in lengths.items() if lines > LONGEST} == {}


def test_names_say_what_is_in_a_file():
    found = {part for path in [*MODULES, *PROGRAMS] for part in name_of(path).split(".")}
    assert not found & VAGUE


def test_pipelines_holds_pipelines_and_short_examples():
    for path in (ROOT / "pipelines").iterdir():
        if path.suffix == ".py":
            assert len(path.read_text(encoding="utf-8").splitlines()) <= 150, path
        else:
            assert path.suffix == ".yaml" or path.name in ("papers", "attacks", "__pycache__"), path


def test_no_paper_imports_another():
    """What they share lies beside their folders, and knows none of them."""
    papers = {folder.name for folder in PAPERS.iterdir() if folder.is_dir()}
    for path in PROGRAMS:
        imported = set()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                imported |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0, path
                imported |= {f"{node.module}.{alias.name}" for alias in node.names}
        others = {f"pipelines.papers.{paper}." for paper in papers - {path.parent.name}}
        assert not [name for name in imported if f"{name}.".startswith(tuple(others))], path


def test_every_module_says_what_it_is_and_every_front_what_it_offers():
    silent, unlisted = [], []
    for path in MODULES:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        if not tree.body:  # the empty __init__ of a package that holds only modules
            assert path.name == "__init__.py", path
            continue
        if ast.get_docstring(tree) is None:
            silent.append(path)
        front = path.name == "__init__.py" and len(tree.body) > 1
        if front and not hasattr(importlib.import_module(name_of(path)), "__all__"):
            unlisted.append(path)
    assert (silent, unlisted) == ([], [])


def test_every_public_name_is_documented():
    undocumented = []
    for path in MODULES:
        if path.stem == "__main__":
            continue
        module = importlib.import_module(name_of(path))
        for name, value in vars(module).items():
            own = inspect.isclass(value) or inspect.isfunction(value)
            public = not name.startswith("_") and own and value.__module__ == module.__name__
            if public and not inspect.getdoc(value):
                undocumented.append(f"{module.__name__}.{name}")
    assert undocumented == []


def test_an_underscore_keeps_a_name_within_its_module():
    taken = [
        f"{path}: {node.module}.{alias.name}"
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and str(node.module).partition(".")[0] == "daskfc"
        for alias in node.names
        if alias.name.startswith("_") and not alias.name.startswith("__")
    ]
    assert taken == []


def test_the_front_door_is_small_and_sorted_out():
    assert len(daskfc.__all__) <= 36
    assert all(hasattr(daskfc, name) for name in daskfc.__all__)


def test_what_the_front_door_offers_has_an_example():
    for name in daskfc.__all__:
        value = getattr(daskfc, name)
        if inspect.isclass(value) and not issubclass(value, Exception):
            texts = [value, *(member for key, member in vars(value).items() if key[0] != "_")]
            assert any(">>> " in (inspect.getdoc(text) or "") for text in texts), name
        elif inspect.isfunction(value):
            assert ">>> " in inspect.getdoc(value), name


@pytest.mark.slow
def test_a_module_is_the_same_for_its_examples_and_for_tests():
    """Examples collected first once ran the package's __init__.py a second time."""
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:randomly", "-k", "in_blocks"]
    folders = ["daskfc/clustering", "tests/protocols/fedsc/test_kernel_dictionary.py"]
    command = [sys.executable, "-m", "pytest", *options, *folders]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_no_file_names_a_machine():
    words = (f"{ROOT.parent}/", f"{Path.home()}/")
    pages = [*ROOT.glob("*.md"), *ROOT.glob("*/*.yaml"), *PAPERS.rglob("*.yaml"), ROOT / "Makefile"]
    for path in [*MODULES, *PROGRAMS, *pages]:
        text = path.read_text(encoding="utf-8")
        for word in words:
            assert word not in text, (path, word)


def test_the_lowest_versions_are_those_that_the_bounds_name():
    """A bound that is changed is proven only when its file is made anew; the file says how."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    lines = (ROOT / "constraints-lowest.txt").read_text(encoding="utf-8").splitlines()
    pins = dict(line.split("==") for line in lines if "==" in line)
    for text in [*project["dependencies"], *extras["fast"], *extras["multiview"], *extras["test"]]:
        requirement = Requirement(text)
        (bound,) = requirement.specifier
        lowest = Version(bound.version).release
        pin = Version(pins[requirement.name.lower()]).release
        assert (bound.operator, pin[: len(lowest)]) == (">=", lowest), requirement.name


def test_whatever_is_no_python_is_installed_too():
    """A template that is no package data is missing wherever daskfc was not installed from here."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    patterns = project["tool"]["setuptools"]["package-data"]
    files = [path for path in PACKAGE.rglob("*.*") if path.parent.name != "__pycache__"]
    others = {path for path in files if path.suffix != ".py"}
    named = [
        set(ROOT.joinpath(*package.split(".")).glob(pattern))
        for package, globs in patterns.items()
        for pattern in globs
    ]
    assert all(named)
    assert others == set().union(*named)
