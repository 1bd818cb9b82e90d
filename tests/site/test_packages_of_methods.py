"""Which installed package a method is said to be of."""

from importlib.machinery import EXTENSION_SUFFIXES
from importlib.metadata import EntryPoint, version

import pytest

from daskfc.site import package_of, packages
from daskfc.site.packages import modules_of


class Installed:
    def __init__(self, name, version):
        self.name, self.version = name, version


@pytest.fixture
def register(monkeypatch):
    """Let packages register methods."""
    points = []

    def add(value, name, version):
        point = EntryPoint("Method", value, "daskfc.methods")
        vars(point)["dist"] = None if name is None else Installed(name, version)
        points.append(point)

    monkeypatch.setattr(packages, "entry_points_of", lambda group: tuple(points))
    return add


@pytest.fixture
def install(monkeypatch, tmp_path):
    """Put packages on the path, of which nothing is there but what they say of themselves."""

    def add(name, version, files):
        folder = tmp_path / f"{name.replace('-', '_')}-{version}.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Name: {name}\nVersion: {version}\n")
        for file, text in files.items():
            (folder / file).write_text(text)
        monkeypatch.syspath_prepend(tmp_path)

    return add


def test_a_package_is_that_which_registers_methods_of_the_module(register):
    register("ours.methods:One", "Our-Methods", "1.4")
    register("ours.more:Two", "Our-Methods", "1.4")
    register("theirs:One", "their-methods", "2.0")
    assert package_of("ours.methods") == package_of("ours") == ("Our-Methods", "1.4")
    assert package_of("theirs") == ("their-methods", "2.0")
    for module in ("our", "oursx", "__main__", "tests.site", "distributed"):
        assert package_of(module) == ("unknown", "")


def test_what_two_packages_claim_is_of_none(register):
    register("ours.methods:One", "our-methods", "1.4")
    register("ours.evil:One", "evil-methods", "1.4")
    register("stray:One", None, "")
    assert package_of("ours.methods") == package_of("stray") == ("unknown", "")


def test_our_own_methods_are_ours(register):
    register("daskfc.evil:One", "evil-methods", "1.4")
    assert package_of("daskfc.protocols.fedsc") == ("daskfc", version("daskfc"))
    assert package_of("daskfc_more") == ("unknown", "")


@pytest.mark.parametrize(
    ("asked", "version", "modules"),
    [
        ("our-methods>=1.2,<2", "1.9rc1", {"ours"}),
        ("our-methods", "2.0.dev3", {"ours"}),
        ("our-methods>=1.2,<2", "2.0", set()),
        ("our-methods==1.2", "1.2+local", {"ours"}),
        ("Our_Methods", "1.0", {"ours"}),  # one name, as pip sees it
        ("absent", "1.0", {"absent"}),  # a source tree on the path
        ("absent>=1", "1.0", set()),
        ("not-a-module", "1.0", set()),
    ],
)
def test_a_policy_names_the_modules_of_what_is_installed(install, asked, version, modules):
    """A version before a release is one that the policy's words have, as pip would tell."""
    install("Our.Methods", version, {"top_level.txt": "ours\n"})
    install("their-methods", version, {"top_level.txt": "theirs\n"})
    assert modules_of([asked]) == modules


def test_modules_that_a_package_does_not_declare_are_those_it_has_files_of(install, tmp_path):
    compiled = f"fast{EXTENSION_SUFFIXES[0]}"
    files = "ours/__init__.py", "ours/deep/one.py", "one.py", compiled, "x-1/a.py", "data/x.json"
    for file in files:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).touch()
    install("our-methods", "1.0", {"RECORD": "".join(f"{file},,\n" for file in files)})
    assert modules_of(["our-methods"]) == {"ours", "one", "fast"}


def test_any_package_is_each_that_registers_methods(register):
    register("ours.methods:One", "our-methods", "1.4")
    register("theirs:One", "their-methods", "2.0")
    assert modules_of("any") == {"ours", "theirs"}
    assert modules_of([]) == frozenset()
