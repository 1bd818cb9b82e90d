"""Which samples the views share, against sets."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daskfc.errors import InvalidInput
from daskfc.federation.driver.contract import Contract
from daskfc.federation.methods.linking import link_views, linked, views_of
from daskfc.federation.methods.samples import SampleDigests


def words(*values):
    return np.array(values, dtype=np.uint64)


@given(
    st.lists(
        st.lists(st.integers(0, 2**63), min_size=1, max_size=12, unique=True),
        min_size=2,
        max_size=4,
    )
)
def test_places_are_those_of_sets(held):
    held = [[*own, 7] if 7 not in own else own for own in held]
    names = [f"client-{i}" for i in range(len(held))]
    digests = {name: words(*own) for name, own in zip(names, held, strict=True)}
    found = linked(digests, {name: i for i, name in enumerate(names)})
    every = sorted(set().union(*held))
    assert found.n_samples == len(every)
    for name, own in zip(names, held, strict=True):
        assert [every[place] for place in found.places[name]] == own
    in_all = set(held[0]).intersection(*held[1:])
    assert {every[i] for i in np.flatnonzero(found.in_all_views)} == in_all
    assert found.complete == (len(in_all) == len(every))
    assert found.one_client_a_view


def test_the_order_of_the_clients_is_no_matter():
    one, two = words(5, 9, 1), words(9, 3)
    views = {"a": 0, "b": 1}
    first, second = linked({"a": one, "b": two}, views), linked({"b": two, "a": one}, views)
    for name in "ab":
        np.testing.assert_array_equal(first.places[name], second.places[name])


def test_clients_of_one_view_hold_different_samples_of_it():
    views = {"a": 0, "b": 0, "c": 1}
    found = linked({"a": words(1, 2), "b": words(3), "c": words(3, 1)}, views)
    assert not found.one_client_a_view
    assert found.in_all_views.tolist() == [True, False, True]
    with pytest.raises(InvalidInput, match="'a', 'b' share 1 of 2 sample ids"):
        linked({"a": words(1, 2), "b": words(2), "c": words(2)}, views)


def test_views_without_a_common_sample_are_refused():
    with pytest.raises(InvalidInput, match="no sample id occurs in two of the 2 views"):
        linked({"a": words(1, 2), "b": words(3, 4)}, {"a": 0, "b": 1})


def test_a_sample_twice_at_one_client_is_refused():
    with pytest.raises(InvalidInput, match="client 'b' repeats 1 of its 3"):
        linked({"a": words(1, 2), "b": words(3, 1, 3)}, {"a": 0, "b": 1})


def test_one_view_alone_needs_nothing_in_common():
    found = linked({"a": words(1, 2), "b": words(3)}, {"a": 0, "b": 0})
    assert found.in_all_views.all()


def test_the_server_links_what_clients_told():
    told = {"a": SampleDigests(words(7, 1), 5), "b": SampleDigests(words(3, 7), 8)}
    found = link_views(told, {"a": 0, "b": 1})
    assert found.places["a"][0] == found.places["b"][1]
    assert sorted({*found.places["a"], *found.places["b"]}) == [0, 1, 2]
    assert found.in_all_views.sum() == 1
    assert found.views == {"a": 0, "b": 1}


def test_clients_with_the_same_columns_have_one_view():
    columns = {"a": ("x", "y"), "b": ("z",), "c": ("x", "y"), "d": ("y", "x")}
    federation = SimpleNamespace(contract=Contract(columns, {}))
    assert views_of(federation) == {"a": 0, "b": 1, "c": 0, "d": 2}
