import copy
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from daskfc.coding import SecretKey
from daskfc.coding.residues import compiled
from daskfc.coding.residues.streams import word_dtype, word_limit
from daskfc.errors import InvalidInput

KEY = SecretKey.from_bytes(bytes(range(32)))


def words_by_hand(key, p, count):
    """Word i of the main stream if acceptable, else the next acceptable one of the spare."""
    size = word_dtype(p).itemsize
    limit = 256**size - 256**size % p
    main = key.stream().bytes(count * size)
    spare = key.stream()
    spare._main = spare._spare
    result = []
    for i in range(count):
        word = int.from_bytes(main[i * size : (i + 1) * size], "little")
        while word >= limit:
            word = int.from_bytes(spare.bytes(size), "little")
        result.append(word % p)
    return result


@pytest.mark.parametrize("p", [2, 3, 227, 251, 256, 9562603, 2**24, 2**31 - 1, 2**53 - 111])
def test_residues_follow_the_rule(p, passes):
    got = KEY.stream().uniform(p, 5000)
    assert got.tolist() == words_by_hand(KEY, p, 5000)


def test_rejections_are_patched_from_the_spare_stream(passes):
    # 2**16 mod 40000 is large: 39 % of the words are rejected
    flat = np.empty(4000, np.uint16)
    stream = KEY.stream()
    raw = np.frombuffer(KEY.stream().bytes(8000), np.uint16)
    wrong = compiled.rejected(raw.copy(), 40000, np.empty(4000, np.int64))
    assert wrong.tolist() == np.flatnonzero(raw >= 40000).tolist()
    assert len(wrong) > 1000
    stream.words(227, flat)
    keep = raw < word_limit(227)
    assert (flat[keep] == raw[keep]).all()
    assert (flat < word_limit(227)).all()


@pytest.mark.parametrize("p", [241, 16711936])  # of their kind, those that reject most
def test_words_of_the_spare_stream_are_rejected_too(p):
    count = 150_000
    assert KEY.stream().uniform(p, count).tolist() == words_by_hand(KEY, p, count)
    out = np.empty(count, word_dtype(p))
    KEY.stream().words(p, out)
    assert (out < word_limit(p)).all()


class Words:
    """A cipher whose key stream is known."""

    def __init__(self, *words):
        self.content = np.array(words).tobytes()

    def update(self, zeros):
        part, self.content = self.content[: len(zeros)], self.content[len(zeros) :]
        return part

    def update_into(self, zeros, out):
        out[:] = self.update(zeros)


@pytest.mark.parametrize("p", [251, 9562603, 2**53 - 111])
def test_the_limit_itself_is_rejected(p, passes):
    """In both streams; one word above the others would make its residue likelier."""
    kind = word_dtype(p).type
    limit = kind(word_limit(p))
    assert int(limit) % p == 0
    stream = KEY.stream()
    stream._main = Words(limit, kind(7), limit - kind(1), kind(np.iinfo(kind).max), limit)
    stream._spare = Words(limit, kind(5), limit - kind(1), limit, kind(3))
    out = np.empty(5, kind)
    stream.words(p, out)
    assert out.tolist() == [5, 7, limit - kind(1), limit - kind(1), 3]


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.uint32])
def test_a_type_holds_residues_up_to_its_largest(dtype):
    p = int(np.iinfo(dtype).max) + 1
    found = KEY.stream().uniform(p, 1000, dtype)
    assert found.dtype == dtype
    assert found.tolist() == KEY.stream().uniform(p, 1000).tolist()
    with pytest.raises(InvalidInput, match="do not fit"):
        KEY.stream().uniform(p + 1, 1000, dtype)


@given(st.lists(st.integers(0, 700), max_size=6), st.sampled_from([2, 227, 251, 9562603]))
def test_pieces_are_the_whole(sizes, p):
    stream = KEY.derive(p).stream()
    pieces = [stream.uniform(p, size, np.uint32) for size in sizes]
    whole = KEY.derive(p).stream().uniform(p, sum(sizes), np.uint32)
    assert np.concatenate([*pieces, np.empty(0, np.uint32)]).tolist() == whole.tolist()


@pytest.mark.parametrize("p", [3, 227, 241, 251])
def test_residues_are_uniform(p):
    counts = np.bincount(SecretKey.from_os().stream().uniform(p, 400_000), minlength=p)
    assert len(counts) == p
    assert chisquare(counts).pvalue > 1e-6


def test_successive_residues_are_independent():
    x = SecretKey.from_os().stream().uniform(227, (200_000, 2))
    counts = np.bincount(15 * (x[:, 0] % 15) + x[:, 1] % 15, minlength=225).reshape(15, 15)
    rows = np.bincount(np.arange(227) % 15) / 227
    assert chisquare(counts.ravel(), 200_000 * np.outer(rows, rows).ravel()).pvalue > 1e-6


def test_keys_hide_themselves_and_travel():
    assert KEY.to_bytes().hex() not in repr(KEY) + str(KEY) + f"{KEY}"
    assert repr(KEY) == str(KEY) == "SecretKey(hidden)"
    assert pickle.loads(pickle.dumps(KEY)) == KEY
    assert copy.deepcopy(KEY) == KEY
    assert SecretKey.from_bytes(KEY.to_bytes()) == KEY
    assert SecretKey.from_os() != SecretKey.from_os()


def test_derived_keys_differ():
    keys = [
        KEY, KEY.derive(), KEY.derive("a"), KEY.derive("a", "b"), KEY.derive("ab"), KEY.derive(1),
        KEY.derive("1"), KEY.derive(-1), KEY.derive(1, 1), KEY.derive(11),
        KEY.derive("a").derive("b"), KEY.derive("asb"), KEY.derive("a", "s", "b"),
    ]  # fmt: skip
    assert len(set(keys)) == len(keys)
    assert len({key.fingerprint() for key in keys}) == len(keys)
    assert all(0 <= key.fingerprint() < 2**63 for key in keys)
    assert len({key.stream().bytes(16) for key in keys}) == len(keys)


def test_bad_requests():
    with pytest.raises(InvalidInput, match="32 bytes; got 3"):
        SecretKey.from_bytes(b"abc")
    with pytest.raises(InvalidInput, match="at least 2; got 1"):
        KEY.stream().uniform(1, 3)
    with pytest.raises(InvalidInput, match="do not fit uint8"):
        KEY.stream().uniform(257, 3, np.uint8)
    with pytest.raises(InvalidInput, match=r"at most 2\*\*56"):
        KEY.stream().uniform(2**60, 3)


def test_wide_words_reach_the_top():
    x = KEY.stream().uniform(2**56, 100)
    assert x.max() > 2**55
    assert word_limit(2**8) == 2**16  # nothing to reject
