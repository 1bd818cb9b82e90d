"""What clients and evaluators of distances refuse to whoever composes their steps."""

import itertools

import numpy as np
import pytest

from daskfc.coding import LagrangeCode, ResidueSystem
from daskfc.errors import DecodingError, OverflowRefused, PolicyRefused, PrivacyError
from daskfc.federation.party.options import PartyOptions, RunSettings
from daskfc.federation.party.site_rules import PartyRules
from daskfc.federation.steps.rules import Announced, broken_rule
from daskfc.secure.distances import choose_code
from daskfc.secure.distances.parties import by_columns, party
from daskfc.secure.distances.parties.messages import CodedRows, HidingKey, RowPositions
from daskfc.secure.distances.routes.rows import encode_quantised
from daskfc.secure.sums import Centre
from daskfc.site import Policy
from tests.secure.distances.test_steps import ArrayStore, Site


def test_a_caller_asks_for_the_announced_bound_alone():
    """By bounds of its own it learned the largest value, one refusal after the other."""
    announced = Announced({"max_abs": None})
    assert broken_rule(party.describe, {"max_abs": None}, announced) is None
    told = broken_rule(party.describe, {"max_abs": 3.0}, announced)
    assert told == "'max_abs' must be the 'max_abs' that was announced"


def test_far_samples_are_asked_for_from_no_chosen_point_and_within_one_radius():
    """By points and radii a caller learned where the farthest samples lie."""
    store, site = ArrayStore("a", [[1.0, 2.0], [3.0, 0.5]], "xy"), Site()
    told = broken_rule(party.refuse_far_samples, {"centre": Centre(np.zeros(2))}, Announced())
    assert told == "'centre' must be None, unless a message tells it"
    for _ in range(2):
        with pytest.raises(OverflowRefused, match="columns 'x0', 'x1': why"):
            party.refuse_far_samples(store, None, radius=2.0, why="why", site=site)
    for centre, radius in ((None, 3.0), (Centre(np.ones(2)), 2.0)):
        with pytest.raises(PrivacyError, match="the radius of far samples of '' were used for an"):
            party.refuse_far_samples(store, centre, radius=radius, why="why", site=site)


@pytest.mark.parametrize(
    ("positions", "groups"),
    [([0, 1, 0, 1], [0, 0]), ([0, 1, 0, 0], [0, 1]), ([0, 2, 0, 1], [0, 1])],
)
def test_evaluators_refuse_an_order_in_which_columns_are_lost(positions, groups):
    """Else the server that told it had distances of one client's columns alone."""
    system, code = ResidueSystem((251,), 1.0, 250), choose_code(3, None, None, None)

    def put(positions, groups):
        told = RowPositions(np.array(positions), np.array([2, 4]), np.array(groups))
        rows = np.arange(4, dtype=np.uint8).reshape(1, 2, 2)
        share = CodedRows(rows, np.empty(0, "uint8"), 0, 2, 2, 7)
        return party.assemble({"a": [share], "b": [share]}, told, None, code=code, system=system)

    assert put([0, 1, 1, 0], [0, 1]).residues.tolist() == [[[0, 1, 2, 3], [2, 3, 0, 1]]]
    assert put([0, 2, 3, 1], [0, 0]).residues.shape == (1, 4, 2)
    with pytest.raises(DecodingError, match="columns must be shared by one client each"):
        put(positions, groups)


def test_evaluators_take_shares_of_all_clients_alone(tmp_path):
    """Of some, a submitter and the server had distances of these clients' columns alone."""
    system, code = ResidueSystem((251,), 1.0, 250), choose_code(3, None, None, None)
    share = CodedRows(np.zeros((1, 2, 2), "uint8"), np.empty(0, "uint8"), 0, 2, 2, 7)
    run = RunSettings("r", 0, start="s", builds={"a": "1", "b": "1"})
    site = PartyRules(PartyOptions("a", "client", str(tmp_path), run=run, policy=Policy()))
    how = {"code": code, "system": system, "site": site}

    def put(*names):
        ends = 2 * np.arange(1, len(names) + 1)
        told = RowPositions(np.tile([0, 1], len(names)), ends, np.arange(len(names)))
        return party.assemble({key: [share] for key in names}, told, None, **how)

    assert put("a", "b").residues.shape == (1, 2, 4)
    for names in ("a", "abc"):
        with pytest.raises(PolicyRefused, match="party 'a' refuses this by its rule 'steps'"):
            put(*names)


@pytest.mark.parametrize("step", [
    party.encode_rows, by_columns.encode_columns, encode_quantised, party.assemble,
    party.answer_block, party.answer_columns, party.answer_new,
])  # fmt: skip
def test_rows_have_as_many_segments_as_were_announced(step):
    """Over columns a segment may be one client's, of which the server learned the distances."""
    for told, asked in itertools.product((None, 1, 2), (1, 2)):
        announced = Announced({"n_segments": told, "n_colluding": 1}, tuple("abcde"))
        names = {} if step is party.assemble else {"evaluators": list("abcde")}
        given = {"code": LagrangeCode(asked, 1, 5), **names}
        assert (broken_rule(step, given, announced) is None) == (asked == (told or 1))


def test_segments_are_hidden_unless_the_run_announced_that_they_are_not(tmp_path):
    """And by a key that an evaluator drew: with one of its own the server sees through it."""
    system, code = ResidueSystem((251,), 1.0, 250), LagrangeCode(2, 1, 5)
    share = CodedRows(np.zeros((1, 2, 1), "uint8"), np.empty(0, "uint8"), 0, 2, 1, 7)
    told = RowPositions(np.array([0, 1]), np.array([2]), np.array([0]))
    key = HidingKey(np.zeros(32, "uint8"))

    def put(hiding, **parameters):
        request = {"method": "OmniFC", "parameters": {"n_segments": 2, **parameters}}
        run = RunSettings("r", 0, start="s", builds={"a": "1"}, request=request)
        site = PartyRules(PartyOptions("a", "client", str(tmp_path), run=run, policy=Policy()))
        return party.assemble({"a": [share]}, told, hiding, code=code, system=system, site=site)

    for parameters in ({}, {"hide_segments": True}, {"hide_segments": None}):
        with pytest.raises(PolicyRefused, match="party 'a' refuses this by its rule 'steps'"):
            put(None, **parameters)
        assert put(key, **parameters).hiding is key
    assert put(None, hide_segments=False).hiding is None
    announced = Announced({"n_segments": 2}, tuple("abcde"))
    for hiding, ok in ((None, True), (key, False)):
        said = broken_rule(party.assemble, {"code": code, "hiding": hiding}, announced)
        assert (said is None) == ok
