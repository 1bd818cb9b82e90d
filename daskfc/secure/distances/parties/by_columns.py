"""Clients that hold columns of samples, the same ones in a group: distances add up over columns.

Shares of a sample's columns lie side by side at the evaluators, as if one client had sent them.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, reduce
from operator import and_
from typing import Any

import numpy as np

from daskfc.arrays import Floats, Ints
from daskfc.clustering import Clusterer, make_clusterer
from daskfc.clustering.clusterers.local_labels import spectral_labels
from daskfc.clustering.views.order import order_of_points
from daskfc.coding import LagrangeCode, ResidueSystem, SecretKey, detect_grids
from daskfc.errors import InvalidInput, OverflowRefused
from daskfc.federation.methods.samples import SampleDigests, mixed_digests
from daskfc.federation.party.site_rules import FREE, SiteRules
from daskfc.federation.steps.rules import (
    Announced,
    Rule,
    as_announced,
    by_message,
    some_clients,
    takes,
)
from daskfc.linalg import squared_row_norms
from daskfc.secure.distances.parties.choice import AS_ANNOUNCED
from daskfc.secure.distances.parties.gaps import gaps_of
from daskfc.secure.distances.parties.messages import (
    CodedRows,
    NearestApart,
    SampleSummary,
    ViewModularity,
)
from daskfc.secure.distances.parties.party import FAR, apart, described, encoded, refuse_far
from daskfc.secure.distances.parties.seen import AS_THEY_ARE, Seen, hash64
from daskfc.secure.distances.parties.server import RowPlan
from daskfc.secure.sums import Total
from daskfc.stores import ClientStore

_LEAST = 0.01  # ours: of a weight; columns without any groups count a little all the same


@lru_cache(maxsize=4)
def _own_view(data: ClientStore, centre: bool, balance: bool) -> Seen:
    """Return how a client sees its columns, by what nobody learns.

    With `centre` from a point of their grid near the samples, where these lie far from the origin;
    with `balance` in units of the root of their mean squared distance.
    """
    if not (centre or balance):
        return AS_THEY_ARE
    origin = data.rows(0, 1)[0] if data.n_samples else np.zeros(data.n_features)
    total, squares, radius2, grids = np.zeros(data.n_features), 0.0, 0.0, -1
    least, most = np.full(data.n_features, np.inf), np.full(data.n_features, -np.inf)
    for _, rows in data.blocks():
        total += (rows - origin).sum(axis=0)
        squares += float(np.square(rows - origin).sum())
        least, most = np.minimum(least, rows.min(axis=0)), np.maximum(most, rows.max(axis=0))
        radius2 = max(radius2, float(np.square(rows).sum(axis=1).max()))
        grids &= detect_grids(rows)
    mean = total / max(1, data.n_samples)
    spread, radius = float(np.linalg.norm((most - least) / 2)), math.sqrt(radius2)
    if not math.isfinite(radius):
        return AS_THEY_ARE  # it is refused
    apart = 2.0 * (squares / max(1, data.n_samples) - float(mean @ mean))
    if balance and (most > least).any() and not apart > 0:
        raise OverflowRefused(
            f"the columns of client {data.name!r} cannot be balanced: squares of their "
            "differences are 0 in float64. Bring them to another unit."
        )
    point = b""
    if centre and radius > 0.0 and spread == 0.0:
        point = origin.tobytes()  # all samples are equal: distances are 0 whatever the point
    elif centre and radius > FAR * spread:
        step = 2.0 ** math.floor(math.log2(spread / FAR))
        step = max(step, 1.0 if grids else 0.0)
        point = (np.rint((origin + mean) / step) * step).tobytes()
    return Seen(point, 1.0 / math.sqrt(apart) if balance and apart > 0 else 1.0)


def own_modularity(data: ClientStore, *, n_clusters: int, seed: int) -> float:
    """Return the modularity of groups that the client finds in its own columns, at least 0.01."""
    rows = data.rows(0, data.n_samples)
    ordered = rows[order_of_points(rows).places]  # whatever the order of the store
    return max(spectral_labels(ordered, n_clusters, seed=seed).score, _LEAST)


def told_modularity(weight: float) -> ViewModularity:
    """Report to the caller the weight of the client's columns."""
    return ViewModularity(weight)


def _seen(
    data: ClientStore, centre: bool, balance: bool | str, weight: float | None, site: SiteRules
) -> Seen:
    # one: distances in two units would tell those of one client's columns
    site.once().hold("view of columns", "", repr((centre, balance, weight)).encode())
    seen = _own_view(data, centre, bool(balance))
    return seen if weight is None else replace(seen, factor=seen.factor * math.sqrt(weight))


@takes(max_abs=as_announced("max_abs"), balance=as_announced("balance"), weight=by_message)
def describe_columns(
    data: ClientStore,
    key: SecretKey,
    durable_secret: SecretKey,
    *,
    max_abs: float | None,
    centre: bool,
    balance: bool | str,
    weight: float | None = None,
    new: ClientStore | None = None,
    site: SiteRules = FREE,
) -> SampleSummary:
    """Report the client's samples, or `new` ones, as `describe` does, as it sees its samples."""
    seen = _seen(data, centre, balance, weight, site)
    if new is not None:  # under another key: the server sees no ids of the fit in them
        data, key = new, key.derive("new samples")
    return described(data, key, durable_secret, max_abs, seen)


@takes(balance=as_announced("balance"), weight=by_message)
def columns_apart(
    data: ClientStore,
    centre: bool,
    balance: bool | str,
    weight: float | None = None,
    *,
    site: SiteRules = FREE,
) -> NearestApart:
    """Report a small squared distance between different samples in the client's columns."""
    return apart(data, _seen(data, centre, balance, weight, site))


@takes(balance=as_announced("balance"), weight=by_message)
def refuse_far_columns(
    data: ClientStore,
    centre: bool,
    balance: bool | str,
    weight: float | None = None,
    *,
    radius: float,
    why: str,
    site: SiteRules = FREE,
) -> None:
    """Refuse samples that lie far in the client's columns; see `refuse_far_samples`."""
    refuse_far(data, _seen(data, centre, balance, weight, site), radius, why, site)


@takes(
    balance=as_announced("balance"), weight=by_message, code=AS_ANNOUNCED, evaluators=some_clients
)
def encode_columns(
    data: ClientStore,
    secret: SecretKey,
    centre: bool,
    balance: bool | str,
    weight: float | None = None,
    new: ClientStore | None = None,
    *,
    start: int,
    stop: int,
    code: LagrangeCode,
    system: ResidueSystem,
    evaluators: Sequence[str],
    site: SiteRules = FREE,
) -> dict[str, CodedRows]:
    """Share out the client's columns of some samples, or `new` ones; see `encode_rows`."""
    how: dict[str, Any] = {"code": code, "system": system, "evaluators": evaluators}
    seen = _seen(data, centre, balance, weight, site)
    return encoded(data, new, secret, seen, site, start=start, stop=stop, **how)


def _takes_the_origin(clusterer: Clusterer, asked: Announced) -> bool:
    announced = make_clusterer(asked.parameters.get("clusterer", ""))
    return clusterer == announced and announced.from_origin


@takes(
    balance=as_announced("balance"),
    weight=by_message,
    clusterer=Rule("the one that was announced, without centring", _takes_the_origin),
)
def squared_lengths(
    data: ClientStore,
    centre: bool,
    balance: bool | str,
    weight: float | None = None,
    *,
    clusterer: Clusterer,
    site: SiteRules = FREE,
) -> Floats:
    """Return the squared length of each sample in the client's columns, (n, 1), in their unit."""
    unit = _seen(data, centre, balance, weight, site).factor
    found = np.empty((data.n_samples, 1))
    for start, rows in data.blocks():
        found[start : start + len(rows), 0] = squared_row_norms(rows * unit)
    return found


def common_order(plan: RowPlan) -> Ints:
    """Return the place of each client's samples, the same of all, or refuse."""
    first, *others = plan.positions.items()
    for name, places in others:
        if not np.array_equal(places, first[1]):
            raise InvalidInput(
                f"clients must have the samples in one order, to add up their lengths; {name!r} "
                f"has another than {first[0]!r}. Write one of the stores again."
            )
    return first[1]


def lengths_in_order(total: Total, places: Ints) -> Floats:
    """Return the squared length of each sample over all columns, in canonical order."""
    found = np.empty(len(places))
    found[places] = np.maximum(total.values[:, 0], 0.0)  # below 0 by rounding only
    return found


def plan_of_columns(
    parts: Mapping[str, SampleSummary],
    *,
    gaps: str = "refuse",
    weights: Mapping[str, float] | None = None,
) -> RowPlan:
    """Order samples of which clients hold columns, the same ones in a group.

    Samples that lack columns are refused, unless `gaps` says otherwise: see `gaps_of`. What two
    share is counted by clients' `weights`, or else in columns.
    """
    numbers: dict[int, int] = {}  # by what clients say, not the caller
    groups = {name: numbers.setdefault(p.columns, len(numbers)) for name, p in parts.items()}
    digests = mixed_digests({n: SampleDigests(p.digests, p.share) for n, p in parts.items()})
    of_group: dict[int, list[str]] = {g: [] for g in range(len(numbers))}
    for name in parts:
        of_group[groups[name]].append(name)
    every = np.unique(np.concatenate(list(digests.values())))
    held = np.empty((len(every), len(of_group)), dtype=np.bool_)
    for g, names in of_group.items():
        found, times = np.unique(np.concatenate([digests[n] for n in names]), return_counts=True)
        if (times > 1).any():
            raise InvalidInput(
                f"a sample's columns must be held by one client each; {int((times > 1).sum())} "
                f"samples have those of {', '.join(names)} twice. Drop the copies."
            )
        held[:, g] = np.isin(every, found, assume_unique=True)
        missing = int((held[:, g] != held[:, 0]).sum())
        if missing and gaps == "refuse":
            raise InvalidInput(
                f"all columns of a sample must be held by somebody; {missing} samples have those "
                f"of {', '.join(names)} and lack others, or the other way round. Link the records "
                "first, leave these samples out, or give split='grid' and gaps='scale'."
            )
    most = [[parts[name] for name in names] for names in of_group.values()]
    radius, spread = (
        math.hypot(*(max(getattr(part, what) for part in group) for group in most))
        for what in ("radius", "spread")
    )
    contents = sorted(f"{n}:{part.content}:{part.share}:{groups[n]}" for n, part in parts.items())
    n_columns = np.array([group[0].n_features for group in most], dtype=np.int64)
    count = [n_columns[g] if weights is None else weights[of_group[g][0]] for g in of_group]
    lacking = gaps_of(held, n_columns, np.array(count, dtype=np.float64), radius, gaps)
    if lacking is not None and lacking.report.apart and radius > FAR * spread:
        raise InvalidInput(
            "columns that several clients hold must not lie farther from 0 than 16 times their "
            "range where pairs without a common column are put by it; some do. Give "
            "'prepare: [standardise]', or leave out samples of few columns."
        )
    told = b"" if lacking is None else lacking.kinds.tobytes() + lacking.factors.tobytes()
    return RowPlan(
        positions={name: np.searchsorted(every, own) for name, own in digests.items()},
        n_features=sum(group[0].n_features for group in most),
        radius=radius,
        spread=spread,
        grids=reduce(and_, (part.grids for part in parts.values())),
        problem=hash64(every.tobytes(), *map(str.encode, contents), repr(radius).encode(), told),
        groups=groups,
        radii={name: max(part.radius for part in most[groups[name]]) for name in parts},
        gaps=lacking,
    )


def plan_of_new_columns(parts: Mapping[str, SampleSummary], fitted: RowPlan) -> RowPlan:
    """Order new samples, which reach no farther than the fitted ones: the primes hold no more."""
    plan = plan_of_columns(parts)
    if plan.radius > fitted.radius:
        far = ", ".join(name for name, part in parts.items() if part.radius > fitted.radii[name])
        raise OverflowRefused(
            f"new samples must lie within the range of those of fit, which the code of this run "
            f"holds; those of {far} reach farther in their columns. Leave such samples out, or fit "
            "again with them."
        )
    return plan
