"""The centre from which samples are measured, and the grid to which they are rounded.

Samples that lie much farther from the origin than apart are centred on their mean. The grid is as
fine as the smallest distances that labels depend on require; finer grids take more primes.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from daskfc.arrays import Floats
from daskfc.clustering import Clusterer
from daskfc.coding import LagrangeCode, ResidueSystem, choose_residues
from daskfc.errors import OverflowRefused
from daskfc.federation import Federation, Local, PerClient, Sent
from daskfc.federation.methods.sample_keys import digest_keys
from daskfc.secure.distances.parties import by_columns, party, server
from daskfc.secure.distances.parties.messages import GapReport, PublicPlan, SampleSummary
from daskfc.secure.distances.parties.server import RowPlan
from daskfc.secure.sums import Centre, agree_on_centre, open_sum
from daskfc.stores import ClientStore

EQUAL = 1e-18  # of the squared radius: float64 cannot distinguish nearer samples
_ROUNDING = 1e-9  # ours: of a radius
LEAST = 1e-2 / 12  # ours: of the squared radius; labels seldom depend on smaller distances


@dataclass(frozen=True)
class Held:
    """Which columns clients hold: those of a group, from 0, have the same ones.

    With `balance` each client's columns count alike, in units of their mean squared distance, or by
    `weights`, which each client has for itself. Where samples may lack columns, by `gaps`, what two
    of them share is counted by the clients' `shares`, or else in columns.
    """

    groups: Mapping[str, int]
    balance: bool | str = False
    weights: PerClient[Local[float]] | None = None
    gaps: str = "refuse"
    shares: Mapping[str, float] | None = None


@dataclass(frozen=True)
class Place:
    """The order and range of the samples, relative to a centre."""

    plan: Local[RowPlan]  # at the server
    public: PublicPlan  # at the caller
    centre: Sent[Centre] | None = None  # at the clients; None is the origin
    of_columns: tuple[Any, ...] | None = None  # who may centre, `balance` and weights
    n_groups: int = 1  # of clients with the same columns
    ask: Callable[..., PerClient[Sent[SampleSummary]]] | None = None  # has columns described
    gaps: GapReport | None = None  # where samples lack columns

    @property
    def stretch(self) -> float:
        """By how much more a squared distance must be resolved, where some are scaled."""
        return 1.0 if self.gaps is None else self.gaps.stretch

    def error_of(self, squared: float, system: ResidueSystem) -> float:
        """Return the error that a grid may leave in a squared distance of that size."""
        n_features = self.public.n_features
        return self.stretch * system.error_of(squared / self.stretch, n_features)

    @property
    def encoding(self) -> tuple[Any, ...]:
        """The step by which clients share out their samples, and its arguments."""
        if self.of_columns is None:
            return party.encode_rows, self.centre
        return by_columns.encode_columns, *self.of_columns


def place_of_samples(
    federation: Federation, code: LagrangeCode, max_abs: float | None, held: Held | None = None
) -> Place:
    """Have clients describe their samples; centre these on their mean where it is far from 0."""
    if held is not None:
        return _place_of_columns(federation, held, max_abs)
    summaries = federation.ask(party.describe, digest_keys(federation), max_abs=max_abs)
    plan = federation.on_server(server.plan, summaries)
    public = federation.publish(server.public_plan, plan)
    if public.radius <= party.FAR * public.spread:
        return Place(plan, public)
    sums = open_sum(federation, n_colluding=code.n_colluding)
    step = max((public.spread or public.radius) / party.FAR, 1.0 if public.grids else 0.0)
    centre = federation.tell(agree_on_centre(federation, sums, step=step))
    reached = federation.ask(party.reach_from, centre)
    plan = federation.on_server(server.plan_from_centre, plan, reached)
    return Place(plan, federation.publish(server.public_plan, plan), centre)


def _place_of_columns(federation: Federation, held: Held, max_abs: float | None) -> Place:
    """Have clients describe columns; who shares its own with nobody centres them for itself."""
    sizes = Counter(held.groups.values())
    centre = PerClient({n: max_abs is None and sizes[g] == 1 for n, g in held.groups.items()})
    seen = (centre, held.balance, held.weights)
    how: dict[str, Any] = dict(zip(("centre", "balance", "weight"), seen, strict=True))
    keys = digest_keys(federation)
    ask = partial(federation.ask, by_columns.describe_columns, keys, max_abs=max_abs, **how)
    if held.gaps == "refuse":
        plan = federation.on_server(by_columns.plan_of_columns, ask())
        return Place(
            plan, federation.publish(server.public_plan, plan), None, seen, len(sizes), ask
        )
    plan = federation.on_server(
        by_columns.plan_of_columns, ask(), gaps=held.gaps, weights=held.shares
    )
    told = federation.publish(server.told_gaps, plan)
    public = federation.publish(server.public_plan, plan)
    return Place(plan, public, None, seen, len(sizes), ask, told if told.lacking else None)


def place_of_new_columns(
    federation: Federation, place: Place, new: PerClient[Local[ClientStore]]
) -> Place:
    """Have clients describe their columns of new samples, as those of the fit."""
    assert place.ask is not None
    plan = federation.on_server(by_columns.plan_of_new_columns, place.ask(new=new), place.plan)
    return replace(place, plan=plan, public=federation.publish(server.public_plan, plan))


def choose_grid(
    federation: Federation,
    code: LagrangeCode,
    place: Place,
    *,
    tolerance: float,
    resolve: float | None,
) -> ResidueSystem:
    """Choose scale and primes; where none suffice, clients refuse their far samples."""
    public = place.public
    if resolve is None and public.radius > 0:
        resolve = LEAST * public.radius**2
    resolve = None if resolve is None else resolve / place.stretch
    try:
        return choose_residues(
            radius=public.radius,
            n_features=public.n_features,
            tolerance=tolerance,
            grids=public.grids,
            n_columns=code.n_columns(public.n_features),
            n_points=code.n_points,
            resolve=resolve,
        )
    except OverflowRefused as refused:
        refuse_far_samples(federation, place, str(refused).partition(". ")[0])
        raise


def squared_lengths(
    federation: Federation, code: LagrangeCode, place: Place, clusterer: Clusterer
) -> Local[Floats]:
    """Return, at the server, the samples' squared lengths, which clients add up over columns."""
    assert place.of_columns is not None
    order = federation.on_server(by_columns.common_order, place.plan)
    federation.wait(order)  # before a sum over samples that are not the same
    own = federation.on_clients(by_columns.squared_lengths, *place.of_columns, clusterer=clusterer)
    total = open_sum(federation, n_colluding=code.n_colluding).sum(own)
    return federation.on_server(by_columns.lengths_in_order, total, order)


def nearest_apart(federation: Federation, place: Place) -> float:
    """Return a small squared distance between different samples of one client, else `EQUAL`."""
    if place.of_columns is None:
        told = federation.ask(party.nearest_apart)
    else:
        told = federation.ask(by_columns.columns_apart, *place.of_columns)
    found = federation.publish(server.nearest_of_all, told).squared
    return found if math.isfinite(found) else EQUAL * place.public.radius**2


def refuse_far_samples(federation: Federation, place: Place, why: str) -> None:
    """Have clients with samples too far away refuse them by column name, never by value."""
    step: Callable[..., None] = party.refuse_far_samples
    seen: tuple[Any, ...] = (place.centre,)
    radius = place.public.radius
    if place.of_columns is not None:  # squared radii add up: the largest is the mean or more
        step, seen = by_columns.refuse_far_columns, place.of_columns
        radius *= (1.0 - _ROUNDING) / math.sqrt(place.n_groups)
    federation.wait(federation.on_clients(step, *seen, radius=radius, why=why))
