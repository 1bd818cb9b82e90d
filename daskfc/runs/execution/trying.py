"""Run what was suggested, and say which run to take, without labels."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from os import PathLike
from typing import Any

from daskfc.errors import InvalidInput
from daskfc.runs.execution.run import Run, run
from daskfc.runs.pipeline.parties import Progress, Source
from daskfc.runs.planning.suggestion import Suggestion

_SEEDS = (0, 1, 2)  # of methods whose fits are compared with each other
_AS_GOOD = 0.02  # ours: figures that are nearer than this count as equal


@dataclass(frozen=True)
class Tried:
    """Runs of all proposals, which of them to take, counted from 0, and why, in a sentence."""

    runs: tuple[Run, ...]
    taken: int
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

    Where the server has distances, that is the largest modularity: how much more often nearest
    neighbours are in one cluster than by chance. Else it is stability: how well fits with three
    seeds agree. Of figures within 0.02 the earlier proposal's is taken.

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
    RunFailed
        When a run breaks off.

    Notes
    -----
    Privacy: the runs' own, and each run is one more. No labels are looked at.
    """
    if not suggestion.proposals:
        raise InvalidInput("nothing is suggested for this storage, so that nothing can be tried.")
    now = datetime.now().strftime("%Y%m%d-%H%M%S")
    runs = []
    for one in suggestion.proposals:
        pipeline: dict[str, Any] = dict(one.pipeline)
        if pipeline["method"] != "OmniFC":
            pipeline["seeds"] = list(_SEEDS)
        name = f"{re.sub(r'[^a-z0-9]+', '-', one.name.lower())}-{now}"
        where: dict[str, Any] = {
            "storage": storage,
            "cluster": cluster,
            "runs_dir": runs_dir,
            "name": name,
        }
        runs.append(run(pipeline, **where, progress=progress))
    names = [one.name for one in suggestion.proposals]
    return Tried(tuple(runs), *_taken(names, [one.summary["quality"] for one in runs]))


def _taken(names: Sequence[str], qualities: Sequence[Any]) -> tuple[int, str]:
    """Return which proposal to take, and why."""
    for figure, meaning in (
        ("modularity", "its samples have their nearest neighbours most often in their own cluster"),
        ("stability", "its fits with other seeds agree most"),
    ):
        values = [quality.get(figure) for quality in qualities]
        told = [value for value in values if value is not None]
        if len(told) < len(values):
            continue
        taken = next(i for i, value in enumerate(values) if value >= max(told) - _AS_GOOD)
        listed = ", ".join(f"{n} {value:.3f}" for n, value in zip(names, values, strict=True))
        return taken, f"{names[taken]}: {meaning} ({figure}: {listed})."
    return 0, f"{names[0]}: the first that was suggested, as no figure is known of all."
