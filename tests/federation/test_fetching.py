"""Published messages of several parties come beside each other."""

import concurrent.futures

import numpy as np
import pytest

from daskfc.errors import PartyError
from daskfc.federation.messages.envelopes import Outgoing
from tests.federation import steps, test_driver

federation, fetched = test_driver.federation, test_driver.fetched


def test_messages_of_several_are_all_on_their_way_before_one_is_waited_for(federation, fetched):
    of_b = Outgoing(steps.Vector(np.zeros(2)), "b", "caller", "row_sum", "r", 0, {})
    fetched.answers.append([of_b])
    gathered = federation.dask_client.gathered
    seen = []
    fetched.answers[0], first = concurrent.futures.TimeoutError(), fetched.answers[0]
    fetched.answers.insert(1, first)
    federation._absences.check = lambda pending, needed: seen.append(len(gathered))
    told = federation.publish(steps.row_sum, party="clients")
    assert seen == [2]
    assert list(told) == ["a", "b"]
    assert (told["a"], told["b"]) == (fetched.of, of_b.message)


def test_where_one_is_not_given_out_the_others_are_left(federation, fetched):
    fetched.answers[:] = [PartyError("a", "row_sum", "ValueError")]
    with pytest.raises(PartyError):
        federation.publish(steps.row_sum, party="clients")
    assert fetched.cancelled == 2
    assert federation.fetch_all([]) == []
