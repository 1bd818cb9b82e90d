"""Which installed package a method is said to be of."""

from importlib.metadata import EntryPoint, version

import pytest

from daskfc.site import package_of, packages


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
