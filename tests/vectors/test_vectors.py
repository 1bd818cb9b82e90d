"""What daskfc computes is what the vectors say, which another implementation wrote."""

import dataclasses
import json
import subprocess
import sys
from pathlib import Path

import msgpack
import numpy as np
import pytest

from daskfc.coding import (
    ENGINES,
    FixedPoint,
    KeyPair,
    LagrangeCode,
    ResidueSystem,
    SecretKey,
    add_mask,
    add_pair_masks,
    coded_distances,
    combine_shares,
    reconstruct,
    share_secret,
)
from daskfc.coding.residues.modular import is_prime
from daskfc.coding.residues.wide import WideIntegers
from daskfc.errors import DaskfcError, DecodingError, InvalidInput
from daskfc.federation.messages.wire_format import Reader, encode, opened, sealed

FOLDER = Path(__file__).parent
KEYS, SHAMIR, RING, CODING, WIRE = (
    json.loads((FOLDER / f"{name}.json").read_text("utf-8"))
    for name in ("keys", "shamir", "fixed-point", "coding", "wire")
)
KEY = SecretKey(bytes.fromhex(KEYS["key"]))


def why(one):
    return one["why"]


def test_the_files_are_what_the_program_writes(tmp_path):
    """It imports nothing of daskfc, so that the code cannot have written its own vectors."""
    program = FOLDER / "write.py"
    assert "daskfc" not in {
        line.split()[1].partition(".")[0]
        for line in program.read_text("utf-8").splitlines()
        if line.startswith(("import ", "from "))
    }
    subprocess.run([sys.executable, str(program), str(tmp_path)], check=True)
    names = {path.name for path in FOLDER.glob("*.json")}
    assert names == {path.name for path in tmp_path.iterdir()}
    for name in names:
        assert (tmp_path / name).read_bytes() == (FOLDER / name).read_bytes(), name


# -- keys, streams, masks --------------------------------------------------------------------------


@pytest.mark.parametrize("one", KEYS["derived"], ids=lambda one: str(one["labels"])[:20])
def test_keys_of_a_purpose(one):
    assert KEY.derive(*one["labels"]).to_bytes().hex() == one["key"]


def test_streams():
    assert KEY.fingerprint() == KEYS["fingerprint"]
    assert KEY.stream().bytes(100).hex() == KEYS["stream"]


@pytest.mark.parametrize("one", KEYS["uniform"], ids=lambda one: str(one["p"]))
def test_residues(one):
    size = len(one["values"])
    assert KEY.stream().uniform(one["p"], size).tolist() == one["values"]


@pytest.mark.parametrize("p", KEYS["bad"]["moduli"])
def test_residues_of_no_modulus(p):
    with pytest.raises(InvalidInput):
        KEY.stream().uniform(p, 3)


def test_masks():
    told = KEYS["mask"]
    mask = np.zeros(told["size"], np.uint64)
    add_mask(mask, KEY)
    assert [str(m) for m in mask[:6].tolist()] == told["first"]
    assert str(mask[-1]) == told["last"]
    plus, minus = np.zeros(6, np.uint64), np.zeros(6, np.uint64)
    add_pair_masks(plus, "a", {"b": KEY})  # the one whose name comes first adds
    add_pair_masks(minus, "b", {"a": KEY})
    assert [str(m) for m in plus.tolist()] == told["first"]
    assert not (plus + minus).any()


def test_agreement():
    told = KEYS["agreement"]
    own, other = (KeyPair(SecretKey(bytes.fromhex(one))) for one in told["private"])
    assert [own.public.hex(), other.public.hex()] == told["public"]
    for purpose, key in told["keys"].items():
        assert own.shared(other.public, purpose).to_bytes().hex() == key
        assert other.shared(own.public, purpose).to_bytes().hex() == key


@pytest.mark.parametrize("public", KEYS["bad"]["public"])
def test_public_keys_that_are_none(public):
    own = KeyPair(SecretKey(bytes.fromhex(KEYS["agreement"]["private"][0])))
    with pytest.raises(InvalidInput, match="a public key must be 32 bytes"):
        own.shared(bytes.fromhex(public), "masks")


@pytest.mark.parametrize("key", KEYS["bad"]["keys"])
def test_secret_keys_that_are_none(key):
    with pytest.raises(InvalidInput, match="must have 32 bytes"):
        SecretKey(bytes.fromhex(key))


# -- shares ----------------------------------------------------------------------------------------


def numbered(shares):
    pairs = shares.items() if isinstance(shares, dict) else enumerate(shares)
    return {int(i): bytes.fromhex(share) for i, share in pairs}


@pytest.mark.parametrize("one", SHAMIR["good"], ids=lambda one: str(one["threshold"]))
def test_shares_of_a_secret(one):
    secret, threshold, told = bytes.fromhex(one["secret"]), one["threshold"], one["shares"]
    shares = share_secret(secret, len(told), threshold, KEY.stream())
    assert [share.hex() for share in shares] == told
    last = dict(list(numbered(told).items())[-threshold:])
    assert combine_shares(last, threshold) == combine_shares(numbered(told), threshold) == secret


@pytest.mark.parametrize("one", SHAMIR["bad"], ids=why)
def test_shares_of_none(one):
    with pytest.raises(DecodingError):
        combine_shares(numbered(one["shares"]), one["threshold"])


# -- fixed point -----------------------------------------------------------------------------------


@pytest.mark.parametrize("one", RING["good"], ids=lambda one: str(one["fraction_bits"]))
def test_numbers_of_a_ring(one):
    ring = FixedPoint(one["max_abs"], one["n_terms"], one["fraction_bits"])
    encoded = ring.encode(np.array(one["values"]))
    assert [str(number) for number in encoded.tolist()] == one["encoded"]
    total = encoded * np.uint64(one["n_terms"])
    np.testing.assert_array_equal(ring.decode(total), np.array(one["sums"]) * 1.0)


@pytest.mark.parametrize("one", RING["bad"], ids=why)
def test_numbers_that_a_ring_does_not_hold(one):
    with pytest.raises(InvalidInput):
        FixedPoint(8.0, 3, 40).encode(np.array([1.0, float(one["value"])]))


@pytest.mark.parametrize("fields", RING["bad_rings"], ids=str)
def test_rings_that_are_none(fields):
    with pytest.raises(InvalidInput):
        FixedPoint(*fields)


# -- Lagrange coding -------------------------------------------------------------------------------


@pytest.fixture(params=CODING["good"], ids=lambda one: str(one["primes"]))
def coded(request):
    one = request.param
    code = LagrangeCode(one["n_segments"], one["n_colluding"], one["n_evaluators"])
    largest = max(map(max, one["distances"]))
    system = ResidueSystem(tuple(one["primes"]), scale=1.0, bound=4 * largest)
    return one, code, system


def test_shares_of_rows(coded):
    one, code, system = coded
    assert [*code.alphas] == one["alphas"]
    assert [*code.betas] == one["betas"]
    shares = code.encode(np.array(one["rows"]), system, KEY)
    assert shares.tolist() == one["shares"]


def test_answers_and_distances(coded):
    one, code, system = coded
    shares = np.array(one["shares"], system.dtype)
    answers = [coded_distances(z, z, system, ENGINES["f64"]) for z in shares]
    assert [answer.tolist() for answer in answers] == one["answers"]
    last = range(code.n_evaluators - code.threshold, code.n_evaluators)
    for asked in (range(code.threshold), last):
        found = reconstruct([answers[j] for j in asked], [*asked], code, system)
        assert found.tolist() == one["distances"]


@pytest.mark.parametrize("one", CODING["remainders"], ids=lambda one: one["number"])
def test_numbers_of_residues(one):
    residues = np.array(one["residues"])[:, None]
    found = WideIntegers.of_residues(residues, one["primes"])
    assert int(found.near[0]) + int(found.rest[0]) == int(one["number"])


@pytest.mark.parametrize("one", CODING["bad_codes"], ids=why)
def test_codes_that_are_none(one):
    with pytest.raises(InvalidInput):
        LagrangeCode(*one["code"])


@pytest.mark.parametrize("one", CODING["bad_systems"], ids=why)
def test_systems_that_are_none(one):
    with pytest.raises(InvalidInput):
        ResidueSystem(tuple(one["primes"]), scale=1.0, bound=one["bound"])


# -- the wire --------------------------------------------------------------------------------------


def same(a, b):
    if isinstance(a, np.ndarray):
        return type(b) is np.ndarray and a.dtype == b.dtype and np.array_equal(a, b)
    return type(a) is type(b) and a == b


@pytest.mark.parametrize("one", WIRE["good"], ids=lambda one: one["value"])
def test_values_on_the_wire(one):
    known = {"np": np, "ResidueSystem": ResidueSystem, "is_prime": is_prime}
    value, data = eval(one["value"], known), bytes.fromhex(one["bytes"])
    assert encode(value).hex() == one["bytes"]
    assert same(Reader().decode(data), value)
    assert (
        not dataclasses.is_dataclass(value)
        or msgpack.unpackb(data).code == 6
        or value is (ResidueSystem)
    )


@pytest.mark.parametrize("one", WIRE["bad"], ids=why)
def test_bytes_that_are_refused(one):
    with pytest.raises(DaskfcError):
        Reader().decode(bytes.fromhex(one["bytes"]))


def test_seals():
    told = WIRE["seal"]
    key, other = (SecretKey(bytes.fromhex(told[name])) for name in ("key", "other"))
    for one in told["good"]:
        content, data = bytes.fromhex(one["content"]), bytes.fromhex(one["sealed"])
        assert sealed(key, content) == data
        assert opened([other, key], data) == (content, True)
        assert opened([other], data) == (content, False)
        changed = bytes([data[0] ^ 1]) + data[1:]
        assert opened([key], changed) == (content, False)
        assert opened([key], bytes(32) + content) == (content, False)
