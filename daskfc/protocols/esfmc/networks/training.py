"""The networks of one client: training on its rows, and their features.

Random numbers depend on (seed, round, epoch): on CPUs the same seed gives the same bits in another
process, also if training resumes from `ViewModel.state` after an epoch. Other processors and
versions of JAX may round differently, and GPUs sum in any order. The noise of Eq. (7) comes from
this seed and protects nothing.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from math import isfinite
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from daskfc.checks import check_params, integer
from daskfc.errors import InvalidInput
from daskfc.protocols.esfmc.networks.batches import Client, batches, checked
from daskfc.protocols.esfmc.networks.epochs import (
    EpochLosses,
    losses_of,
    outputs,
    plan_of,
    rates_of,
    run_epoch,
)
from daskfc.protocols.esfmc.networks.framework import device_of, jax
from daskfc.protocols.esfmc.networks.layers import from_assignments, initial, shapes, unflatten
from daskfc.protocols.esfmc.networks.optimisers import Moments
from daskfc.protocols.esfmc.networks.units import Units
from daskfc.protocols.esfmc.settings import NetworkSettings, TrainingSettings
from daskfc.seeds import generator

Floats: TypeAlias = NDArray[np.float32]

_CHUNK = 4096  # ours: rows for which features are computed at a time


@dataclass(frozen=True)
class Features:
    """The networks' features of n rows: `z_c` for the server, `z`, `z_x`, and Q^m (n, K)."""

    z: Floats
    z_c: Floats
    z_x: Floats
    assignments: Floats


class ViewModel:
    """One client's networks and their training's progress; rows are as the client keeps them."""

    def __init__(
        self,
        n_columns: int,
        n_clusters: int,
        network: NetworkSettings,
        state: Mapping[str, NDArray[Any]],
        *,
        seed: int,
        device: str,
    ) -> None:
        self.n_columns = n_columns
        self.n_clusters = n_clusters
        self.network = network
        self.seed = seed
        self.units = Units(np.asarray(state["low"]), float(state["width"]))
        self._device = device_of(device)
        put = partial(jax.device_put, device=self._device)
        self._w = put(state["weights"])
        steps = np.asarray(state["steps"], dtype=np.int32)
        self._moments = Moments(put(state["first_moment"]), put(state["second_moment"]), put(steps))
        self.round = int(state["round"])
        self.epoch = int(state["epoch"])

    @classmethod
    def begin(
        cls,
        n_columns: int,
        n_clusters: int,
        network: NetworkSettings | None = None,
        *,
        seed: int,
        device: str = "auto",
        units: Units | None = None,
    ) -> "ViewModel":
        """Return untrained networks; the seed must differ between clients."""
        table = {"n_columns": integer(1), "n_clusters": integer(2), "seed": integer(0)}
        given = {"n_columns": n_columns, "n_clusters": n_clusters, "seed": seed}
        check_params("ViewModel", given, table)
        network = NetworkSettings() if network is None else network
        units = Units(np.zeros(n_columns), 1.0) if units is None else units
        w = initial(shapes(n_columns, n_clusters, network), seed)
        state: dict[str, NDArray[Any]] = {"weights": w, "first_moment": np.zeros_like(w)}
        state |= {"second_moment": np.zeros_like(w), "steps": np.array(0)}
        state |= {"round": np.array(0), "epoch": np.array(0)}
        state |= {"low": units.low, "width": np.array(units.width)}
        return cls(n_columns, n_clusters, network, state, seed=seed, device=device)

    @classmethod
    def from_state(
        cls,
        state: Mapping[str, NDArray[Any]],
        n_columns: int,
        n_clusters: int,
        network: NetworkSettings | None = None,
        *,
        seed: int,
        device: str = "auto",
    ) -> "ViewModel":
        """Return networks as saved by `state`; refuse a state of other networks."""
        model = cls.begin(n_columns, n_clusters, network, seed=seed, device=device)
        wanted = model.state()
        for name, array in wanted.items():
            if name not in state or np.shape(state[name]) != array.shape:
                got = f"shape {np.shape(state[name])}" if name in state else "none"
                raise InvalidInput(
                    f"the saved array {name!r} of the networks must have shape {array.shape}; "
                    f"got {got}. Give the settings it was saved with, or begin anew."
                )
        network = model.network
        return cls(n_columns, n_clusters, network, state, seed=seed, device=device)

    def state(self) -> dict[str, NDArray[Any]]:
        """Return the arrays that `from_state` needs."""
        state = {"weights": np.array(self._w), "first_moment": np.array(self._moments.first)}
        state |= {"second_moment": np.array(self._moments.second)}
        state |= {"low": self.units.low, "width": np.array(self.units.width)}
        counts = {"steps": int(self._moments.steps), "round": self.round, "epoch": self.epoch}
        return state | {name: np.array(value, np.int64) for name, value in counts.items()}

    def pretrain(self, rows: ArrayLike, *, settings: TrainingSettings) -> tuple[EpochLosses, ...]:
        """Train encoder and decoder to reconstruct rows, with weight 1, before the first round."""
        alone = replace(
            settings,
            reconstruction_weight=1.0,
            label_weight=0.0,
            dependence_weight=0.0,
            alignment_weight=0.0,
        )
        client = checked(rows, None, None, None, self.units, self.n_clusters)
        return tuple(self._run(client, alone, 0, settings.pretraining_epochs, None))

    def train(
        self,
        rows: ArrayLike,
        labels: ArrayLike | None = None,
        *,
        settings: TrainingSettings,
        round: int,
        assignments: ArrayLike | None = None,
        aligned: ArrayLike | None = None,
        on_epoch: Callable[[int, EpochLosses], None] | None = None,
    ) -> tuple[EpochLosses, ...]:
        """Train in a round, from 1; resume a round already begun after its last epoch."""
        check_params("train of ViewModel", {"round": round}, {"round": integer(max(1, self.round))})
        client = checked(rows, labels, assignments, aligned, self.units, self.n_clusters)
        return tuple(self._run(client, settings, round, settings.epochs, on_epoch))

    def features(self, rows: ArrayLike) -> Features:
        """Return features and assignments of old or new rows, without dropout."""
        X = checked(rows, None, None, None, self.units, self.n_clusters).rows
        plan = plan_of(self.n_columns, self.n_clusters, self.network, TrainingSettings())
        size = min(len(X), _CHUNK)
        parts = []
        for start in range(0, len(X), size):
            chunk = X[start : start + size]
            filled = np.zeros((size, self.n_columns), np.float32)  # one shape, compiled once
            filled[: len(chunk)] = chunk
            found = outputs(self._w, jax.device_put(filled, self._device), plan=plan)
            parts.append([np.asarray(one)[: len(chunk)] for one in found])
        return Features(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))

    def from_assignments(self, assignments: ArrayLike) -> Floats:
        """Return g̃(Q), (n, shared_columns): Z_c of rows that the client does not have (Eq. 13)."""
        Q = np.asarray(assignments, dtype=np.float32)
        if Q.ndim != 2 or Q.shape[1] != self.n_clusters:
            raise InvalidInput(
                f"assignments given to the networks must have shape (n, {self.n_clusters}); "
                f"got {Q.shape}. Give a column for each cluster."
            )
        layout = shapes(self.n_columns, self.n_clusters, self.network)
        return np.asarray(from_assignments(unflatten(np.asarray(self._w), layout), Q))

    def _run(
        self,
        client: Client,
        settings: TrainingSettings,
        round: int,
        epochs: int,
        on_epoch: Callable[[int, EpochLosses], None] | None,
    ) -> Iterator[EpochLosses]:
        plan = plan_of(self.n_columns, self.n_clusters, self.network, settings)
        rates = rates_of(settings, self.n_columns)
        there = jax.device_put(client, self._device)
        if round != self.round:
            self.round, self.epoch = round, 0
        while self.epoch < epochs:
            chance = generator(self.seed, "epoch", round, self.epoch)
            order = batches(chance, len(client.rows), settings.batch_size)
            words = chance.integers(0, 2**32, 2, dtype=np.uint32)
            key = jax.random.wrap_key_data(words, impl="threefry2x32")
            w, moments, terms, counts = run_epoch(
                self._w, self._moments, there, order, rates, key, plan=plan
            )
            found = losses_of(terms, counts, rates.weights)
            if not isfinite(found.total):
                raise InvalidInput(
                    f"the loss of the networks must stay finite; it did not in epoch "
                    f"{self.epoch + 1} of round {round}. Scale the columns to [0, 1], or lower "
                    f"learning_rate."
                )
            self._w, self._moments = w, moments
            self.epoch += 1
            if on_epoch is not None:
                on_epoch(self.epoch, found)
            yield found
