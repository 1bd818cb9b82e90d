"""Check a pipeline, find the clients' stores by two other files, and open the federation."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from daskfc.deploy import ClusterConfig, load_cluster
from daskfc.errors import InvalidInput
from daskfc.federation import Federation
from daskfc.federation.driver.opening import who_takes_part
from daskfc.federation.driver.stage import Stage
from daskfc.runs.pipeline.config import Pipeline, load_pipeline
from daskfc.runs.pipeline.methods import CheckedPipeline, check_pipeline
from daskfc.stores import ClientStore, load_storage
from daskfc.stores.store.together import number_of_samples

Progress = Callable[[str, int, int], None]
"""``progress(stage, done, total)``; ``total`` is 0 where it is not known."""

Source = str | PathLike[str] | Mapping[str, Any]
"""A YAML file, or what it would hold."""


@dataclass(frozen=True)
class Located:
    """A pipeline, and what is known of its parties before any of them starts.

    `record` is for ``run.json``: ``storage`` (absolute URLs), ``contents`` (digest of each store),
    ``cluster``, ``n_clients``, ``n_samples``; `stores` is None where they cannot be read from here.
    """

    checked: CheckedPipeline
    cluster: ClusterConfig
    record: dict[str, Any]
    stores: Mapping[str, ClientStore] | None = None


def locate(
    pipeline: Source | Pipeline,
    storage: Source | None,
    cluster: Source | None,
    *,
    params: Mapping[str, Any] | None = None,
    overrides: Sequence[str] = (),
    progress: Progress | None = None,
) -> Located:
    """Check a pipeline, then find every client's store, build missing ones, and check it by these.

    A pipeline that imputes has them built with gaps. On a running cluster only the clients are
    named.
    """
    # First by itself: stores may take a while to build.
    checked = check_pipeline(load_pipeline(pipeline, params=params, overrides=overrides))
    where = load_cluster(cluster)
    found: dict[str, Any] = {"cluster": where.model_dump(mode="json")}
    loaded = None
    if storage is not None:
        loaded = load_storage(storage if isinstance(storage, Mapping) else Path(storage))
    if where.cluster == "existing":
        # The sites' own stores may be out of reach here, so only the clients' names count.
        names = list(who_takes_part(where, loaded.client_names() if loaded else None))
        found |= {"storage": {"clients": names}, "contents": {}, "n_clients": len(names)}
        return Located(check_pipeline(checked.pipeline, n_clients=len(names)), where, found)
    if loaded is None:
        raise InvalidInput(
            "a run on workers that it starts itself needs to know whose data. Give --storage "
            f"{_storage_here()} (in Python: storage=...)."
        )

    def told(done: int, total: int) -> None:
        if progress is not None:
            progress(Stage("building the stores", share=0.0), done, total)

    imputes = "impute" in [name for name, _ in checked.prepare.steps]
    urls = loaded.ensure(progress=told, gaps=imputes)
    stores = loaded.open()
    sizes: dict[str, Any] = {"n_clients": len(stores), "n_samples": number_of_samples(stores)}
    digests = {name: store.attributes.get("content_digest") for name, store in stores.items()}
    found |= {
        "storage": {"clients": {name: {"store": url} for name, url in urls.items()}},
        "contents": digests,
        **sizes,
    }
    return Located(check_pipeline(checked.pipeline, **sizes, stores=stores), where, found, stores)


def _storage_here() -> str:
    """Return the storage files that are where an example puts its own, for a sentence."""
    return " or ".join(sorted(map(str, Path("storage").glob("*.yaml")))[:3]) or "FILE"


def _check_unchanged(record: Mapping[str, Any]) -> None:
    """Raise if a store was written again since the run began."""
    for name, digest in record["contents"].items():
        url = record["storage"]["clients"][name]["store"]
        if ClientStore.open(url).attributes.get("content_digest") != digest:
            raise InvalidInput(
                f"client {name!r}: the store {url} was written again since the run began. Restore "
                "it, or start a new run."
            )


def open_federation(record: Mapping[str, Any], checked: CheckedPipeline) -> Federation:
    """Start or join a run's workers and check them; raw data may move only if a method needs it."""
    _check_unchanged(record)
    allow_raw = any(one.needs_raw for one in checked.estimators.values())
    where = load_cluster(record["cluster"])
    clients = (record["storage"] or {}).get("clients", {})
    if where.cluster == "local":
        urls = {name: client["store"] for name, client in clients.items()}
        return Federation.local(urls, cluster=where, allow_raw=allow_raw)
    named = {"clients": list(clients) or None, "name": record["run_id"]}
    federation = Federation.connect(where, allow_raw=allow_raw, **named)
    try:
        _check_same_builds(record, federation)
        check_pipeline(
            checked.pipeline, n_clients=len(federation.clients), columns=federation.contract.columns
        )
    except BaseException:
        federation.close()
        raise
    return federation


def _check_same_builds(record: Mapping[str, Any], federation: Federation) -> None:
    """Raise if a site's store was written again since the run began."""
    for name, build in federation.contract.builds.items():
        if record.get("builds", {}).get(name, build) != build:
            raise InvalidInput(
                f"client {name!r}: its store was written again since the run began. Restore it, or "
                "start a new run."
            )
