"""Which answers of evaluators the server uses: with a federation of the test's."""

from types import SimpleNamespace

import pytest

from daskfc.errors import DeadlineError
from daskfc.federation import PerClient
from daskfc.secure.distances.routes.streaming import SHORTEST_GRACE, STRIKES, AnswerStream

NAMES = ("client-1", "client-2", "client-3", "client-4")


class Federation:
    """One where some evaluators have answered and the others never do."""

    def __init__(self, *answered):
        self.answered, self.waits, self.cancelled = answered, [], []

    def wait(self, handles, *, count=None, timeout=None, needed=True):
        self.waits.append((count, timeout, needed))
        done = [handle for handle in handles if handle.party in self.answered][:count]
        return done, [handle for handle in handles if handle not in done]

    def cancel(self, handles):
        self.cancelled += [handle.party for handle in handles]


def streamed(federation, n_tasks=1):
    """The stream, and whose answers the server was given for each task."""
    used = []

    def ask(task, names):
        return PerClient({name: SimpleNamespace(party=name) for name in names})

    def decode(task, answers):
        used.append(tuple(answers))
        return SimpleNamespace(result=lambda _: SimpleNamespace(wrong=SimpleNamespace(tolist=list)))

    code = SimpleNamespace(threshold=3)
    stream = AnswerStream(federation, code, NAMES, ask, decode, deadline_s=20.0)
    assert list(stream.run(range(n_tasks))) == list(range(n_tasks))
    return stream, used


def test_a_spare_answer_is_waited_for_a_while_and_not_needed():
    federation = Federation(*NAMES[1:])
    stream, used = streamed(federation)
    assert used == [NAMES[1:]]
    first, spare = federation.waits
    assert first == (3, 20.0, True)
    assert spare[0] is None
    assert SHORTEST_GRACE <= spare[1] < 20.0
    assert spare[2] is False  # so that a spare evaluator that dies ends no run
    assert federation.cancelled == ["client-1"]
    assert stream.dropped == {}


def test_who_is_late_often_is_asked_no_more():
    federation = Federation(*NAMES[1:])
    stream, used = streamed(federation, n_tasks=STRIKES + 4)
    assert set(used) == {NAMES[1:]}
    assert stream.dropped == {"client-1": f"was late {STRIKES} times"}
    assert set(federation.cancelled) == {"client-1"}
    assert STRIKES <= len(federation.cancelled) < STRIKES + 4


def test_too_few_answers_name_who_gave_none():
    federation = Federation("client-2", "client-4")
    with pytest.raises(DeadlineError, match=r"within 20.0 s; 'client-1', 'client-3' did not"):
        streamed(federation)
