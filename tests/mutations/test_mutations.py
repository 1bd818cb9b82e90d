"""The list of known bugs stays true: what it replaces is there, and so are the tests it names."""

import ast

import pytest

from tests.mutations.run import ROOT, mutations


@pytest.mark.parametrize("mutation", mutations(), ids=lambda mutation: mutation.name)
def test_every_known_bug_can_be_put_in_again(mutation):
    broken = mutation.applied((ROOT / mutation.file).read_text(encoding="utf-8"))
    ast.parse(broken)
    for test in mutation.tests:
        file, _, name = test.partition("::")
        source = (ROOT / file).read_text(encoding="utf-8")
        assert f"def {name.split('[')[0].split('::')[-1]}(" in source, test


def test_names_of_known_bugs_differ():
    names = [mutation.name for mutation in mutations()]
    assert len(set(names)) == len(names)
