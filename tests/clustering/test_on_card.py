"""A graphics card finds the pairs that the processor does; torch's own processor stands for it."""

import sys

import numpy as np
import pytest

from daskfc import cards
from daskfc.cards import Card
from daskfc.clustering.views import half_distances, on_card
from daskfc.clustering.views.half_distances import HalfDistances
from daskfc.clustering.views.nearest import nearest_of_points, within_radius_of_points
from daskfc.clustering.views.screening import Share
from daskfc.errors import ResourceRefused
from tests.clustering.test_screening import HARD, KINDS, N, points


@pytest.fixture(scope="module")
def torch():
    """Not before a test of this file runs: it takes seconds, and stays."""
    return pytest.importorskip("torch", reason="needs daskfc[gpu]")


class Processor(Card):
    """torch's processor, which has room."""

    def __init__(self, torch):
        super().__init__(torch, torch.device("cpu"))

    def room(self):
        return 1 << 40


@pytest.fixture
def card(monkeypatch, torch) -> Card:
    """A card that searches all pairs, however few."""
    one = Processor(torch)
    monkeypatch.setattr(half_distances, "card_for", lambda n, width: one)
    return one


def edges_of(X, radius2):
    found = [np.column_stack(pairs) for pairs in within_radius_of_points(X, radius2).edges()]
    return sorted(np.concatenate(found).tolist())


@pytest.mark.few(10)
@pytest.mark.parametrize("height", [1, 61, N], ids="{} rows at a time".format)
@pytest.mark.parametrize("k", [1, 7])
@pytest.mark.parametrize("kind", KINDS + HARD)
def test_neighbours_are_those_of_the_processor(monkeypatch, request, kind, k, height):
    X = points(kind)
    plain = nearest_of_points(X, k)
    request.getfixturevalue("card")
    monkeypatch.setattr(on_card, "_SCORES", height * N)
    asked = []
    monkeypatch.setattr(on_card, "nearest", _noted(on_card.nearest, asked))
    found = nearest_of_points(X, k)
    np.testing.assert_array_equal(found.indices, plain.indices)
    np.testing.assert_array_equal(found.distances, plain.distances)
    assert found.indices.dtype == plain.indices.dtype
    assert asked == [True] if kind in KINDS else asked in ([True], [False], [])


def _noted(function, asked):
    def noting(*args):
        found = function(*args)
        asked.append(found is not None)
        return found

    return noting


@pytest.mark.few(10)
@pytest.mark.parametrize(("height", "listed"), [(1, 1000), (61, 10**6), (N, 1)])
@pytest.mark.parametrize("share", [0.002, 0.3])
@pytest.mark.parametrize("kind", KINDS + HARD)
def test_pairs_within_a_radius_are_those_of_the_processor(
    monkeypatch, request, kind, share, listed, height
):
    X = points(kind)
    D = ((X[:, None] - X) ** 2).sum(axis=2)
    radius2 = float(np.quantile(D[np.triu_indices(N, 1)], share, method="lower"))
    plain = edges_of(X, radius2)
    request.getfixturevalue("card")
    monkeypatch.setattr(on_card, "_SCORES", height * N)
    monkeypatch.setattr(on_card, "_LISTED", listed)
    assert edges_of(X, radius2) == plain


def test_each_pair_comes_once_and_not_too_many_at_a_time(card, monkeypatch):
    monkeypatch.setattr(on_card, "_LISTED", 500)
    scores = HalfDistances.of(points("cloud"))
    blocks = list(scores.within(5.0))
    assert max(rows.size for rows, _, _ in blocks) <= 500
    monkeypatch.setattr(on_card, "_LISTED", 1)
    assert all(np.unique(rows).size <= 1 for rows, _, _ in scores.within(5.0))
    assert sum(rows.size for rows, _, _ in blocks) > 5_000
    pairs = {pair for rows, cols, _ in blocks for pair in zip(rows, cols, strict=True)}
    assert len(pairs) == sum(rows.size for rows, _, _ in blocks)
    assert all(row < col for row, col in pairs)


def test_scores_are_as_near_to_the_true_ones_as_is_said(card, monkeypatch):
    X, seen = points("cloud") * 255.0 + 3.0, []
    monkeypatch.setattr(on_card, "_SCORES", 100 * N)
    scores = HalfDistances.of(X)

    def note(start, S):
        seen.append(S.numpy().astype(float))
        return start

    assert list(on_card._panels(card, scores.rows, N, note)) == [0, 100, 200, 300, 400]
    Y = X - np.rint(X.mean(axis=0))
    true = -((Y[:, None] - Y) ** 2).sum(axis=2) / 2 / np.abs(Y).max() ** 2
    off = np.abs(np.vstack(seen) - true)
    assert 0.0 < off.max()
    assert (off <= np.minimum(scores.error[:, None], scores.error)).all()


@pytest.mark.parametrize("height", [10, 61, N])
def test_every_row_has_its_own_bound(card, monkeypatch, height):
    """Scores of whole numbers are exact, so that the pairs are known."""
    monkeypatch.setattr(on_card, "_SCORES", height * N)
    random = np.random.default_rng(2)
    X = random.integers(-8, 9, (N, 3)).astype(np.float32)
    half = (X**2).sum(axis=1) / 2
    table = np.column_stack([X, half, np.ones(N, np.float32)])
    scores = X @ X.T - half[:, None] - half
    error = np.repeat([0.0, 2.0, 0.5], N // 3).astype(np.float32)

    def rows(first, last):
        return table[first:last]

    others = scores.copy()
    np.fill_diagonal(others, -np.inf)
    last = np.sort(others, axis=1)[:, -5]
    found = np.column_stack(on_card.nearest(card, rows, error, 5))
    wanted = np.argwhere(others >= (last - 2 * error)[:, None])
    assert sorted(found.tolist()) == wanted.tolist()
    assert 6 * N < len(wanted) < 24 * N

    blocks = list(on_card.within(card, rows, error, -error))
    found = np.concatenate([np.column_stack(block[:2]) for block in blocks])
    wanted = np.argwhere(np.triu(scores >= -error[:, None], 1))
    assert sorted(found.tolist()) == wanted.tolist()
    for first, second, told in blocks:
        assert told.tolist() == scores[first, second].tolist()


@pytest.mark.parametrize("height", [1, 3, 8])
def test_pairs_are_those_whose_score_reaches_what_is_asked(card, monkeypatch, height):
    """Scores of whole numbers are exact, and some are just what is asked."""
    x = np.array([0.0, 1.0, 2.0, 2.0, 4.0, 7.0, 7.0, 8.0], np.float32)
    table = np.column_stack([x, x * x / 2, np.ones_like(x)])
    half = (x[:, None] - x) ** 2 / 2
    monkeypatch.setattr(on_card, "_SCORES", height * len(x))
    found = on_card.within(card, lambda a, b: table[a:b], 0 * x, np.full_like(x, -0.5))
    pairs = [tuple(pair) for rows, others, _ in found for pair in zip(rows, others, strict=True)]
    assert sorted(pairs) == list(zip(*np.nonzero(np.triu(half <= 0.5, 1)), strict=True))
    assert len(pairs) == 7


@pytest.mark.parametrize("height", [10, N])
def test_too_many_pairs_are_not_listed(card, monkeypatch, height):
    monkeypatch.setattr(on_card, "_SCORES", height * N)
    table = np.ones((N, 3), np.float32)
    assert on_card.nearest(card, lambda a, b: table[a:b], np.zeros(N, np.float32), 3) is None


def test_where_the_card_cannot_tell_the_processor_does(card):
    X = np.ones((N, 2))
    X[0] = 5.0
    found = nearest_of_points(X, 3)  # N - 1 others are equally near
    assert not (found.indices == np.arange(N)[:, None]).any()


@pytest.fixture
def short(card, torch, monkeypatch):
    """Leave no room on the card for more than some scores at a time."""
    panels = on_card._panels

    def limit(most):
        def limited(card, rows, n, work):
            def tried(start, S):
                if S.numel() > most:
                    raise torch.OutOfMemoryError
                return work(start, S)

            return panels(card, rows, n, tried)

        monkeypatch.setattr(on_card, "_panels", limited)

    return limit


@pytest.mark.parametrize("rows", [1, 3, 50])
def test_a_card_that_is_short_of_memory_takes_fewer_rows_at_a_time(short, monkeypatch, rows):
    short(rows * N)
    X = points("integers")
    found, edges = nearest_of_points(X, 5), edges_of(X, 6.0)
    monkeypatch.undo()
    plain = nearest_of_points(X, 5)
    np.testing.assert_array_equal(found.indices, plain.indices)
    assert edges == edges_of(X, 6.0)


def test_a_card_without_room_for_a_row_is_refused(short):
    short(N - 1)
    with pytest.raises(ResourceRefused, match="device 'cpu'"):
        nearest_of_points(points("cloud"), 5)


def test_shares_of_tiles_are_for_processors(card, monkeypatch):
    monkeypatch.setattr(on_card, "nearest", None)
    scores = HalfDistances.of(points("cloud"))
    parts = [scores.nearest(5, Share(part, 2)) for part in range(2)]
    assert all(part is not None for part in parts)
    with pytest.raises(TypeError):
        scores.nearest(5)


# -- which card --------------------------------------------------------------------------------


class Rounded(Processor):
    """A card that rounds what it multiplies to some bits, as TF32 does to 10."""

    def __init__(self, torch, bits):
        super().__init__(torch)
        self.bits = bits

    def send(self, values):
        mantissa, exponent = np.frexp(values)
        kept = np.ldexp(np.rint(mantissa * 2.0 ** (self.bits + 1)), exponent - self.bits - 1)
        return super().send(kept.astype(np.float32))


@pytest.mark.parametrize("width", [2, 10, 66, 786, 12_000])
def test_a_card_that_rounds_more_than_float32_is_not_used(monkeypatch, caplog, torch, width):
    one = Rounded(torch, 10)
    monkeypatch.setattr(cards, "_found", lambda: one)
    assert cards.card_for(10**6, width) is None
    assert "less exact than float32" in caplog.text
    exact = Rounded(torch, 23)
    monkeypatch.setattr(cards, "_found", lambda: exact)
    assert cards.card_for(10**6, width) is exact


def test_a_card_is_taken_for_much_work_where_it_has_room(monkeypatch, torch):
    one = Processor(torch)
    monkeypatch.setattr(cards, "_found", lambda: one)
    assert cards.card_for(70_000, 786) is one
    assert cards.card_for(10_000, 786) is None
    monkeypatch.setattr(one, "room", lambda: 16 * 70_000 * 786 - 1)
    assert cards.card_for(70_000, 786) is None


def test_no_card_is_looked_for_where_none_is_allowed(monkeypatch):
    monkeypatch.setattr(cards, "_found", None)
    monkeypatch.setattr(cards, "_allowed", ["auto"])
    cards.allow_device("cpu")
    assert cards.card_for(10**6, 784) is None
    cards.allow_device("auto")
    with pytest.raises(TypeError):
        cards.card_for(10**6, 784)


def test_without_a_card_there_is_none(torch):
    cards._found.cache_clear()
    assert (cards.card_for(10**6, 784) is None) is not torch.cuda.is_available()


def test_without_torch_there_is_none(monkeypatch):
    cards._found.cache_clear()
    monkeypatch.setitem(sys.modules, "torch", None)
    assert cards.card_for(10**6, 784) is None
    cards._found.cache_clear()
