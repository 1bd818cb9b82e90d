"""Make the requests of a pipeline to the sites: one for each start of each method."""

from dataclasses import replace

from daskfc.federation.driver.requests import request_for
from daskfc.runs.pipeline.config import Pipeline
from daskfc.runs.pipeline.methods import check_pipeline
from daskfc.site import BETWEEN_SITES, RunRequest

_ASK_NOTHING = ("log", "clip", "smooth")  # steps of a preparation that need nothing from any client


def requests_of(
    pipeline: Pipeline, *, submitter: str | None = None, n_clients: int | None = None
) -> tuple[RunRequest, ...]:
    """Return all requests of a pipeline to every site."""
    checked = check_pipeline(pipeline)
    tried = list(checked.choices.values()) or [checked]
    prepare = checked.prepare
    # Preparations and profiles are masked sums, whatever the method is.
    smallest = pipeline.smallest or BETWEEN_SITES
    asks = any(name not in _ASK_NOTHING for name, _ in prepare.steps)
    summed = asks or pipeline.profiles is not None
    preparation = tuple({name: dict(given)} for name, given in prepare.steps)
    found = []
    for method in checked.estimators:
        for one in tried:
            parameters = one.estimators[method].get_params(deep=False)
            found.append(
                request_for(
                    type(one.estimators[method]),
                    parameters,
                    submitter=submitter,
                    n_clients=n_clients,
                    clear_ids=pipeline.ids == "clear",
                    **({"masked": True} if summed else {}),
                    preparation=preparation,
                    smallest=smallest,
                )
            )
    task = RunRequest(
        "profiles", submitter=submitter, n_clients=n_clients, masked=True, smallest=smallest
    )
    if asks:
        asked = {"noised": prepare.noised}
        found.append(replace(task, method="preparation", parameters=asked))
    if pipeline.profiles is not None:
        found.append(task)
    return tuple(found)
