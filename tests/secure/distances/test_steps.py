"""OmniFC's steps with plain arguments: the whole protocol without a cluster."""

import itertools
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daskfc.coding import ResidueSystem, SecretKey, choose_residues, quantise
from daskfc.errors import DecodingError, InvalidInput, OverflowRefused, PrivacyError
from daskfc.federation.party.once import OnceOnly
from daskfc.federation.party.site_rules import SiteRules
from daskfc.federation.steps.rules import Announced, broken_rule
from daskfc.pairwise import DistanceTiles, SymmetricGrid
from daskfc.secure.distances import choose_code
from daskfc.secure.distances.parties import party, server
from daskfc.secure.distances.routes import columns
from daskfc.secure.sums import Centre
from daskfc.stores import ClientStore, write_store
from daskfc.stores.layout.layout import ContentDigest
from tests.faults import tears
from tests.oracles import omnifc as oracle

KEY = SecretKey.from_bytes(bytes(range(32)))


class ArrayStore:
    """The part of a ClientStore that steps read, over an array."""

    def __init__(self, name, X, ids):
        self.name, self.X, self.ids = name, np.asarray(X, dtype=float), [str(i) for i in ids]
        self.n_samples, self.n_features = self.X.shape
        self.feature_names = tuple(f"x{i}" for i in range(self.n_features))
        self.digest = f"digest of {name}"
        self.attributes = {}

    def rows(self, start, stop):
        return self.X[start:stop]

    def blocks(self, rows=None):
        yield 0, self.X

    def sample_ids(self):
        return np.array(self.ids)

    def id_key(self):
        return bytes(32)


def dealt(X, owners):
    """Deal the rows of X to clients; the id of a row is its number."""
    owners = np.asarray(owners)
    return {
        f"client-{c}": ArrayStore(f"client-{c}", X[owners == c], np.flatnonzero(owners == c))
        for c in np.unique(owners)
    }


def run(
    stores,
    *,
    tmp_path,
    segments=1,
    t=1,
    spares=0,
    use=None,
    hide=True,
    engine="auto",
    tamper=None,
):
    """Play all parties; return the plan and the distances in canonical order."""
    secrets = {name: SecretKey.from_os() for name in stores}
    plan = server.plan({n: party.describe(s, KEY, KEY, max_abs=None) for n, s in stores.items()})
    code = choose_code(max(len(stores), 2 * segments + 2 * t - 1 + spares), segments, t, spares)
    evaluators = tuple(f"client-{j}" for j in range(code.n_evaluators))
    system = choose_residues(
        radius=plan.radius,
        n_features=plan.n_features,
        tolerance=1e-4,
        grids=plan.grids,
        n_columns=code.n_columns(plan.n_features),
        n_points=code.n_points,
    )
    public = {"code": code, "system": system, "evaluators": evaluators}
    keys = party.hiding_key(SecretKey.from_os(), evaluators=evaluators)
    shares = {}
    for name, store in stores.items():
        tiles_of_rows = [(a, min(a + 4, len(store.X))) for a in range(0, len(store.X), 4)]
        shares[name] = [
            party.encode_rows(store, secrets[name], start=a, stop=b, **public)
            for a, b in tiles_of_rows
        ]
    positions = server.row_positions(plan)
    coded = {
        e: party.assemble(
            {name: [s[e] for s in parts] for name, parts in shares.items()},
            positions,
            keys[e] if hide else None,
            code=code,
            system=system,
        )
        for e in evaluators
    }
    grid = SymmetricGrid(plan.n_samples, tile=5)
    tiles = DistanceTiles.create(str(tmp_path / "tiles"), grid)
    asked = [evaluators[j] for j in use] if use else evaluators
    wrong = set()
    for i, j in grid.blocks():
        answers = {
            e: party.answer_block(coded[e], e, i=i, j=j, grid=grid, engine=engine, **public)
            for e in asked
        }
        if tamper:
            tamper(answers)
        decoded = server.decode_block(tiles, answers, SecretKey.from_os(), i=i, j=j, **public)
        wrong |= set(decoded.wrong.tolist())
    return SimpleNamespace(plan=plan, D=tiles.full(), system=system, wrong=wrong)


def search(stores, *, count, spares=0, segments=1, tamper=None):
    """Play all parties of the rounds of landmarks; return columns, and the primes of each round."""
    secrets = {name: SecretKey.from_os() for name in stores}
    plan = server.plan({n: party.describe(s, KEY, KEY, max_abs=None) for n, s in stores.items()})
    code = choose_code(len(stores), segments, 1, spares)
    evaluators = tuple(f"client-{j}" for j in range(code.n_evaluators))
    whole = choose_residues(
        radius=plan.radius,
        n_features=plan.n_features,
        tolerance=1e-4,
        grids=plan.grids,
        n_columns=code.n_columns(plan.n_features),
        n_points=code.n_points,
    )
    public = {"code": code, "evaluators": evaluators}
    shares = {
        name: party.encode_rows(store, secrets[name], start=0, stop=len(store.X), system=whole,
                                **public)
        for name, store in stores.items()
    }  # fmt: skip
    keys = party.hiding_key(SecretKey.from_os(), evaluators=evaluators)
    hiding = {e: keys[e] if segments > 1 else None for e in evaluators}
    positions = server.row_positions(plan)
    coded = {
        e: party.assemble(
            {name: [sent[e]] for name, sent in shares.items()}, positions, hiding[e], code=code,
            system=whole,
        )
        for e in evaluators
    }  # fmt: skip
    embedding = columns.start_search(plan, system=whole)
    rounds, found, wrong, n_primes = [], [], set(), len(whole.primes)
    while not embedding.converged:
        chosen, system = embedding.next_landmarks(count), whole.first(n_primes)
        known = (embedding, chosen) if n_primes < len(whole.primes) else (None, None)
        panels = []
        for start in range(0, plan.n_samples, 20):
            place = {"start": start, "stop": min(start + 20, plan.n_samples), "turn": len(rounds)}
            answers = {
                e: party.answer_columns(
                    coded[e], server.told_landmarks(chosen), e, engine="f32",
                    system=system, **place, **public,
                )
                for e in evaluators
            }  # fmt: skip
            if tamper and n_primes < len(whole.primes):
                tamper(answers)
            panels.append(
                server.decode_columns(
                    answers, *known, SecretKey.from_os(), what="columns", start=start,
                    system=system, **public,
                )
            )  # fmt: skip
            wrong |= set(panels[-1].wrong.tolist())
        server.add_columns(embedding, chosen, panels)
        rounds.append(n_primes)
        found.append(np.concatenate([panel.distances for panel in panels]))
        n_primes = server.landmark_status(embedding, system=whole).n_primes
    D = np.concatenate(found, axis=1)
    return SimpleNamespace(
        plan=plan, D=D, landmarks=embedding.landmarks, rounds=rounds, system=whole, wrong=wrong
    )


@pytest.fixture
def spread_out():
    """50 samples of 12 features, each with less in it than the one before."""
    random = np.random.default_rng(0)
    return np.rint(random.normal(size=(50, 12)) * 8000 * 0.4 ** np.arange(12))


@pytest.mark.parametrize("segments", [1, 2])
def test_later_columns_need_fewer_primes(spread_out, segments):
    owners = np.arange(50) % 5
    found = search(dealt(spread_out, owners), count=3, segments=segments)
    assert found.rounds[0] == len(found.system.primes) == 4
    assert sorted(found.rounds, reverse=True) == found.rounds
    assert set(found.rounds) == {2, 3, 4}
    true = true_distances(spread_out, order_of(found.plan, owners))
    np.testing.assert_array_equal(found.D, true[:, found.landmarks])


def test_a_liar_about_the_rest_of_a_distance_is_named(spread_out):
    owners = np.arange(50) % 5
    found = search(dealt(spread_out, owners), count=3, spares=2, tamper=_lie)
    assert found.wrong == {3}
    true = true_distances(spread_out, order_of(found.plan, owners))
    np.testing.assert_array_equal(found.D, true[:, found.landmarks])


def test_answers_that_contradict_what_is_known_are_refused(spread_out):
    def lie(answers):  # without a spare nothing else tells
        answers["client-0"].residues[0] ^= 1

    with pytest.raises(DecodingError, match="contradict what is known"):
        search(dealt(spread_out, np.arange(50) % 3), count=3, tamper=lie)


@pytest.fixture
def X():
    return np.random.default_rng(0).normal(size=(13, 5))


def true_distances(X, order):
    Y = X[order]
    return ((Y[:, None] - Y) ** 2).sum(-1)


def order_of(plan, owners):
    """Row of X at each canonical position."""
    owners = np.asarray(owners)
    order = np.empty(len(owners), dtype=int)
    for c in np.unique(owners):
        order[plan.positions[f"client-{c}"]] = np.flatnonzero(owners == c)
    return order


def test_equals_the_paper_in_python_integers(X, tmp_path):
    owners = np.arange(13) % 3
    X = np.round(X[:, :4] * 4) / 4  # on a grid of both: no rounding on either side
    found = run(dealt(X, owners), tmp_path=tmp_path)
    slow = oracle.distances(X, q=2, n_segments=1, n_colluding=1, n_clients=3)
    order = order_of(found.plan, owners)
    np.testing.assert_array_equal(found.D, slow[np.ix_(order, order)])


def test_error_within_the_tolerance_and_diagonal_exactly_zero(X, tmp_path):
    owners = np.arange(13) % 7
    found = run(dealt(X, owners), segments=2, t=2, tmp_path=tmp_path)
    true = true_distances(X, order_of(found.plan, owners))
    rms = np.sqrt(np.mean((found.D - true) ** 2)) / true.mean()
    assert 0 < rms <= 1e-4
    assert not found.D.diagonal().any()
    np.testing.assert_array_equal(found.D, found.D.T)


def test_pixels_have_no_error(tmp_path):
    X = np.random.default_rng(1).integers(0, 256, size=(9, 6)).astype(float)
    owners = np.arange(9) % 3
    found = run(dealt(X, owners), tmp_path=tmp_path)
    np.testing.assert_array_equal(found.D, true_distances(X, order_of(found.plan, owners)))


@settings(max_examples=15, deadline=None)
@given(owners=st.permutations([0] * 6 + [1] * 5 + [2] * 2))
def test_bitwise_the_same_for_every_partition(owners, tmp_path_factory):
    X = np.random.default_rng(0).normal(size=(13, 5))
    even = run(dealt(X, np.arange(13) % 3), tmp_path=tmp_path_factory.mktemp("even"))
    other = run(dealt(X, owners), tmp_path=tmp_path_factory.mktemp("other"))
    np.testing.assert_array_equal(even.D, other.D)
    np.testing.assert_array_equal(
        order_of(even.plan, np.arange(13) % 3), order_of(other.plan, owners)
    )


@pytest.mark.parametrize("use", [(0, 1, 2), (4, 2, 3), (1, 3, 4), (0, 1, 2, 3, 4)])
def test_any_evaluators_give_the_same(X, use, tmp_path):
    stores = dealt(X, np.arange(13) % 5)
    reference = run(stores, spares=2, tmp_path=tmp_path / "a")
    np.testing.assert_array_equal(
        run(stores, spares=2, use=use, tmp_path=tmp_path / "b").D, reference.D
    )


@pytest.mark.parametrize("engine", ["int8", "f32", "f64"])
@pytest.mark.parametrize("hide", [True, False])
def test_engines_and_hiding_give_the_same(X, engine, hide, tmp_path):
    stores = dealt(X, np.arange(13) % 3)
    reference = run(stores, engine="f64", tmp_path=tmp_path / "a")
    np.testing.assert_array_equal(
        run(stores, engine=engine, hide=hide, tmp_path=tmp_path / "b").D, reference.D
    )


def _lie(answers):
    answers["client-3"].residues[:, 0, -1] ^= 1


def test_a_liar_is_named_and_left_out(X, tmp_path):
    stores = dealt(X, np.arange(13) % 5)
    honest = run(stores, spares=2, tmp_path=tmp_path / "a")
    found = run(stores, spares=2, tmp_path=tmp_path / "b", tamper=_lie)
    assert found.wrong == {3}
    np.testing.assert_array_equal(found.D, honest.D)


def test_a_liar_beyond_the_bound_is_refused(X, tmp_path):
    with pytest.raises(DecodingError, match="contradict"):
        run(dealt(X, np.arange(13) % 4), spares=1, tmp_path=tmp_path, tamper=_lie)


def test_shares_of_two_encodings_are_refused(X, tmp_path):
    def mix(answers):
        first = answers["client-0"]
        answers["client-0"] = type(first)(first.residues, first.encoding ^ 1)

    with pytest.raises(DecodingError, match="one encoding"):
        run(dealt(X, np.arange(13) % 3), tmp_path=tmp_path, tamper=mix)


def test_a_recomputed_encoding_is_bit_identical_and_another_key_is_not(X):
    store, code = dealt(X, np.zeros(13))["client-0.0"], choose_code(3, 1, 1, 0)
    system = choose_residues(
        radius=10.0, n_features=5, tolerance=1e-4, grids=0, n_columns=5, n_points=code.n_points
    )
    secret, names = SecretKey.from_os(), ("a", "b", "c")
    args = {"start": 0, "stop": 13, "code": code, "system": system, "evaluators": names}
    once, again = (party.encode_rows(store, secret, **args) for _ in range(2))
    other = party.encode_rows(store, SecretKey.from_os(), **args)
    for name in names:
        one, two, three = (
            party.share_of(sent[name], code, system) for sent in (once, again, other)
        )
        np.testing.assert_array_equal(one, two)
        assert (one != three).mean() > 0.9
    assert [once[name].seed.size for name in names] == [32, 0, 0]
    assert once["a"].residues.size == 0
    assert once["a"].fingerprint != other["a"].fingerprint


def test_evaluators_in_another_order_see_other_noise(X):
    """Who is asked as number 0 and as number 1 would have two points of a line, and the rows."""
    store, code = dealt(X, np.zeros(13))["client-0.0"], choose_code(3, 1, 1, 0)
    system, secret = ResidueSystem((251, 241), scale=10.0, bound=60_000), SecretKey.from_os()
    where = {"start": 0, "stop": len(X), "code": code, "system": system}
    seen = []
    for names in (("a", "b", "c"), ("b", "a", "c")):
        coded = party.encode_rows(store, secret, evaluators=names, **where)["a"]
        seen.append(party.share_of(coded, code, system).astype(np.int64))
    (first, second), (segment, _) = code.betas[:2], code.alphas[:2]
    rows = quantise(X, system)
    for k, prime in enumerate(system.primes):
        slope = (seen[1][k] - seen[0][k]) * pow(second - first, -1, prime)
        found = (seen[0][k] + slope * (segment - first)) % prime
        assert (found == rows % prime).mean() < 0.2


class Site(SiteRules):
    """A site that remembers what was asked."""

    def __init__(self):
        self._once = OnceOnly()

    def once(self):
        return self._once


def encoded(store, site=None, start=0, stop=2, **changes):
    code = choose_code(3, None, None, None)
    system = ResidueSystem(primes=(251, 241), scale=2.0, bound=400)
    how = {"code": code, "system": replace(system, **changes), "evaluators": ["a", "b", "c"]}
    return party.encode_rows(store, KEY, start=start, stop=stop, site=site or Site(), **how)


def test_few_grids_are_taken_in_a_start():
    """Each tells, by a refusal or none, how far samples lie."""
    store, site = ArrayStore("a", [[1.0, 2.0], [3.0, 0.5]], "xy"), Site()
    for _ in range(2):
        for more in range(16):
            encoded(store, site, bound=400 + more)
    with pytest.raises(PrivacyError, match="may ask for 16 different grids of rows at most"):
        encoded(store, site, bound=500)
    encoded(store, site, bound=401)


@pytest.mark.parametrize(("start", "stop"), [(0, 2), (0, 1), (1, 2)])
def test_a_grid_that_some_rows_do_not_fit_is_refused_for_all(start, stop):
    """Else each row would tell how far it lies."""
    store = ArrayStore("a", [[1.0, 2.0], [3.0, 0.5]], "xy")
    encoded(store, start=start, stop=stop)
    with pytest.raises(OverflowRefused, match="lie outside the radius agreed"):
        encoded(store, start=start, stop=stop, bound=100)


def test_a_caller_chooses_no_point_to_see_rows_from():
    announced = Announced({"n_colluding": 1}, clients=("a", "b", "c"))
    code, names = choose_code(3, None, None, None), ["a", "b", "c"]
    given = {"code": code, "evaluators": names}
    assert broken_rule(party.encode_rows, given, announced) is None
    told = broken_rule(party.encode_rows, {**given, "centre": Centre(np.zeros(2))}, announced)
    assert told == "'centre' must be None, unless a message tells it"


def test_describe_tells_a_rounded_radius_or_none(X):
    store = ArrayStore("a", X, range(13))
    exact = np.sqrt((X**2).sum(1).max())
    told = party.describe(store, KEY, KEY, max_abs=None).radius
    assert exact <= told <= exact * 2 ** (1 / 8) * (1 + 1e-12)
    declared = party.describe(store, KEY, KEY, max_abs=8.0).radius
    assert (
        declared == party.describe(ArrayStore("a", X / 2, range(13)), KEY, KEY, max_abs=8.0).radius
    )


def test_samples_cannot_be_guessed_by_their_tag():
    """A hash under a public salt gave away all of a few small integers: 256 guesses here."""
    write_store("memory://guess/a.zarr", "a", np.array([[3.0, 1.0], [0.0, 2.0]]), ["p", "q"])
    store = ClientStore.open("memory://guess/a.zarr")
    told = party.describe(store, KEY, KEY, max_abs=None).content
    fits = []
    for guess in itertools.product(range(4), repeat=4):
        digest = ContentDigest(store.dtype, store.feature_names)
        digest.add(np.reshape(guess, (2, 2)), ["p", "q"])
        salted = party.hash64(b"daskfc-sample-order", digest.hexdigest().encode())
        fits.append(digest.hexdigest() == store.digest)
        assert told != salted
    assert sum(fits) == 1  # that guess was among them
    assert told == party.describe(store, KEY, KEY, max_abs=None).content
    assert told != party.describe(store, KEY, SecretKey.from_os(), max_abs=None).content
    other = party.describe(ArrayStore("b", np.ones((2, 2)), "pq"), KEY, KEY, max_abs=None)
    assert told != other.content


@given(st.floats(1e-6, 1e6))
def test_rounded_up_is_above_and_close(radius):
    assert radius <= party.rounded_up(radius) <= radius * 2 ** (1 / 8) * (1 + 1e-9)


def test_bad_data_are_refused_without_values(X):
    with pytest.raises(OverflowRefused, match="max_abs"):
        party.describe(ArrayStore("a", X, range(13)), KEY, KEY, max_abs=0.5)
    X[3, 2] = np.nan
    X[5, 1] = np.inf
    with pytest.raises(InvalidInput, match="client 'a' must be finite; some rows"):
        party.describe(ArrayStore("a", X, range(13)), KEY, KEY, max_abs=None)


def test_clients_may_not_share_samples(X):
    a = party.describe(ArrayStore("a", X, range(13)), KEY, KEY, max_abs=None)
    twice = party.describe(ArrayStore("b", X, range(10, 23)), KEY, KEY, max_abs=None)
    with pytest.raises(InvalidInput, match="share some, 3 ids"):
        server.plan({"a": a, "b": twice})


@pytest.mark.parametrize(
    ("m", "given_", "expected"),
    [
        (3, {}, (1, 1, 3)), (4, {}, (1, 1, 4)), (5, {}, (1, 2, 5)), (6, {}, (1, 2, 6)),
        (7, {}, (1, 2, 6)), (10, {}, (1, 2, 6)), (10, {"n_spares": 3}, (1, 2, 8)),
        (7, {"n_segments": 2}, (2, 2, 7)), (8, {"n_segments": 2}, (2, 2, 8)),
        (9, {"n_colluding": 4}, (1, 4, 9)),
    ],
)  # fmt: skip
def test_default_code(m, given_, expected):
    keys = ("n_segments", "n_colluding", "n_spares")
    code = choose_code(m, *(given_.get(key) for key in keys))
    assert (code.n_segments, code.n_colluding, code.n_evaluators) == expected


@pytest.mark.parametrize(
    ("m", "given_"),
    [(2, (None, None, None)), (6, (2, 2, None)), (7, (2, 2, 1)), (10, (None, 6, None))],
)
def test_too_few_clients_are_refused(m, given_):
    with pytest.raises(InvalidInput):
        choose_code(m, *given_)


@tears
@pytest.mark.parametrize("name", ["zarr.json", "done/zarr.json", "distances/zarr.json"])
def test_a_group_of_blocks_that_is_torn_is_begun_anew(tmp_path, name, tear):
    grid = SymmetricGrid(6, 3)
    options = {"name": "0f", "grid": grid, "n_neighbors": None, "radius2": None}
    server.open_tiles(str(tmp_path), **options).write(0, 0, np.ones((3, 3)))
    tear(tmp_path / "0f" / name)
    tiles = server.open_tiles(str(tmp_path), **options)
    assert tiles.missing() == list(grid.blocks())
    tiles.write(0, 0, np.ones((3, 3)))
    assert tiles.done() == {(0, 0)}
