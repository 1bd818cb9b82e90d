"""Plan a run: what it would send, keep in memory and reveal, before anything runs."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
from sklearn.base import clone

from daskfc.deploy import ClusterConfig, LocalCluster
from daskfc.errors import DaskfcError, InvalidInput, ResourceRefused
from daskfc.federation import SERVER, FederatedClusterer
from daskfc.federation.driver.agreement import agree_on_pseudonyms
from daskfc.federation.driver.opening import who_takes_part
from daskfc.federation.identity.pseudonyms import Pseudonyms
from daskfc.federation.messages.declaration import server_workers
from daskfc.federation.party.process_memory import PROCESS_BYTES, USABLE, fits
from daskfc.federation.planning.rehearsal import Assumption, Rehearsal
from daskfc.federation.planning.sizes import NotRehearsed
from daskfc.federation.planning.traffic import Network
from daskfc.html_tables import html_table
from daskfc.runs.outcome.communication import communication_of, ledger_frame
from daskfc.runs.outcome.evaluate import evaluation_labels
from daskfc.runs.outcome.folder import without_nan
from daskfc.runs.pipeline.config import Pipeline
from daskfc.runs.pipeline.methods import CheckedPipeline, check_pipeline
from daskfc.runs.pipeline.parties import Progress, Source, locate
from daskfc.runs.pipeline.promises import privacy_of
from daskfc.runs.planning.rehearse import STAND_INS
from daskfc.secure.prepare import PreparationWarning, Prepared
from daskfc.stores import ClientStore, load_storage
from daskfc.stores.store.together import number_of_samples

# Ours, generous bounds on one step: arrays of n x n, copies of all samples, and the process with
# a network's; a run within them need not be planned.
_SQUARES, _COPIES, _PROCESS = 10, 20, 1_000_000_000

LEFT_OUT = (
    "Time is that of messages: computing takes none in it, and each waits four trips, of which "
    "Dask takes three. Bytes are those of messages; Dask's own words to its scheduler, a few kB a "
    "step, and TLS come on top. Memory is that of a party's process, of what its largest step gets "
    "and makes, and of OmniFC's distances and its clusterer."
)


@dataclass(frozen=True)
class Planned:
    """One fit of one method, or "pseudonyms", "preparation" or "evaluation", shared by all methods.

    `refused` and `too_large` are reasons, or empty; `delays` counts messages that wait for one
    another, `seconds` is their time on the network. `memory` maps each party to its bytes and what
    they are for; `time` in `ledger` is when a message arrives.
    """

    name: str
    fits: int = 1
    refused: str = ""
    steps: int = 0
    ledger: pd.DataFrame = field(default_factory=pd.DataFrame)
    rounds: int = 0
    delays: int = 0
    seconds: float = 0.0
    memory: Mapping[str, tuple[int, str]] = field(default_factory=dict)
    too_large: str = ""
    assumptions: tuple[Assumption, ...] = ()
    choices: Mapping[str, str] = field(default_factory=dict)
    privacy: str = ""
    noise: Mapping[str, Any] | None = None

    @property
    def communication(self) -> dict[str, Any]:
        """Messages and bytes of one fit, as a run's summary has them."""
        return communication_of(self.ledger)

    @property
    def links(self) -> dict[tuple[str, str], int]:
        """Bytes on the wire from each party to each other, in one fit."""
        if self.ledger.empty:
            return {}
        sums = self.ledger.groupby(["sender", "receiver"], sort=False)["wire_bytes"].sum()
        return dict(zip(sums.index, sums.tolist(), strict=True))

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain values, for JSON."""
        told: dict[str, Any] = {
            "name": self.name,
            "fits": self.fits,
            "refused": self.refused or self.too_large or None,
            "rounds": self.rounds,
            "delays": self.delays,
            "network_s": self.seconds,
            "communication": self.communication if not self.refused else {},
            "links": [
                {"sender": one, "receiver": other, "wire_bytes": size}
                for (one, other), size in self.links.items()
            ],
            "memory": {
                party: {"bytes": needed, "for": what}
                for party, (needed, what) in self.memory.items()
            },
            "assumed": [asdict(one) for one in self.assumptions],
            "choices": dict(self.choices),
            "privacy": self.privacy,
            "noise": None if self.noise is None else dict(self.noise),
        }
        return dict(without_nan(told))


@dataclass(frozen=True)
class Plan:
    """What a run of a pipeline would be.

    Attributes
    ----------
    pipeline : Pipeline
        What would run.
    n_samples : dict of str to int
        Samples of every client.
    limits : dict of str to int or None
        Memory limit of every party, None where the cluster's file sets none.
    network : Network
        Bandwidth and latency that all times assume.
    parts : tuple of Planned
        Pseudonyms and preparation, if any; every method, the pipeline's own first; and the
        evaluation with true labels, if any.
    """

    pipeline: Pipeline
    n_samples: Mapping[str, int]
    limits: Mapping[str, int | None]
    network: Network
    parts: tuple[Planned, ...]

    def _repr_html_(self) -> str:
        """Return what each part would send and hold as a table, for notebooks."""
        head = ["part", "fits", "rounds", "messages", "payload", "network, s", "most memory"]
        rows = [
            (
                part.name,
                part.fits,
                part.rounds,
                part.communication["messages"],
                part.communication["payload_bytes"],
                round(part.seconds, 1),
                max((needed for needed, _ in part.memory.values()), default=0),
            )
            for part in self.parts
            if not part.refused
        ]
        title = f"Plan of {self.pipeline.method} with {len(self.n_samples)} clients, in bytes"
        return html_table(title, head, rows, self.refused or "Nothing has run.")

    @property
    def refused(self) -> str:
        """Why a run would be refused or break off; empty if it would not."""
        told = (part.refused or part.too_large for part in self.parts)
        return next((one for one in told if one), "")

    def of(self, name: str) -> Planned:
        """Return one part by its name."""
        return next(part for part in self.parts if part.name == name)

    def as_dict(self) -> dict[str, Any]:
        """Return the plan as plain values, for JSON."""
        return {
            "method": self.pipeline.method,
            "params": dict(self.pipeline.params),
            "seeds": list(self.pipeline.seeds),
            "n_clients": len(self.n_samples),
            "n_samples": dict(self.n_samples),
            "memory_limits": dict(self.limits),
            "bandwidth_bytes_s": self.network.bandwidth,
            "latency_s": self.network.latency,
            "parts": [part.as_dict() for part in self.parts],
            "left_out": LEFT_OUT,
        }


def plan(
    pipeline: Source | Pipeline,
    *,
    storage: Source | None = None,
    cluster: Source | None = None,
    params: Mapping[str, Any] | None = None,
    overrides: Sequence[str] = (),
    network: Network | None = None,
    assumed: Mapping[str, float] | None = None,
    progress: Progress | None = None,
) -> Plan:
    """Plan a run: rounds, messages, bytes, memory, time, and what every party would reveal.

    Each method runs with stubs for its steps: no worker starts, and nothing is sent. Stores are
    read where sizes depend on their content: norms and grids that set OmniFC's code, and FedSC's
    atoms.

    Parameters
    ----------
    pipeline, storage, cluster, params, overrides, progress
        As for `daskfc.run`; missing stores are built. All stores must be readable from here, on a
        running cluster as well.
    network : Network, optional
        Bandwidth and latency; 100 Mbit/s and 50 ms by default.
    assumed : mapping of str to float, optional
        Values of quantities that only a run can measure, by the names that a plan gives them.

    Raises
    ------
    InvalidInput
        If a run would be refused before it starts, or if stores cannot be read here.

    Notes
    -----
    Privacy: nothing leaves any party. The caller reads the stores, and must be allowed to.

    Examples
    --------
    >>> from daskfc.runs import plan
    >>> plan({"method": "OmniFC", "params": {"n_clusters": 3, "tile": 0}})
    Traceback (most recent call last):
    ...
    daskfc.errors.InvalidInput: the 'tile' parameter of OmniFC must be a whole number of at least \
1, or None; got 0.
    """
    located = locate(
        pipeline, storage, cluster, params=params, overrides=overrides, progress=progress
    )
    checked, where, stores = located.checked, located.cluster, located.stores
    if stores is None:
        stores = _stores_of(storage, where)
        sizes: dict[str, Any] = {"n_clients": len(stores), "n_samples": number_of_samples(stores)}
        checked = check_pipeline(checked.pipeline, **sizes, stores=stores)
    if checked.choices:
        raise InvalidInput(
            "a plan is for one number of clusters; got several to choose from. Give one, as "
            "--set params.n_clusters=3: a choice costs as much again for each number that is tried."
        )
    on, limits = network or Network(), _limits(where, stores)
    parts = _parts(checked, stores, limits, network=on, assumed=dict(assumed or {}))
    _check_assumed(assumed or {}, parts)
    n_samples = {name: store.n_samples for name, store in stores.items()}
    return Plan(checked.pipeline, n_samples, limits, on, parts)


def check_memory(
    checked: CheckedPipeline, stores: Mapping[str, ClientStore], cluster: ClusterConfig
) -> None:
    """Raise if a run with its largest number of clusters exceeds a known limit of a party."""
    limits = _limits(cluster, stores)
    surely = surely_below(stores)
    if all(fits(surely, limit) for limit in limits.values()):
        return
    if checked.choices:
        checked = checked.choices[max(checked.choices)]
    for part in _parts(checked, stores, limits):
        if part.too_large:
            raise ResourceRefused(part.too_large)


def planned_steps(
    checked: CheckedPipeline, stores: Mapping[str, ClientStore], cluster: ClusterConfig
) -> dict[str, int]:
    """Return the results of steps in one fit of each part; 0 for a part without a plan."""
    if checked.choices:
        checked = checked.choices[max(checked.choices)]
    parts = _parts(checked, stores, _limits(cluster, stores))
    return {part.name: part.steps for part in parts}


def surely_below(stores: Mapping[str, ClientStore]) -> int:
    """Return an upper bound, in bytes, on the memory of any party in any run on these stores."""
    n_bytes = sum(store.n_samples * store.n_features * 8 for store in stores.values())
    return _PROCESS + _COPIES * n_bytes + _SQUARES * 8 * number_of_samples(stores) ** 2


def _limits(cluster: ClusterConfig, stores: Mapping[str, ClientStore]) -> dict[str, int | None]:
    """Return the memory limit of every party, None where the cluster's file sets none."""
    return {
        name: cluster.limits(name).memory_limit if isinstance(cluster, LocalCluster) else None
        for name in (*stores, SERVER, *server_workers(cluster.server.workers))
    }


def _parts(
    checked: CheckedPipeline,
    stores: Mapping[str, ClientStore],
    limits: Mapping[str, int | None],
    **options: Any,
) -> tuple[Planned, ...]:
    definition, estimators = checked.pipeline, checked.estimators
    options |= {
        "limits": limits,
        "server_workers": tuple(name for name in limits if name not in {*stores, SERVER}),
        "allow_raw": any(one.needs_raw for one in estimators.values()),
        "process_bytes": PROCESS_BYTES,
    }
    prepared, parts = None, list[Planned]()
    names = Pseudonyms.fresh() if definition.ids == "pseudonyms" else None
    if names is not None and any(one.split != "samples" for one in estimators.values()):
        rehearsal = Rehearsal(stores, {}, **options, performs=True)
        rehearsal.pseudonyms = names
        agree_on_pseudonyms(rehearsal)
        names = rehearsal.pseudonyms
        parts.append(_planned("pseudonyms", rehearsal))
    if checked.prepare.steps:
        rehearsal = Rehearsal(stores, {}, **options, performs=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PreparationWarning)  # the run says it
            prepared = checked.prepare.fit(rehearsal)
        parts.append(_planned("preparation", rehearsal))
    for method, model in estimators.items():
        rehearsal = Rehearsal(stores, STAND_INS, **options)
        rehearsal.pseudonyms = names
        parts.append(_of_method(method, clone(model), rehearsal, prepared, len(definition.seeds)))
    if definition.metrics:
        rehearsal = Rehearsal(stores, STAND_INS, **options)
        rehearsal.pseudonyms = names
        rehearsal.start_run("evaluation", random_state=0)
        rehearsal.publish(evaluation_labels, party=_first_owners(stores))
        parts.append(_planned("evaluation", rehearsal))
    return tuple(parts)


def _stores_of(storage: Source | None, where: ClusterConfig) -> Mapping[str, ClientStore]:
    """Open the stores of a running cluster's clients, if they can be read here."""
    wanted = "a storage file whose stores can be read here, such as made-up ones of the same sizes"
    if storage is None:
        raise InvalidInput(
            f"a plan needs to know how large every client's data are. Give {wanted}."
        )
    loaded = load_storage(storage if isinstance(storage, Mapping) else Path(storage))
    try:
        stores = loaded.open()
    except DaskfcError as error:
        raise InvalidInput(
            f"a plan reads the sizes of the clients' stores, which it cannot here: {error} Plan "
            f"with {wanted}."
        ) from None
    assert where.cluster == "existing"  # on others `locate` opens the stores
    names = who_takes_part(where, tuple(stores))
    return {name: stores[name] for name in names}


def _first_owners(stores: Mapping[str, ClientStore]) -> list[str]:
    """Return the clients that have a sample of which no client before them has a row."""
    seen, owners = set[str](), list[str]()
    for name, store in stores.items():
        ids = set(map(str, store.sample_ids()))
        if not ids <= seen:
            owners.append(name)
        seen |= ids
    return owners


def _of_method(
    name: str, model: FederatedClusterer, rehearsal: Rehearsal, prepared: Prepared | None, fits: int
) -> Planned:
    rehearsal.preparation = prepared
    refused = ""
    try:
        model.rehearse(rehearsal)
    except NotRehearsed as error:
        refused = f"{name} cannot be planned yet: {error}"
    except DaskfcError as error:
        refused = f"{name} would be refused: {' '.join(str(error).split())}"
    if refused:
        return Planned(name, fits, refused, privacy=privacy_of(model))
    return _planned(
        name,
        rehearsal,
        fits=fits,
        choices=dict(model.choices),
        privacy=privacy_of(model),
        noise=getattr(model, "privacy_", None),
    )


def _planned(name: str, rehearsal: Rehearsal, **told: Any) -> Planned:
    return Planned(
        name,
        steps=rehearsal.n_results,
        ledger=ledger_frame(rehearsal.ledger),
        rounds=rehearsal.round,
        delays=rehearsal.depth,
        seconds=rehearsal.clock,
        memory=rehearsal.memory,
        too_large=_too_large(name, rehearsal.memory, rehearsal.limits()),
        assumptions=tuple(rehearsal.assumptions),
        **told,
    )


def _too_large(
    name: str, memory: Mapping[str, tuple[int, str]], limits: Mapping[str, int | None]
) -> str:
    for party, (needed, what) in memory.items():
        limit = limits[party]
        if limit is not None and not fits(needed, limit):
            usable = f"{USABLE * limit / 1e9:.2f} GB that it may use ({USABLE:.0%} of its limit"
            return (
                f"{name} would take {needed / 1e9:.2f} GB of memory at party {party!r} for {what}, "
                f"more than the {usable} of {limit / 1e9:.2f} GB). Raise 'memory_limit' in the "
                "cluster's file, or see docs/guides/memory.md for what takes less."
            )
    return ""


def _check_assumed(assumed: Mapping[str, float], parts: Sequence[Planned]) -> None:
    known = list(dict.fromkeys(one.what for part in parts for one in part.assumptions))
    for what in assumed:
        if what not in known and not any(part.refused for part in parts):
            raise InvalidInput(
                f"this plan assumes nothing of {what!r}; what it assumes is "
                f"{', '.join(known) or 'nothing'}. Correct it or leave it out."
            )
