"""Secure distances at a client: describe samples, encode rows, evaluate coded distances."""

import math
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from daskfc.arrays import Ints
from daskfc.clustering.views.decisive import smallest_hundredth, to_nearest_apart
from daskfc.coding import (
    Engine,
    HidingPolynomial,
    LagrangeCode,
    Operand,
    ResidueSystem,
    SecretKey,
    coded_distances,
    detect_grids,
    prepare,
    quantise,
    select_engine,
)
from daskfc.errors import DecodingError, InvalidInput, OverflowRefused
from daskfc.federation.methods.samples import sample_digests
from daskfc.federation.party.site_rules import FREE, SiteRules
from daskfc.federation.steps.rules import as_announced, by_message, some_clients, takes
from daskfc.pairwise import SymmetricGrid
from daskfc.secure.distances.parties.choice import AS_ANNOUNCED
from daskfc.secure.distances.parties.messages import (
    CodedDistances,
    CodedRows,
    GapsAllowed,
    HidingKey,
    Landmarks,
    NearestApart,
    NewSamples,
    Reach,
    RowPositions,
    SampleSummary,
)
from daskfc.secure.distances.parties.seen import AS_THEY_ARE, Seen, hash64
from daskfc.secure.sums import Centre
from daskfc.stores import ClientStore

NAMED = 3  # columns, at most
FAR = 16.0  # ours: times farther from the origin than apart; costs up to one prime, 8 bits
_GRIDS = 16  # ours: of a run's rows; a fit takes eight at most, and new samples are on its last
KEPT_OPERANDS = 8  # ours: both sides of a square of 4 x 4 blocks
_ALL = slice(None)


def rounded_up(radius: float) -> float:
    """Round up to a power of 2**(1/8), so that the exact largest norm stays at the client."""
    if radius == 0:
        return 0.0
    step = np.ceil(np.round(8 * np.log2(radius), 9))
    return float(max(2.0 ** (step / 8), radius))


@takes(max_abs=as_announced("max_abs"))
def describe(
    data: ClientStore, key: SecretKey, durable_secret: SecretKey, *, max_abs: float | None
) -> SampleSummary:
    """Report number, keyed id digests and range of the client's samples to the server.

    With `max_abs`, a public bound on every ``|x|``, no range is reported, and larger values raise
    OverflowRefused.
    """
    return described(data, key, durable_secret, max_abs)


def described(
    data: ClientStore,
    key: SecretKey,
    durable_secret: SecretKey,
    max_abs: float | None,
    seen: Seen = AS_THEY_ARE,
) -> SampleSummary:
    """Return the summary of samples as they are seen."""
    radius2, grids = 0.0, -1
    least, most = np.full(data.n_features, np.inf), np.full(data.n_features, -np.inf)
    for _, rows in data.blocks():
        rows = seen.rows(rows)
        if not np.isfinite(rows).all():  # no count: steps of the caller's own may make them so
            raise InvalidInput(
                f"the features of client {data.name!r} must be finite; some rows hold NaN or "
                "infinity. Fill or drop these rows and build the store again."
            )
        if len(rows):
            np.minimum(least, rows.min(axis=0), out=least)
            np.maximum(most, rows.max(axis=0), out=most)
            radius2 = max(radius2, float(np.einsum("ij,ij->i", rows, rows).max()))
            grids &= detect_grids(rows)
    if max_abs is not None and max(most.max(), -least.min()) > max_abs:
        raise OverflowRefused(
            f"the features of client {data.name!r} must lie within the declared max_abs={max_abs}; "
            "some do not. Declare a larger bound, or none."
        )
    if max_abs is None:
        radius, spread = np.sqrt(radius2), float(np.linalg.norm(np.subtract(most, least) / 2))
    else:
        radius, spread = max_abs * np.sqrt(data.n_features), np.inf
    ids = sample_digests(data, key)
    return SampleSummary(
        digests=ids.digests,
        share=ids.share,
        n_features=data.n_features,
        columns=hash64(*(str(name).encode() for name in data.feature_names)) >> 1,
        content=durable_secret.derive("samples", seen.digest_of(data)).fingerprint(),
        radius=rounded_up(float(radius)),
        spread=rounded_up(spread) if np.isfinite(spread) else spread,
        grids=grids,
    )


def reach_from(data: ClientStore, centre: Centre) -> Reach:
    """Report the largest distance of the client's samples from the centre of all."""
    squares = (np.square(rows - centre.point).sum(axis=1).max() for _, rows in data.blocks())
    return Reach(rounded_up(float(np.sqrt(max(squares, default=0.0)))))


def nearest_apart(data: ClientStore) -> NearestApart:
    """Report a small squared distance between different samples of the client."""
    return apart(data, AS_THEY_ARE)


def apart(data: ClientStore, seen: Seen) -> NearestApart:
    """Return what `nearest_apart` reports, of samples as they are seen."""
    rows = seen.rows(data.rows(0, data.n_samples))
    squared = smallest_hundredth(to_nearest_apart(rows))
    return NearestApart(2.0 ** math.floor(math.log2(squared)) if squared > 0 else math.inf)


@takes(centre=by_message)
def refuse_far_samples(
    data: ClientStore, centre: Centre | None, *, radius: float, why: str, site: SiteRules = FREE
) -> None:
    """Raise OverflowRefused, with column names and no values, if samples reach `radius`."""
    refuse_far(data, seen_from(centre), radius, why, site)


def refuse_far(data: ClientStore, seen: Seen, radius: float, why: str, site: SiteRules) -> None:
    """Refuse far samples, as they are seen; see `refuse_far_samples`."""
    # one: by radii, and points to see from, a caller would learn where the farthest samples lie
    site.once().hold("radius of far samples", "", repr((seen, radius)).encode())
    reach = np.zeros(data.n_features)
    largest = 0.0
    for _, values in data.blocks():
        rows = seen.rows(values)
        np.maximum(reach, np.abs(rows).max(axis=0), out=reach)
        largest = max(largest, float(np.square(rows).sum(axis=1).max()))
    if rounded_up(float(np.sqrt(largest))) < radius:
        return
    far = np.flatnonzero(reach >= reach.max() / 2)[:NAMED]
    names = ", ".join(repr(data.feature_names[j]) for j in far)
    raise OverflowRefused(
        f"samples of client {data.name!r} lie too far from the others in "
        f"column{'s' * (far.size > 1)} {names}: {why}. Take out codes for missing values, or give "
        "the step 'clip' or 'log' in 'prepare', or leave the column out."
    )


def hiding_key(secret: SecretKey, *, evaluators: Sequence[str]) -> dict[str, HidingKey]:
    """Draw the key of the segment-hiding polynomial and send it to the evaluators only."""
    key = np.frombuffer(secret.derive("segment hiding").to_bytes(), dtype=np.uint8)
    return {name: HidingKey(key.copy()) for name in evaluators}


@takes(centre=by_message, code=AS_ANNOUNCED, evaluators=some_clients)
def encode_rows(
    data: ClientStore,
    secret: SecretKey,
    centre: Centre | None = None,
    new: ClientStore | None = None,
    *,
    start: int,
    stop: int,
    code: LagrangeCode,
    system: ResidueSystem,
    evaluators: Sequence[str],
    site: SiteRules = FREE,
) -> dict[str, CodedRows]:
    """Evaluate the Lagrange polynomials of quantised rows, or `new` ones, for `evaluators`."""
    seen = seen_from(centre)
    how: dict[str, Any] = {"code": code, "system": system, "evaluators": evaluators}
    return encoded(data, new, secret, seen, site, start=start, stop=stop, **how)


def seen_from(centre: Centre | None) -> Seen:
    """Return how rows are seen from a centre, or from the origin."""
    return AS_THEY_ARE if centre is None else Seen(centre.point.tobytes())


def encoded(
    data: ClientStore,
    new: ClientStore | None,
    secret: SecretKey,
    seen: Seen,
    site: SiteRules,
    *,
    start: int,
    stop: int,
    code: LagrangeCode,
    system: ResidueSystem,
    evaluators: Sequence[str],
) -> dict[str, CodedRows]:
    """Share out rows as they are seen; see `encode_rows`."""
    if new is not None:  # under noise of their own, even if they are those of the fit
        data, secret = new, secret.derive("new samples")
    check_grid(data, system, seen, site)
    rows = quantise(seen.rows(data.rows(start, stop)), system)  # Eq. (1)
    return share_out(
        rows,
        secret,
        seen.digest_of(data),
        start=start,
        code=code,
        system=system,
        evaluators=evaluators,
    )


def check_grid(data: ClientStore, system: ResidueSystem, seen: Seen, site: SiteRules) -> None:
    """Refuse one grid too many, and one that the rows do not fit."""
    # few: rows beyond a grid's range are refused, so that many grids would tell how far they lie
    grid = repr((system.scale, system.bound, seen)).encode()
    site.once().hold_few("grids of rows", grid, _GRIDS)
    _check_range(data, system, seen)


@lru_cache(maxsize=_GRIDS)
def _check_range(data: ClientStore, system: ResidueSystem, seen: Seen) -> None:
    """Refuse a grid that not all rows fit, whichever are asked for: one bit, not one a row."""
    for _, rows in data.blocks():
        quantise(seen.rows(rows), system)


def share_out(
    rows: Ints,
    secret: SecretKey,
    digest: str,
    *,
    start: int,
    code: LagrangeCode,
    system: ResidueSystem,
    evaluators: Sequence[str],
) -> dict[str, CodedRows]:
    """Evaluate the Lagrange polynomials of quantised rows (n, d) at every evaluator's point."""
    # A repeated step gives the same shares, never a second encoding. The same noise never hides
    # other rows, nor these at another scale, in another code or for other evaluators.
    key = secret.derive("noise segments", digest, repr(system), repr(code), repr(list(evaluators)))
    own = key.derive(start, start + len(rows))
    shares = code.encode(rows, system, own)  # Eqs. (2), (3): (evaluator, prime, row, column)
    size = {"start": start, "n_rows": len(rows), "n_columns": shares.shape[3]}
    sent = {}
    for j, name in enumerate(evaluators):
        residues, seed = shares[j], np.empty(0, dtype=np.uint8)
        if j < code.n_colluding:
            residues = shares[j, :, :0, :0]
            seed = np.frombuffer(code.seed(own, j).to_bytes(), dtype=np.uint8).copy()
        sent[name] = CodedRows(
            np.ascontiguousarray(residues), seed, fingerprint=key.fingerprint(), **size
        )
    return sent


def share_of(coded: CodedRows, code: LagrangeCode, system: ResidueSystem) -> np.ndarray:
    """Return an evaluator's residues (prime, row, column), expanded if it was sent a key."""
    if not coded.seed.size:
        return coded.residues
    seed = SecretKey.from_bytes(coded.seed.tobytes())
    return code.expand(seed, (coded.n_rows, coded.n_columns), system)


@dataclass(frozen=True)
class CodedDataset:
    """An evaluator's shares of the samples of all clients, in canonical order."""

    residues: np.ndarray  # (prime, sample, column)
    encoding: int
    hiding: HidingKey | None = None
    # where samples lack columns: which columns go together, and which samples (n,) have them
    parts: tuple[tuple[slice, np.ndarray], ...] = ()
    _operands: OrderedDict[tuple[int | str | None, ...], Operand] = field(
        default_factory=OrderedDict, repr=False, compare=False
    )

    def operand(
        self, rows: slice, system: ResidueSystem, engine: Engine, side: str, columns: slice = _ALL
    ) -> Operand:
        """Return a panel prepared for the engine; the last few are kept for the next blocks."""
        key = (rows.start, rows.stop, engine.name, side, columns.start)
        found = self._operands.pop(key, None)
        if found is None:
            panel = np.ascontiguousarray(self.residues[:, rows, columns])
            found = prepare(panel, system, engine, side)
        self._operands[key] = found
        if len(self._operands) > KEPT_OPERANDS * max(1, len(self.parts)):
            self._operands.popitem(last=False)
        return found

    def whole(self) -> np.ndarray:
        """Return the shares of all columns, which every sample must have."""
        if self.parts:  # where it lacks them, distances would be to 0, and tell the other's lengths
            raise DecodingError(
                "samples that lack columns have distances to each other in blocks of pairs alone; "
                "columns of landmarks or new samples were asked for. Start the run again."
            )
        return self.residues


@takes(code=AS_ANNOUNCED, hiding=by_message)
def assemble(
    parts: Mapping[str, Sequence[CodedRows]],
    positions: RowPositions,
    hiding: HidingKey | None,
    allowed: Mapping[str, GapsAllowed] | None = None,
    *,
    code: LagrangeCode,
    system: ResidueSystem,
    site: SiteRules = FREE,
) -> CodedDataset:
    """Put the shares of all clients, given in their order, into the canonical order.

    Clients of a group have the same columns of other samples; those of another one lie beside them.
    Where all have `allowed` it, samples may lack those of some groups.
    """
    site.check_all(parts)  # of some clients, distances would be of their columns alone
    if hiding is None and code.n_segments > 1:
        site.check_segments()
    groups = positions.groups.tolist()
    of_groups = zip(groups, parts.values(), strict=True)
    found = {group: share.n_columns for group, shares in of_groups for share in shares}
    widths = dict(sorted(found.items()))
    places = dict(zip(widths, np.cumsum([0, *widths.values()]), strict=False))
    n = 1 + int(positions.positions.max(initial=-1))
    residues = np.zeros((len(system.primes), n, sum(widths.values())), system.dtype)
    held = {group: np.zeros(n, dtype=np.int64) for group in groups}
    begin, seen = 0, []
    for (name, shares), end, group in zip(
        parts.items(), positions.ends.tolist(), groups, strict=True
    ):
        for share in shares:
            rows = begin + share.start + np.arange(share.n_rows)
            at = slice(places[group], places[group] + widths[group])
            residues[:, positions.positions[rows], at] = share_of(share, code, system)
            np.add.at(held[group], positions.positions[rows], 1)
            seen.append(f"{name}:{share.start}:{share.fingerprint}".encode())
        begin = end
    lacking = any((times == 0).any() for times in held.values())
    refused = allowed is None or not set(parts) <= set(allowed)
    if any((times > 1).any() for times in held.values()) or (lacking and refused):
        raise DecodingError(
            "each sample's columns must be shared by one client each; the server told places that "
            "leave some empty, or fill them twice. Start the run again."
        )
    if lacking and (hiding is not None or code.n_segments > 1):
        raise DecodingError(
            "samples that lack columns must be shared out in one segment; the run asks for "
            f"{code.n_segments}. Start the run again."
        )
    parts_of = ((slice(places[g], places[g] + widths[g]), held[g] > 0) for g in widths)
    if hiding is not None:  # all evaluators must hold the same key
        seen.append(hiding.key.tobytes())
    return CodedDataset(residues, hash64(*seen), hiding, tuple(parts_of) if lacking else ())


def _hiding(
    coded: CodedDataset,
    party: str,
    what: tuple[str | int, ...],
    block: tuple[int, int],
    code: LagrangeCode,
    system: ResidueSystem,
    evaluators: Sequence[str],
) -> HidingPolynomial | None:
    """Return an evaluator's hiding polynomial or None; `what` must differ for every computation."""
    if coded.hiding is None:
        return None
    # at other points, or of another code, the same words would tell each other
    key = SecretKey.from_bytes(coded.hiding.key.tobytes())
    key = key.derive(*what, repr([code, *evaluators]))
    return HidingPolynomial(code, system, list(evaluators).index(party), key, block)


@takes(code=AS_ANNOUNCED)
def answer_block(
    coded: CodedDataset,
    party: str,
    *,
    i: int,
    j: int,
    grid: SymmetricGrid,
    code: LagrangeCode,
    system: ResidueSystem,
    evaluators: Sequence[str],
    engine: str,
) -> CodedDistances:
    """Evaluate squared distances of two panels of coded rows, ``i <= j`` of the grid (Eq. 4).

    Those of two samples that lack columns are over what both have.
    """
    kernel = _engine(system, coded, engine)
    rows, others = grid.panel(i), grid.panel(j)
    what = ("blocks", coded.encoding, grid.tile, grid.n)
    mask = _hiding(coded, party, what, (i, j), code, system, evaluators)
    total: np.ndarray | None = None
    for columns, held in coded.parts or ((_ALL, None),):
        left = coded.operand(rows, system, kernel, "left", columns)
        right = coded.operand(others, system, kernel, "right", columns)
        found = coded_distances(left, right, system, kernel, hiding=mask, symmetric=i == j)
        if held is not None:
            found *= held[rows, None] & held[others]
        total = found if total is None else _added(total, found, system)
    assert total is not None
    return CodedDistances(total, coded.encoding)


def _added(total: np.ndarray, found: np.ndarray, system: ResidueSystem) -> np.ndarray:
    """Add residues (prime, row, column) to others, in place."""
    for whole, part, p in zip(total, found, system.primes, strict=True):
        whole[:] = np.add(whole, part, dtype=np.uint32) % p  # below 2**25
    return total


@takes(code=AS_ANNOUNCED)
def answer_columns(
    coded: CodedDataset,
    landmarks: Landmarks,
    party: str,
    *,
    start: int,
    stop: int,
    turn: int,
    code: LagrangeCode,
    system: ResidueSystem,
    evaluators: Sequence[str],
    engine: str,
) -> CodedDistances:
    """Evaluate squared distances of coded rows [start, stop) to the landmarks of round `turn`."""
    kernel = _engine(system, coded, engine)
    count = len(system.primes)  # or fewer than the rows were shared with
    left = np.ascontiguousarray(coded.whole()[:count, start:stop])
    right = np.ascontiguousarray(coded.residues[:count, landmarks.positions])
    what = ("columns", coded.encoding, turn, landmarks.positions.tobytes().hex())
    mask = _hiding(coded, party, what, (start, stop), code, system, evaluators)
    residues = coded_distances(left, right, system, kernel, hiding=mask)
    return CodedDistances(residues, coded.encoding)


def describe_new(new: ClientStore) -> NewSamples:
    """Report to the caller how many new samples a client has."""
    return NewSamples(new.n_samples)


@takes(code=AS_ANNOUNCED)
def answer_new(
    coded: CodedDataset,
    new: CodedRows | CodedDataset,
    party: str,
    *,
    start: int,
    stop: int,
    panel: str,
    first: int = 0,
    last: int | None = None,
    code: LagrangeCode,
    system: ResidueSystem,
    evaluators: Sequence[str],
    engine: str,
) -> CodedDistances:
    """Evaluate squared distances of clustered samples [start, stop) to a `panel` of new ones."""
    kernel = _engine(system, coded, engine)
    left = np.ascontiguousarray(coded.whole()[:, start:stop])
    if isinstance(new, CodedDataset):
        right, encoding = new.whole()[:, first:last], new.encoding
    else:
        right, encoding = share_of(new, code, system), new.fingerprint
    # every panel has its own hiding polynomial; other samples may come under the same name
    what = ("new", coded.encoding, panel, encoding, first, str(last))
    mask = _hiding(coded, party, what, (start, stop), code, system, evaluators)
    residues = coded_distances(left, np.ascontiguousarray(right), system, kernel, hiding=mask)
    return CodedDistances(
        residues, hash64(coded.encoding.to_bytes(8, "little"), str(encoding).encode())
    )


def _engine(system: ResidueSystem, coded: CodedDataset, name: str) -> Engine:
    prefer = None if name == "auto" else name
    return select_engine(system, coded.residues.shape[2], prefer=prefer)
