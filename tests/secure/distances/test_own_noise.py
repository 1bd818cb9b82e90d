"""Noise and hiding polynomials of distances are used for these rows and this answer alone."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from daskfc.coding import ResidueSystem, SecretKey, choose_residues
from daskfc.pairwise.grid import SymmetricGrid
from daskfc.secure.distances import choose_code
from daskfc.secure.distances.parties import party, server
from tests.secure.distances.test_steps import KEY, dealt


@pytest.fixture
def X():
    return np.random.default_rng(0).integers(-500, 500, (50, 6)).astype(float)


def test_samples_that_are_given_as_new_ones_have_other_shares(X):
    """Of two shares under one polynomial, one noise would tell the difference of their rows."""
    store, code = dealt(X / 250, np.zeros(50))["client-0.0"], choose_code(3, 1, 1, 0)
    system, secret = ResidueSystem((251, 241), scale=10.0, bound=60_000), SecretKey.from_os()
    where = {"start": 0, "stop": len(X), "code": code, "system": system, "evaluators": tuple("abc")}
    told = [party.encode_rows(store, secret, new=new, **where) for new in (None, store)]
    for name in "abc":
        one, two = (party.share_of(sent[name], code, system) for sent in told)
        assert (one != two).mean() > 0.9


def test_each_answer_has_a_hiding_polynomial_of_its_own(X):
    """Two answers under one polynomial would tell the server the difference of single segments."""
    stores, code = dealt(X, np.arange(50) % 5), choose_code(5, 2, 1, 0)
    held = first_evaluator(stores, code)
    columns_of = [
        party.answer_columns(held.coded, server.told_landmarks(np.array(those)), held.name,
                             start=0, stop=9, turn=turn, **held.public)
        for turn, those in ((0, [3, 1, 4]), (0, [3, 1, 4]), (1, [3, 1, 4]), (0, [3, 1, 5]))
    ]  # fmt: skip
    blocks = [
        party.answer_block(held.coded, held.name, i=0, j=0, grid=SymmetricGrid(n, 9),
                           **held.public)
        for n in (9, 9, 40)
    ]  # fmt: skip
    first, *others = held.public["evaluators"]
    codings = [
        party.answer_block(held.coded, held.name, i=0, j=0, grid=SymmetricGrid(9, 9),
                           **{**held.public, **coding})
        for coding in ({}, {}, {"evaluators": (first, *reversed(others))},
                       {"code": replace(code, n_evaluators=6)})
    ]  # fmt: skip
    again, other = (new_rows(stores["client-2"], code, held, digest) for digest in ("one", "two"))
    new_columns = [
        party.answer_new(held.coded, rows, held.name, start=0, stop=9, panel=panel, **held.public)
        for rows, panel in ((again, "p"), (again, "p"), (again, "q"))
    ]
    same_rows = replace(again, fingerprint=other.fingerprint)
    new_columns.append(
        party.answer_new(held.coded, same_rows, held.name, start=0, stop=9, panel="p",
                         **held.public)
    )  # fmt: skip
    of_new = party.CodedDataset(np.tile(held.coded.residues[:, 10:14], (1, 2, 1)), 1)
    parts_of_new = [
        party.answer_new(held.coded, of_new, held.name, start=0, stop=9, panel="p", first=first,
                         last=last, **held.public)
        for first, last in ((0, 4), (0, 4), (4, 8), (4, None))
    ]  # fmt: skip
    for answers in (columns_of, codings, blocks, new_columns, parts_of_new):
        first, repeated, *others = (answer.residues for answer in answers)
        np.testing.assert_array_equal(first, repeated)
        for one in others:
            assert (first != one).mean() > 0.9


def first_evaluator(stores, code):
    """Return what one of five evaluators holds of rows that are shared in two segments."""
    names = tuple(stores)
    plan = server.plan({n: party.describe(s, KEY, KEY, max_abs=None) for n, s in stores.items()})
    system = choose_residues(
        radius=plan.radius, n_features=plan.n_features, tolerance=1e-4, grids=plan.grids,
        n_columns=code.n_columns(plan.n_features), n_points=code.n_points,
    )  # fmt: skip
    public = {"code": code, "system": system, "evaluators": names}
    key = party.hiding_key(SecretKey.from_os(), evaluators=names)[names[0]]
    parts = {
        name: [party.encode_rows(store, SecretKey.from_os(), start=0, stop=10, **public)[names[0]]]
        for name, store in stores.items()
    }
    coded = party.assemble(parts, server.row_positions(plan), key, code=code, system=system)
    public["engine"] = "auto"
    return SimpleNamespace(name=names[0], coded=coded, public=public)


def new_rows(store, code, held, digest):
    store.digest = digest
    public = {key: held.public[key] for key in ("code", "system", "evaluators")}
    return party.encode_rows(store, KEY, new=store, start=0, stop=4, **public)[held.name]
