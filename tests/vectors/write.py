"""Write the test vectors, good and bad, as JSON: by Python's integers and by `cryptography` alone.

python tests/vectors/write.py [FOLDER]

Nothing of daskfc is imported here. What the files fix may change in no version: parties of several
versions take part in one run, and a run that is resumed finds what an earlier version left.
"""

import json
import math
import struct
import sys
from fractions import Fraction
from pathlib import Path

import msgpack
from cryptography.hazmat.primitives import hashes, hmac
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF, HKDFExpand

KEY = bytes(range(32))
OTHER = bytes(range(255, 223, -1))
SHAMIR = 2**256 + 297


def expand(key, info, length):
    """HKDF-Expand with SHA-256, RFC 5869."""
    return HKDFExpand(hashes.SHA256(), length, info).derive(key)


def counter_mode(key, length):
    """AES-256 in counter mode from a counter of zero, on zeros: the bare stream."""
    return Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor().update(bytes(length))


def label(labels):
    """Type, length and content of each label."""
    parts = [(b"s" if isinstance(one, str) else b"i", str(one).encode()) for one in labels]
    return b"daskfc.derive" + b"".join(
        kind + struct.pack("<I", len(content)) + content for kind, content in parts
    )


def derived(key, *labels):
    return expand(key, label(labels), 32)


def main_stream(key, length):
    return counter_mode(expand(key, b"daskfc.stream", 64)[:32], length)


def uniform(key, p, count):
    """Residues of words below the largest multiple of p; others come from the spare stream."""
    width = next(w for w, most in ((2, 2**8), (4, 2**24), (8, 2**56)) if p <= most)
    limit = 256**width - 256**width % p
    keys = expand(key, b"daskfc.stream", 64)
    main, spare = (counter_mode(half, 4 * width * count + 64) for half in (keys[:32], keys[32:]))

    def words(raw):
        return [int.from_bytes(raw[i : i + width], "little") for i in range(0, len(raw), width)]

    others = iter([word for word in words(spare) if word < limit])
    return [(word if word < limit else next(others)) % p for word in words(main)[:count]]


def lagrange(nodes, values, x, p):
    """Value at x of the polynomial through points, modulo a prime."""
    total = 0
    for j, (node, value) in enumerate(zip(nodes, values, strict=True)):
        for i, other in enumerate(nodes):
            if i != j:
                value = value * (x - other) * pow(node - other, p - 2, p) % p
        total += value
    return total % p


# -- keys, streams and masks -----------------------------------------------------------------------


def keys():
    """Keys of a purpose, fingerprints, streams, residues and masks."""
    sets = [[], ["encode", 3], ["encode", "3"], ["é"], ["x" * 300, -12], ["", 0], [2**80]]
    public = [
        X25519PrivateKey.from_private_bytes(secret).public_key().public_bytes_raw()
        for secret in (KEY, OTHER)
    ]
    point = X25519PrivateKey.from_private_bytes(KEY).exchange(
        X25519PublicKey.from_public_bytes(public[1])
    )
    low = min(public) + max(public)
    agreed = {
        purpose: HKDF(
            hashes.SHA256(), 32, None, b"daskfc.agreement" + purpose.encode() + low
        ).derive(point)
        for purpose in ("masks", "é")
    }
    size = 1100
    mask = [
        int.from_bytes(main_stream(KEY, 8 * size)[8 * i : 8 * i + 8], "little") for i in range(size)
    ]
    return {
        "key": KEY.hex(),
        "derived": [{"labels": one, "key": derived(KEY, *one).hex()} for one in sets],
        "fingerprint": int.from_bytes(expand(KEY, b"daskfc.fingerprint", 8), "little") >> 1,
        "stream": main_stream(KEY, 100).hex(),
        "uniform": [
            {"p": p, "values": uniform(KEY, p, 600)}
            for p in (2, 251, 256, 257, 9562603, 2**24, 2**31 - 1, 2**56)
        ],
        "mask": {"first": [str(m) for m in mask[:6]], "last": str(mask[-1]), "size": size},
        "agreement": {
            "private": [KEY.hex(), OTHER.hex()],
            "public": [one.hex() for one in public],
            "keys": {purpose: key.hex() for purpose, key in agreed.items()},
        },
        "bad": {
            "keys": ["", KEY[:31].hex(), (KEY + b"\0").hex()],
            # our own key, points of small order, and bytes of another length
            "public": [
                public[0].hex(), "", bytes(31).hex(), bytes(32).hex(), (b"\1" + bytes(31)).hex(),
                "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
                "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
            ],
            "moduli": [-1, 0, 1, 2**56 + 1],
        },
    }  # fmt: skip


# -- shares ----------------------------------------------------------------------------------------


def shamir():
    """Horner's rule on the secret and on 64 bytes of the stream for each power."""
    good = []
    for secret, n, t in ((KEY, 5, 3), (b"\xff" * 32, 3, 3), (bytes(32), 2, 1), (OTHER, 7, 4)):
        raw = main_stream(KEY, 64 * (t - 1))
        powers = [int.from_bytes(raw[64 * i : 64 * i + 64], "little") for i in range(t - 1)]
        terms = [int.from_bytes(secret, "little"), *powers]
        shares = [
            sum(c * x**power for power, c in enumerate(terms)) % SHAMIR for x in range(1, n + 1)
        ]
        good.append(
            {"secret": secret.hex(), "threshold": t,
             "shares": [share.to_bytes(33, "little").hex() for share in shares]}
        )  # fmt: skip
    whole = {i: share for i, share in enumerate(good[0]["shares"])}
    wrong = bytearray.fromhex(whole[4])
    wrong[0] ^= 1
    # Between 2**256 and the prime no secret lies.
    above = {i: ((2**256 + 1 + 7 * (i + 1)) % SHAMIR).to_bytes(33, "little").hex() for i in (0, 1)}
    bad = [
        {"why": "too few", "threshold": 3, "shares": {i: whole[i] for i in (0, 1)}},
        {"why": "one was changed", "threshold": 3, "shares": whole | {4: bytes(wrong).hex()}},
        {"why": "two change places", "threshold": 3, "shares": whole | {0: whole[1], 1: whole[0]}},
        {"why": "no secret of 32 bytes", "threshold": 2, "shares": above},
    ]
    return {"key": KEY.hex(), "good": good, "bad": bad}


# -- numbers in a ring -----------------------------------------------------------------------------


def nearest_even(x):
    """The whole number next to a fraction; halves to the even one."""
    low = math.floor(x)
    rest = x - low
    return low + (rest > Fraction(1, 2) or (rest == Fraction(1, 2) and low % 2 == 1))


def fixed_point():
    """Reals as round(2**q x) modulo 2**64, and sums of them."""
    good = []
    for most, n, q, values in (
        (8.0, 3, 40, [0.0, -0.0, 1.5, -2.25, 8.0, -8.0, 0.1, 2.0**-41, 3 * 2.0**-41, -(2.0**-60)]),
        (1.0, 1, 62, [1.0, -1.0, 2.0**-62, 1 / 3]),
        (1e12, 1000, 10, [1e12, -1e12, 123456789.0009765625]),
        (1e-30, 5, 150, [1e-30, -1e-31, 0.0]),
    ):
        whole = [nearest_even(Fraction(x) * 2**q) for x in values]
        total = [n * one for one in whole]  # what n equal arrays add up to
        good.append(
            {"max_abs": most, "n_terms": n, "fraction_bits": q, "values": values,
             "encoded": [str(one % 2**64) for one in whole],
             "sums": [float(Fraction(one) / 2**q) for one in total]}
        )  # fmt: skip
    bad = [
        {"why": "NaN", "value": "nan"},
        {"why": "infinite", "value": "-inf"},
        {"why": "beyond the bound", "value": "8.000000000000002"},
    ]
    rings = [[1.0, 3, 62], [-1.0, 1, 0], [1.0, 0, 0], [1.0, 1, 901], [2.0**63, 1, 0]]
    return {"good": good, "bad": bad, "bad_rings": rings}


# -- Lagrange coding -------------------------------------------------------------------------------


def square(u, v):
    """Squared distance of two rows of integers."""
    return sum((x - y) ** 2 for x, y in zip(u, v, strict=True))


def coding():
    """Shares of rows, evaluators' answers, and distances by interpolation and remainders."""
    rows = [[3, -1, 4, 1, -5], [9, 2, -6, 5, 3], [0, 0, 0, 0, 0]]
    good = []
    codes = (2, 2, 8, (251, 241, 239)), (1, 1, 3, (9562603,)), (3, 1, 9, (251, 241))
    for l, t, m, primes in codes:  # noqa: E741  (the paper's letter l)
        alphas = [2 * o + 1 for o in range(l + t)]
        betas = [2 * j for j in range(m)]
        k = -(-len(rows[0]) // l)
        padded = [row + [0] * (l * k - len(row)) for row in rows]
        shares = []  # [evaluator][prime][row][column]
        for j in range(m):
            shares.append([])
            for a, p in enumerate(primes):
                drawn = [_drawn(KEY, i, primes[: a + 1], len(rows) * k)[a] for i in range(t)]
                nodes = alphas[:l] + betas[:t]
                coded = [
                    [
                        lagrange(
                            nodes,
                            [padded[n][o * k + c] % p for o in range(l)]
                            + [drawn[i][n * k + c] for i in range(t)],
                            betas[j],
                            p,
                        )
                        for c in range(k)
                    ]
                    for n in range(len(rows))
                ]
                shares[j].append(coded)
        answers = [
            [
                [[square(u, v) % p for v in own] for u in own]
                for own, p in zip(share, primes, strict=True)
            ]
            for share in shares
        ]
        distances = [[square(u, v) for v in rows] for u in rows]
        for u in range(len(rows)):  # the oracle agrees with itself
            for v in range(len(rows)):
                for a, p in enumerate(primes):
                    need = 2 * l + 2 * t - 1
                    got = sum(
                        lagrange(betas[:need], [answers[j][a][u][v] for j in range(need)], x, p)
                        for x in alphas[:l]
                    )
                    assert got % p == distances[u][v] % p
        good.append(
            {"n_segments": l, "n_colluding": t, "n_evaluators": m, "primes": primes,
             "alphas": alphas, "betas": betas, "rows": rows, "shares": shares, "answers": answers,
             "distances": distances}
        )  # fmt: skip
    remainders = [
        {"primes": primes, "number": str(number), "residues": [number % p for p in primes]}
        for primes, number in (
            ((251, 241, 239), 14457348), ((251, 241, 239), 0),
            ((9562603, 9562591, 9562579, 9562573), 2**90 + 12345),
        )
    ]  # fmt: skip
    bad = [
        {"why": "too few evaluators", "code": [2, 2, 6]},
        {"why": "no segment", "code": [0, 1, 5]},
        {"why": "nobody colludes", "code": [1, 0, 5]},
    ]
    systems = [
        {"why": "no prime", "primes": [253], "bound": 10},
        {"why": "twice", "primes": [251, 251], "bound": 10},
        {"why": "of two sizes", "primes": [251, 9562603], "bound": 10},
        {"why": "a bound of the modulus", "primes": [251, 241], "bound": 251 * 241},
        {"why": "a prime above 2**24", "primes": [2**61 - 1], "bound": 10},
    ]
    return {
        "key": KEY.hex(), "good": good, "remainders": remainders, "bad_codes": bad,
        "bad_systems": systems,
    }  # fmt: skip


def _drawn(key, evaluator, primes, count):
    """The share of one of the first t evaluators: one stream, prime after prime."""
    seed = derived(key, "share of an evaluator", evaluator)
    keys = expand(seed, b"daskfc.stream", 64)
    main, spare = counter_mode(keys[:32], 64 * count), counter_mode(keys[32:], 64 * count)
    at = again = 0
    found = []
    for p in primes:
        width = 2 if p <= 2**8 else 4
        limit = 256**width - 256**width % p
        words, wrong = [], []
        for i in range(count):
            words.append(int.from_bytes(main[at : at + width], "little"))
            at += width
            if words[-1] >= limit:
                wrong.append(i)
        for i in wrong:
            while words[i] >= limit:
                words[i] = int.from_bytes(spare[again : again + width], "little")
                again += width
        found.append([word % p for word in words])
    return found


# -- the wire --------------------------------------------------------------------------------------


def packed(value):
    return msgpack.packb(value, use_bin_type=True)


def extension(code, content):
    return packed(msgpack.ExtType(code, content if isinstance(content, bytes) else packed(content)))


def nested(levels):
    data = packed(1)
    for _ in range(levels):
        data = packed(msgpack.ExtType(1, b"\x91" + data))
    return data


def wire():
    """Values as bytes, by the form that the wire has, and bytes that are refused."""
    array = ["<f8", [2, 2], struct.pack("<4d", 1, 2, 3, -0.5)]
    scale = "daskfc.coding.residues.scale"
    primes = msgpack.ExtType(1, packed([251, 241]))
    system = {"primes": primes, "scale": 2.0, "bound": 100, "exact": False}
    good = [
        {"value": "{'a': 1, 'b': [None, True, 'é', b'xy', 2.5]}",
         "bytes": packed({"a": 1, "b": [None, True, "é", b"xy", 2.5]})},
        {"value": "(1, 2.5, None)", "bytes": extension(1, [1, 2.5, None])},
        {"value": "np.array([[1.0, 2.0], [3.0, -0.5]])", "bytes": extension(2, array)},
        {"value": "np.empty((0, 3), '<u1')", "bytes": extension(2, ["|u1", [0, 3], b""])},
        {"value": "np.array(['é', 'ab'])",
         "bytes": extension(2, ["<U2", [2], "é\0ab".encode("utf-32-le")])},
        {"value": "np.float32(0.5)", "bytes": extension(3, ["<f4", struct.pack("<f", 0.5)])},
        {"value": "2**70", "bytes": extension(4, str(2**70).encode())},
        {"value": "1 - 2j", "bytes": extension(5, [1.0, -2.0])},
        {"value": "ResidueSystem((251, 241), 2.0, 100)",
         "bytes": extension(6, [scale, "ResidueSystem", system])},
        {"value": "ResidueSystem", "bytes": extension(7, [scale, "ResidueSystem"])},
        {"value": "is_prime",
         "bytes": extension(7, ["daskfc.coding.residues.modular", "is_prime"])},
    ]  # fmt: skip
    pickled = b"cos\nsystem\n(S'true'\ntR."
    bad = [
        {"why": "nothing", "bytes": b""},
        {"why": "cut short", "bytes": extension(2, array)[:-9]},
        {"why": "more after it", "bytes": packed(1) + b"\0"},
        {"why": "no such code", "bytes": extension(9, [1])},
        {"why": "a pickle", "bytes": extension(8, pickled)},
        {"why": "a function of another package", "bytes": extension(7, ["os", "system"])},
        {"why": "only imported there", "bytes": extension(7, [scale, "is_prime"])},
        {"why": "below a name", "bytes": extension(7, [scale, "ResidueSystem.first"])},
        {"why": "a program", "bytes": extension(7, ["daskfc.__main__", "main"])},
        {"why": "a record of another package", "bytes": extension(6, ["os", "stat_result", {}])},
        {"why": "a function as a record",
         "bytes": extension(6, ["daskfc.coding.residues.modular", "is_prime", {"value": 3}])},
        {"why": "a field that is not there",
         "bytes": extension(6, [scale, "ResidueSystem", {**system, "more": 1}])},
        {"why": "a record that its class refuses",
         "bytes": extension(6, [scale, "ResidueSystem", {**system, "bound": 10**9}])},
        {"why": "objects for entries", "bytes": extension(2, ["|O", [1], bytes(8)])},
        {"why": "fewer bytes than the shape", "bytes": extension(2, ["<f8", [3], bytes(16)])},
        {"why": "a negative axis", "bytes": extension(2, ["<f8", [-1], bytes(8)])},
        {"why": "a shape of 2**64", "bytes": extension(2, ["<f8", [2**32, 2**32], b""])},
        {"why": "a number of 5,000 digits", "bytes": extension(4, b"9" * 5000)},
        {"why": "33 values within one another", "bytes": nested(33)},
        {"why": "2,000 values within one another", "bytes": nested(2000)},
    ]  # fmt: skip
    seals = []
    for content in (b"", b"step", bytes(range(256))):
        mac = hmac.HMAC(KEY, hashes.SHA256())
        mac.update(content)
        seals.append({"content": content.hex(), "sealed": (mac.finalize() + content).hex()})
    text = {"bytes": lambda one: one.hex()}
    return {
        "good": [{k: text.get(k, str)(v) for k, v in one.items()} for one in good],
        "bad": [{k: text.get(k, str)(v) for k, v in one.items()} for one in bad],
        "seal": {"key": KEY.hex(), "other": OTHER.hex(), "good": seals},
    }


VECTORS = {
    "keys": keys, "shamir": shamir, "fixed-point": fixed_point, "coding": coding, "wire": wire,
}  # fmt: skip


def main() -> None:
    """Write all files."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
    for name, made in VECTORS.items():
        text = json.dumps({"about": made.__doc__, **made()}, ensure_ascii=False, indent=1)
        (folder / f"{name}.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
