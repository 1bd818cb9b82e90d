import math
import re
from typing import Annotated

import msgpack
import numpy as np
import pytest
from distributed.protocol.serialize import dask_dumps, dask_loads
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from daskfc.coding.residues.streams import SecretKey
from daskfc.errors import EgressRefused
from daskfc.federation import Message, array, check_message, payload_bytes, text
from daskfc.federation.messages.declaration import as_declared, multiplier_of
from daskfc.federation.messages.envelopes import Here, Outgoing
from tests.federation.steps import Noised, Pair, Vector, Where

DTYPES = ("float64", "float32", "int64", "uint8", "uint32", "bool")


@given(
    n=st.integers(0, 4),
    m=st.integers(0, 4),
    left=st.sampled_from(DTYPES),
    right=st.sampled_from(DTYPES),
)
def test_exactly_the_declared_pairs_pass(n, m, left, right):
    message = Pair(np.zeros(n, left), np.zeros(m, right))
    if n == m and left == "float64" and right in ("uint8", "uint32"):
        check_message(message, party="a")
    else:
        with pytest.raises(EgressRefused, match="party 'a' tried to send Pair"):
            check_message(message, party="a")


KEY = SecretKey.from_os()


def test_a_refusal_names_types_and_shapes_and_no_values():
    with pytest.raises(EgressRefused) as refusal:
        check_message(Pair(np.full(3, 1234.5), np.full(4, 99, "uint8")), {"n": 3}, party="b")
    assert str(refusal.value) == (
        "party 'b' tried to send Pair.right as uint8 (4,); declared uint8 | uint32 (n=3,). "
        "Nothing was sent."
    )


def test_axes_fixed_by_the_caller_hold():
    check_message(Vector(np.zeros(3)), {"n": 3})
    with pytest.raises(EgressRefused, match=r"float64 \(n=4,\)"):
        check_message(Vector(np.zeros(3)), {"n": 4})


@pytest.mark.parametrize(
    "value",
    [
        [1.0],
        np.ma.masked_array(np.zeros(2)),
        np.zeros(2, dtype=">f8"),
        np.zeros(2, dtype=object),
        None,
    ],
    ids=["list", "masked", "byte order", "objects", "none"],
)
def test_only_plain_arrays_pass(value):
    with pytest.raises(EgressRefused):
        check_message(Vector(value))


@pytest.mark.parametrize(
    "change", [{"pid": True}, {"pid": 2**64}, {"pid": 1.0}, {"note": "x" * 1001}, {"party": b"a"}]
)
def test_scalars_have_their_declared_type(change):
    fields = {"pid": 1, "party": "a", "note": ""}
    check_message(Where(**fields))
    with pytest.raises(EgressRefused):
        check_message(Where(**{**fields, **change}))


def test_a_field_without_declaration_is_refused_with_its_class():
    with pytest.raises(TypeError, match=r"Loose.extra must be an int, a float or a str, or be"):

        class Loose(Vector):
            extra: object = None


def test_a_class_is_frozen_and_has_what_its_parent_declares():
    class More(Vector, reveals="more"):
        n_more: int = 3

    message = More(np.zeros(1))
    assert (More.protection, More.route, More.reveals) == ("masked", Vector.route, "more")
    assert message.n_more == 3
    check_message(message)
    with pytest.raises(AttributeError):
        message.n_more = 4
    with pytest.raises(EgressRefused, match=r"More.n_more as float; declared integer"):
        check_message(More(np.zeros(1), 0.5))


def test_an_attribute_beside_the_fields_does_not_pass():
    message = Vector(np.zeros(1))
    object.__setattr__(message, "stowaway", np.ones(5))
    with pytest.raises(EgressRefused, match="1 attributes that are no fields"):
        check_message(message)


@pytest.mark.parametrize(
    "declaration",
    [{"protection": "secret"}, {"route": "client → scheduler"}, {"route": ()}, {"reveals": ""}],
    ids=str,
)
def test_a_class_must_declare_itself(declaration):
    whole = {"protection": "plain", "route": "client → server", "reveals": "x", **declaration}
    with pytest.raises(TypeError, match=f"Wrong: {next(iter(declaration))}"):
        type("Wrong", (Message,), {}, **whole)


@pytest.mark.parametrize("missing", ["route", "reveals"])
def test_a_class_must_say_where_it_goes_and_what_it_tells(missing):
    whole = {"route": "client → server", "reveals": "x"}
    del whole[missing]
    with pytest.raises(TypeError, match=f"Wrong: {missing}"):
        type("Wrong", (Message,), {}, **whole)


def test_a_field_is_declared_as_its_sentences_say():
    def said(field):
        return str(field.metadata["daskfc"])

    assert said(text(9)) == "text of at most 9 characters"
    assert said(text()) == "text of at most 256 characters"
    assert said(array("n", 3, dtype="f8 | float32 | str")) == "float64 | float32 | str (n, 3)"


def test_plain_text_has_256_characters_at_most():
    class Named(Message, route="client → server", reveals="a name"):
        name: "str"  # annotations may be text, too
        number: "int"

    check_message(Named("x" * 256, 3))
    with pytest.raises(EgressRefused, match="as str; declared text of at most 256 characters"):
        check_message(Named("x" * 257, 3))


def test_an_annotation_of_somebody_elses_declares_nothing():
    with pytest.raises(TypeError, match=r"Noted.share must be an int, a float or a str, or be"):

        class Noted(Message, route="client → server", reveals="a share"):
            share: Annotated[float, "of all"]


@pytest.mark.parametrize("dtype", ["object", "V8", "datetime64[ns]", "S4", "longdouble", "U8"])
def test_only_arrays_of_plain_entries_can_be_declared(dtype):
    with pytest.raises(TypeError, match=f"of dtype '{re.escape(dtype)}': its entries must be"):
        array("n", dtype=dtype)


def test_payload_is_arrays_numbers_and_text():
    class Mixed(Message, route="client → server", reveals="all"):
        table: np.ndarray = array("n", 3, dtype="int64")
        names: np.ndarray = array("n", dtype="str")
        count: int
        share: float
        title: str = text(9)

    message = Mixed(np.zeros((2, 3), "int64"), np.array(["ab", "c"]), 1, 0.5, "é")
    check_message(message)
    assert payload_bytes(message) == 48 + 16 + 8 + 8 + 2


class Everything(Message, route="client → server", reveals="all"):
    table: np.ndarray = array("n", "m", dtype="float64 | int16 | uint8 | bool | complex64 | str")
    count: int
    share: float
    title: str = text(99)


KINDS = [np.dtype(kind) for kind in ("f8", "i2", "u1", "?", "c8", "U3")]
LETTERS = st.characters(codec="utf-8")


def entries_of(dtype):
    # NumPy takes zeros at the end for padding
    return st.text(LETTERS, max_size=3).map(lambda t: t.rstrip("\0")) if dtype.kind == "U" else None


@st.composite
def tables(draw):
    """Arrays as authors have them: parts of others, in any order, with notes on their dtype."""
    dtype = draw(st.sampled_from(KINDS))
    shape = draw(array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=30))
    base = draw(arrays(dtype, shape, elements=entries_of(dtype), fill=st.nothing()))
    noted = np.dtype(base.dtype, metadata={"note": b"x" * draw(st.integers(1, 5000))})
    table = base.astype(noted) if draw(st.booleans()) else base
    table = table[:: draw(st.integers(1, 3)), draw(st.integers(0, 2)) :]
    return table.T if draw(st.booleans()) else table


@pytest.mark.slow
@given(
    table=tables(),
    count=st.integers(-(2**63), 2**64 - 1),
    share=st.floats(),
    title=st.text(LETTERS, max_size=99),
)
def test_what_crosses_is_the_payload_and_a_frame_of_bounded_size(table, count, share, title):
    message = Everything(table, count, share, title)
    plain = as_declared(message, party="a")
    envelope = Outgoing(plain, "a", "server", "step", "run", 0, {"n": 10**9}, KEY)
    header, frames = dask_dumps(envelope)
    crossing = len(msgpack.dumps(header)) + sum(frame.nbytes for frame in frames)
    assert payload_bytes(plain) <= crossing <= payload_bytes(plain) + 500
    Here.keys.add(KEY)
    arrived = dask_loads(header, frames).message
    Here.keys.discard(KEY)
    assert type(arrived) is Everything
    np.testing.assert_array_equal(arrived.table, table)
    assert arrived.table.dtype.metadata is None
    assert (arrived.count, arrived.title) == (count, title)
    np.testing.assert_equal(arrived.share, share)


def test_large_arrays_are_not_copied():
    values = np.ones(1_000_000)
    assert np.shares_memory(as_declared(Vector(values)).values, values)


@pytest.mark.parametrize(
    "table",
    [
        np.empty((2**40, 0)),
        np.ndarray((2**40, 1), dtype=np.dtype("U0"), buffer=b""),
        np.array([["\ud800"]]),
        np.frombuffer(b"\xff\xff\xff\x00", dtype="U1").reshape(1, 1),
        np.array([0x110000], dtype=np.uint32).view("U1").reshape(1, 1),
    ],
    ids=["long and empty", "no width", "a lone surrogate", "no letter", "none of the letters"],
)
def test_arrays_that_no_receiver_could_use_do_not_pass(table):
    with pytest.raises(EgressRefused, match=r"tried to send Everything.table"):
        check_message(Everything(table, 1, 1.0, ""), party="a")


def test_only_finite_noise_is_a_release():
    found = [multiplier_of(Noised(np.zeros(1), one)) for one in (0.5, math.inf)]
    assert found == [0.5, None]
    assert multiplier_of(Vector(np.zeros(1))) is None


def test_what_stands_behind_the_noise_is_payload_too():
    class More(Noised):
        n_more: int = 3

    assert payload_bytes(Noised(np.zeros(2), 0.5)) == 16
    assert payload_bytes(More(np.zeros(2), 0.5)) == 24


def test_every_letter_passes():
    letters = np.array([["\ud7ff\ue000", "\U0010ffff"]])
    check_message(Everything(letters, 1, 1.0, ""), {"m": 2})


@pytest.mark.parametrize(
    "change",
    [
        {"count": np.int64(1)},
        {"share": np.float64(1.0)},
        {"title": np.str_("a")},
        {"title": "\ud800"},
    ],
    ids=lambda change: repr(next(iter(change.values()))),
)
def test_scalars_are_pythons_own(change):
    fields = {"table": np.zeros((1, 1)), "count": 1, "share": 1.0, "title": ""}
    with pytest.raises(EgressRefused):
        check_message(Everything(**{**fields, **change}))
