"""`daskfc methods NAME` says of every parameter what the class itself says and checks."""

import inspect

import pytest
from numpydoc.docscrape import ClassDoc

from daskfc.federation.methods.parameters import constraints_of
from daskfc.runs import known_methods
from daskfc.runs.pipeline.promises import parameters_of


def words(text):
    """Return the words of a text whose lines a table has cut anywhere."""
    return text.replace("│", " ").split()


@pytest.mark.parametrize("name", known_methods())
def test_descriptions_are_those_that_numpydoc_reads(name):
    kind = known_methods()[name]
    read = {
        one: " ".join(" ".join(parameter.desc).split())
        for parameter in ClassDoc(kind)["Parameters"]
        for one in parameter.name.split(", ")
    }
    assert parameters_of(kind) == read
    assert all(read.values())


@pytest.mark.parametrize("name", known_methods())
def test_every_parameter_has_its_rule_default_and_description(daskfc, name):
    kind = known_methods()[name]
    result = daskfc("methods", name)
    assert result.exit_code == 0
    shown = words(result.output)
    for parameter in inspect.signature(kind).parameters.values():
        assert parameter.name in shown
        told = words(parameters_of(kind)[parameter.name].replace("`", ""))
        rule = words(constraints_of(kind)[parameter.name].rule)
        assert set(told) | set(rule) <= set(shown), parameter.name
        if parameter.default is parameter.empty:
            assert "required" in shown


def test_a_wrong_name_is_2_and_one_line(daskfc):
    result = daskfc("methods", "OmniFK")
    assert result.exit_code == 2
    assert len(result.stderr.splitlines()) == 1
    assert "OmniFC" in result.stderr


def test_a_method_without_documentation_is_listed_all_the_same():
    class Bare:
        pass

    assert parameters_of(Bare) == {}
