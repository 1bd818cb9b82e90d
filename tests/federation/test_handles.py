import functools
from types import SimpleNamespace

import pytest

from daskfc.errors import ClusterError, InvalidInput, PrivacyError
from daskfc.federation.messages.wire_format import Reader, encode
from daskfc.federation.steps.calls import (
    StepCall,
    Unreadable,
    bind,
    call_bytes,
    call_of,
    call_step,
    declared_message,
    read_step,
    step_name,
)
from daskfc.federation.steps.handles import Local, PerClient, Sent, fill_slots, handles_in, pack
from tests.federation.steps import Vector, addressed, scaled, total


def packed(value, party, **options):
    futures = []
    return pack(value, party, "step", futures, **options), futures


def test_a_message_is_for_its_receivers():
    sent = Sent("server", "sums", {"client-1": "one", "client-2": "two"})
    assert packed(sent, "client-2")[1] == ["two"]
    words = "step 'step' of party 'server' uses the message of 'sums' after the party sent it"
    with pytest.raises(InvalidInput, match=words):
        packed(sent, "server", split=False)
    with pytest.raises(PrivacyError, match="to client-1, client-2 only"):
        packed(sent, "client-3")


def test_clients_get_their_own_and_the_server_gets_all():
    values = PerClient({"client-1": 1, "client-2": PerClient({"client-1": 2})})
    assert packed(values, "client-1")[0] == 1
    assert packed(values, "client-2")[0] == {"client-1": 2}
    assert packed(values, "server", split=False)[0] == {"client-1": 1, "client-2": {"client-1": 2}}
    with pytest.raises(InvalidInput, match="none for party 'client-3'"):
        packed(values, "client-3")


@pytest.mark.parametrize(
    "nest",
    [
        lambda one: one,
        lambda one: {"a": one},
        lambda one: [one],
        lambda one: (one,),
        lambda one: PerClient({"client-2": one}),
    ],
)
def test_a_refusal_names_the_step_however_deep_the_handle_lies(nest):
    local = Local("client-1", "raw_rows", {"client-1": "future"})
    words = "step 'step' of party 'client-2' may not use the result of 'raw_rows'"
    with pytest.raises(PrivacyError, match=words):
        packed(nest(local), "client-2")
    with pytest.raises(PrivacyError, match="step 'step' of party"):
        packed(PerClient({"client-1": local}), "server", split=False)


@pytest.mark.parametrize("nest", [lambda one: [one], lambda one: (one,), lambda one: {"a": one}])
def test_the_server_gets_all_however_deep_they_lie(nest):
    inner = PerClient({"client-1": PerClient({"client-2": 3})})
    wanted = {"client-1": {"client-2": 3}}
    assert packed(nest(inner), "server", split=False)[0] == nest(wanted)
    assert packed(nest(PerClient({"client-1": inner})), "client-1")[0] == nest(wanted)


def test_handles_are_found_in_nested_mappings():
    local = Local("a", "s", {})
    assert handles_in({"x": [local], "y": PerClient({"a": local})}) == [local, local]
    with pytest.raises(InvalidInput, match="take handles; got int"):
        handles_in([3])


def test_handles_are_found_in_tuples_too():
    local = Local("client-1", "raw_rows", {"client-1": "future"})
    template, futures = packed({"a": (local, [3, (local,)])}, "client-1")
    assert futures == ["future", "future"]
    assert fill_slots(template, ("one", "two"), None) == {"a": ("one", [3, ("two",)])}
    with pytest.raises(PrivacyError, match="stays at party 'client-1'"):
        packed(((local,),), "client-2")


@pytest.mark.parametrize(
    ("statuses", "done", "failed"),
    [
        (["finished", "finished"], True, False),
        (["finished", "pending"], False, False),
        (["finished", "error"], True, True),
        (["cancelled", "finished"], True, True),
    ],
)
def test_a_message_is_done_for_all_receivers_or_failed_for_one(statuses, done, failed):
    futures = {f"client-{i}": FutureOf(status) for i, status in enumerate(statuses)}
    sent = Sent("server", "step", futures)
    assert (sent.done(), sent.failed()) == (done, failed)


class FutureOf:
    def __init__(self, status):
        self.status = status

    def done(self):
        return self.status != "pending"


def test_injected_parameters_are_not_the_callers():
    assert bind(addressed, ("v",), {"names": ["a"]}) == {"vector": "v", "names": ["a"]}
    with pytest.raises(InvalidInput, match="'party' of step 'addressed' is filled in"):
        bind(addressed, ("v",), {"names": [], "party": "a"})
    with pytest.raises(InvalidInput, match="step 'scaled' cannot be called so"):
        bind(scaled, (), {"faktor": 1})
    with pytest.raises(InvalidInput, match="no \\*args"):
        bind(lambda *rows: rows, (1,), {})


def test_a_step_with_any_keyword_gets_them_all():
    def step(data, **options):
        return data, options

    arguments = bind(step, (), {"a": 1, "b": 2})
    assert call_step(step, arguments, lambda name: f"<{name}>") == ("<data>", {"a": 1, "b": 2})


def test_the_annotation_is_the_declaration():
    assert declared_message(addressed) == (Vector, True)
    partial = functools.partial(addressed, names=["a"])
    assert declared_message(partial) == (Vector, True)
    assert step_name(partial) == "addressed"
    with pytest.raises(InvalidInput, match="got none"):
        declared_message(total)


def test_the_annotation_may_be_text_or_that_of_a_call():
    def step(data) -> "dict[str, Vector]": ...

    class Step:
        def __call__(self, data) -> Vector: ...

    assert declared_message(step) == (Vector, True)
    assert declared_message(Step()) == (Vector, False)
    assert declared_message(functools.partial(Step())) == (Vector, False)


def test_a_step_that_declares_no_message_is_told_what_it_declares():
    class Step:
        def __call__(self, data) -> int: ...

    def steps_of(data) -> "list[int] | None": ...

    with pytest.raises(InvalidInput, match=r"^step 'Step' sends .* got int\."):
        declared_message(Step())
    with pytest.raises(InvalidInput, match=r"got (list\[int\] \| None|Union|Optional)"):
        declared_message(steps_of)
    with pytest.raises(InvalidInput, match=r"^step 'int' sends .* got none"):
        declared_message(functools.partial(int))  # a type has no annotations


def test_a_step_with_any_keyword_may_get_none():
    def step(data, **options):
        return options

    assert bind(step, (), {}) == {}


def test_a_step_whose_code_is_missing_says_what_a_party_lacks():
    missing = Unreadable("means", ModuleNotFoundError("No module", name="fedgmm"))
    assert step_name(missing) == "means"
    with pytest.raises(ClusterError) as refusal:
        missing()
    assert str(refusal.value) == (
        "its code cannot be read there (module 'fedgmm' is missing). Install the same code at "
        "every party, or define the step where the run is started."
    )
    with pytest.raises(ClusterError, match=r"cannot be read there \(AttributeError\)\. Install"):
        Unreadable("means", AttributeError("no", name="means"))()


def test_a_call_travels_as_bytes_that_its_party_reads():
    call = StepCall(scaled, {"values": [1.0]}, "a", "r", 3, "send", ("server",), {"n": 1})
    reader = Reader(trusted=True)
    assert call_of(call_bytes(call), reader) == call
    for code, arguments in ((b"\xc1", encode(call.arguments)), (encode(scaled), b"\xc1")):
        opened = call_of(encode(["scaled", code, arguments, _rest_of(call)]), reader)
        assert (opened.party, opened.verb, step_name(opened.step)) == ("a", "send", "scaled")
        with pytest.raises(ClusterError, match=r"cannot be read there \(InvalidInput\)"):
            call_step(opened.step, {}, None)
    with pytest.raises(ClusterError, match="cannot be read there"):
        call_step(read_step("scaled", b"\xc1", reader), {"values": 1}, None)
    assert read_step("scaled", encode(scaled), reader) is scaled


def _rest_of(call):
    return [call.party, call.run_id, call.round, call.verb, call.receivers, call.axes, call.each]


def test_handles_say_where_they_are():
    assert repr(Local("client-1", "sums", {})) == "<Local of client-1: sums>"
    sent = Sent("server", "means", {"client-1": None, "client-2": None})
    assert repr(sent) == "<Sent by server to client-1, client-2: means>"
    assert sent.receivers == ("client-1", "client-2")


def test_a_result_is_fetched_by_the_federation_for_the_caller_only():
    federation = SimpleNamespace(fetch=lambda sent, timeout: (sent, timeout))
    sent = Sent("client-1", "sums", {"caller": None}, federation)
    assert sent.result() == (sent, None)
    assert sent.result(2.5) == (sent, 2.5)
    with pytest.raises(PrivacyError) as refusal:
        Sent("client-1", "sums", {"server": None}, federation).result()
    assert str(refusal.value) == (
        "the message of step 'sums' of party 'client-1' is for server, not for the caller. Publish "
        "a message of its own."
    )
