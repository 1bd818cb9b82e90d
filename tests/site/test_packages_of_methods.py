"""Which installed package a method is said to be of."""

from importlib.metadata import EntryPoint, PackageNotFoundError, version

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
def test_a_policy_names_the_modules_of_what_is_installed(monkeypatch, asked, version, modules):
    """A version before a release is one that the policy's words have, as pip would tell."""

    def installed(name):
        if name != "our-methods":
            raise PackageNotFoundError(name)
        return version

    owners = {"ours": ["Our.Methods"], "ours-2": ["our-methods"], "theirs": ["their-methods"]}
    monkeypatch.setattr(packages, "packages_distributions", lambda: owners)
    monkeypatch.setattr(packages, "version", installed)
    assert modules_of([asked]) == modules


def test_any_package_is_each_that_registers_methods(register):
    register("ours.methods:One", "our-methods", "1.4")
    register("theirs:One", "their-methods", "2.0")
    assert modules_of("any") == {"ours", "theirs"}
    assert modules_of([]) == frozenset()
