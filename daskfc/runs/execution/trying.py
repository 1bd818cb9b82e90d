"""Run what was suggested, and say which run to take, without labels."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from os import PathLike
from typing import Any

from daskfc.errors import DaskfcError, InvalidInput
from daskfc.runs.execution.run import Run, run
from daskfc.runs.pipeline.parties import Progress, Source
from daskfc.runs.planning.suggestion import Proposal, Suggestion

_SEEDS = (0, 1, 2)  # of methods whose fits are compared with each other
_FIGURES = {
    "modularity": "its samples have their nearest neighbours most often in their own cluster",
    "stability": "its fits with other seeds agree most",
}
_AS_GOOD = 0.02  # ours: figures that are nearer than this count as equal


@dataclass(frozen=True)
class Tried:
    """What became of all proposals.

    Attributes
    ----------
    runs : tuple of Run or None
        In the proposals' order; None where a run broke off or was refused.
    taken : int or None
        Which of them to take, from 0; None where all failed.
    why : str
        Why, in a sentence or two, and what failed.
    """

    runs: tuple[Run | None, ...]
    taken: int | None
    why: str


def try_out(
    suggestion: Suggestion,
    *,
    storage: Source,
    cluster: Source | None = None,
    runs_dir: str | PathLike[str] = "runs",
    progress: Progress | None = None,
) -> Tried:
    """Run every proposal, and take the one whose clusters hold together best.

    Where all servers have distances, that is the largest modularity: how much more often nearest
    neighbours are in one cluster than by chance. Else it is stability: how well fits with three
    seeds agree. Of figures within 0.02 the earlier proposal's is taken. Runs with fewer than two
    clusters have no figure, and are not taken.

    Parameters
    ----------
    suggestion : Suggestion
        What `suggest` returned.
    storage, cluster, runs_dir, progress
        As for `daskfc.run`.

    Returns
    -------
    Tried

    Raises
    ------
    InvalidInput
        Where nothing was suggested.

    Notes
    -----
    Privacy: the runs' own, and each run is one more. No labels are looked at.
    """
    proposals = suggestion.proposals
    if not proposals:
        raise InvalidInput("nothing is suggested for this storage, so that nothing can be tried.")
    some = f"{datetime.now():%Y%m%d-%H%M%S}-{uuid.uuid4().hex[:4]}"
    compared = all(_tells_distances(one) for one in proposals)
    runs: list[Run | None] = []
    failed: list[str] = []
    for one in proposals:
        pipeline = {**one.pipeline, **({} if compared else {"seeds": list(_SEEDS)})}
        where: dict[str, Any] = {"storage": storage, "cluster": cluster, "runs_dir": runs_dir}
        try:
            runs.append(run(pipeline, **where, name=f"{one.slug}-{some}", progress=progress))
        except DaskfcError as error:
            runs.append(None)
            failed.append(f"{one.name} failed: {error}")
    qualities = [None if one is None else one.summary["quality"] for one in runs]
    taken, why = _taken([one.name for one in proposals], qualities)
    return Tried(tuple(runs), taken, " ".join([why, *failed]))


def _tells_distances(one: Proposal) -> bool:
    params = one.pipeline["params"]
    return bool(one.pipeline["method"] == "OmniFC" and params.get("reveal") is None)


def _taken(names: Sequence[str], qualities: Sequence[Any]) -> tuple[int | None, str]:
    """Return which proposal to take, and why."""
    there = {i: one for i, one in enumerate(qualities) if one and len(one["sizes"]) > 1}
    for figure, meaning in _FIGURES.items():
        told = {i: one[figure] for i, one in there.items() if one.get(figure) is not None}
        if told and len(told) == len(there):
            taken = next(i for i, value in told.items() if value >= max(told.values()) - _AS_GOOD)
            listed = ", ".join(f"{names[i]} {value:.3f}" for i, value in told.items())
            return taken, f"{names[taken]}: {meaning} ({figure}: {listed})."
    if not there:
        return None, "None: no run found two clusters."
    first = next(iter(there))
    return first, f"{names[first]}: the first of them, as no figure is known of all."
