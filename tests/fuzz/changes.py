"""Inputs near valid ones, where faults are: bytes and trees changed, cut short or swapped."""

import copy
import math

from hypothesis import strategies as st

# Numbers at which something overflows, wraps around or is empty.
NUMBERS = st.sampled_from(
    [0, -1, 1, 2, 127, 255, 256, 2**15, 2**31 - 1, 2**31, 2**32, 2**53 + 1, 2**62, 2**63 - 1,
     2**63, -(2**63), 2**64 - 1, 2**64, 10**30, -(10**400), 0.5, -0.0, 1e308, math.inf, math.nan]
)  # fmt: skip
WORDS = st.sampled_from(
    ["", ".", "..", "../../x", "/etc/passwd", "~", "${HOME}", "a\0b", "\ud800", "\u202e", "server",
     "clients", "caller", "x" * 300, "os", "os.system", "builtins.eval", "__main__", "antigravity",
     "daskfc.__main__", "O", "|O8", "<U999999999", "object", "pickle", "numcodecs.pickle", "json2",
     "NaN", "Infinity", "1e400", "0x10", "=1+1"]
)  # fmt: skip
SMALL = st.none() | st.booleans() | NUMBERS | WORDS | st.integers() | st.text(max_size=8)
PLAIN = st.recursive(
    SMALL | st.binary(max_size=16) | st.floats(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=8) | WORDS, inner, max_size=3)
    ),
    max_leaves=8,
)


@st.composite
def changed_bytes(draw, valid):
    """Return bytes of a valid input with up to three changes, or any bytes.

    Parameters
    ----------
    valid : sequence of bytes
        To change, and to splice with one another.
    """
    data = bytearray(draw(st.sampled_from(valid)))
    for _ in range(draw(st.integers(0, 3))):
        at, size = (draw(st.integers(0, len(data))) for _ in range(2))
        kind = draw(st.sampled_from(["flip", "byte", "cut", "drop", "insert", "number", "splice"]))
        if kind == "flip" and at < len(data):
            data[at] ^= 1 << draw(st.integers(0, 7))
        elif kind == "byte" and at < len(data):
            data[at] = draw(st.integers(0, 255))
        elif kind == "cut":
            del data[at:]
        elif kind == "drop":
            del data[at : at + size]
        elif kind == "insert":
            data[at:at] = draw(st.binary(max_size=12))
        elif kind == "number":
            width = draw(st.sampled_from([1, 2, 4, 8]))
            order = draw(st.sampled_from(["little", "big"]))
            number = draw(st.integers(0, 256**width - 1) | st.just(256**width - 1))
            data[at : at + width] = number.to_bytes(width, order)
        elif kind == "splice":
            other = draw(st.sampled_from(valid))
            data[at:] = other[draw(st.integers(0, len(other))) :]
    return bytes(data) if draw(st.integers(0, 19)) else draw(st.binary(max_size=64))


def _places(tree, path=()):
    yield path
    if isinstance(tree, dict | list):
        for key, inner in tree.items() if isinstance(tree, dict) else enumerate(tree):
            yield from _places(inner, (*path, key))


def _at(tree, path):
    for key in path:
        tree = tree[key]
    return tree


@st.composite
def changed_tree(draw, valid, values=PLAIN):
    """Return a tree of dicts and lists with up to three entries changed, left out, moved or added.

    Parameters
    ----------
    valid : sequence of dict
        To change; parts of one may come into another.
    values : strategy
        What comes in place of an entry.
    """
    tree = copy.deepcopy(draw(st.sampled_from(valid)))
    for _ in range(draw(st.integers(1, 3))):
        paths = [path for path in _places(tree) if path]
        if not paths:
            break
        path = draw(st.sampled_from(paths))
        holder, key = _at(tree, path[:-1]), path[-1]
        kind = draw(st.sampled_from(["value", "value", "drop", "swap", "graft", "key", "wrap"]))
        if kind == "value":
            holder[key] = draw(values)
        elif kind == "drop":
            del holder[key]
        elif kind == "swap":
            other = draw(st.sampled_from(paths))
            holder[key] = copy.deepcopy(_at(tree, other))
        elif kind == "graft":
            other = draw(st.sampled_from(valid))
            holder[key] = copy.deepcopy(_at(other, draw(st.sampled_from(list(_places(other))))))
        elif kind == "key" and isinstance(holder, dict):
            holder[draw(WORDS | st.text(max_size=8))] = holder.pop(key)
        else:
            holder[key] = [holder[key]]
    return tree
