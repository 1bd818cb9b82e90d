"""The contract of every method: scikit-learn's, with ``fit(federation)``."""

import time
import uuid
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, Self

import numpy as np
import xarray as xr
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils.validation import check_is_fitted

from daskfc.checks import Constraint, check_params
from daskfc.errors import InvalidInput
from daskfc.federation.contract import Contract, new_store_summary
from daskfc.federation.federation import Federation
from daskfc.federation.handles import PerClient, Sent
from daskfc.federation.ledger import Ledger
from daskfc.federation.samples import LabelledSamples
from daskfc.stores.together import SPLITS, Split

__all__ = ["FederatedClusterer", "labels_array"]


def labels_array(parts: Mapping[str, LabelledSamples]) -> xr.DataArray:
    """Join the clients' labelled samples, in the order of the clients.

    Parameters
    ----------
    parts : mapping of str to LabelledSamples
        What each client published.

    Returns
    -------
    xarray.DataArray
        ``(sample,)`` int64 with the coordinates ``client`` and ``sample_id``.
    """
    clients = np.concatenate([np.repeat(name, len(part.labels)) for name, part in parts.items()])
    return xr.DataArray(
        np.concatenate([part.labels for part in parts.values()]),
        dims="sample",
        coords={
            "client": ("sample", clients),
            "sample_id": ("sample", np.concatenate([p.sample_ids() for p in parts.values()])),
        },
        name="label",
    )


class FederatedClusterer(ClusterMixin, BaseEstimator):  # type: ignore[misc]
    """Base of the methods: checks parameters, opens and closes the run, keeps the results.

    A subclass has keyword-only parameters, the table ``_params`` of their constraints, ``split``,
    which says how data lie with clients ("samples" or "columns"), and ``_fit``, which wires steps
    and returns one handle of `LabelledSamples` per client.

    Attributes
    ----------
    labels_ : xarray.DataArray
        ``(sample,)`` int64; coordinates ``client`` and ``sample_id``.
    ledger_ : Ledger
        Every message of the run.
    timing_ : dict of str to float
        Seconds of each stage, and ``total_s``.
    run_id_ : str
        The run's identity; secrets are derived from it and never reused.
    """

    _params: ClassVar[Mapping[str, Constraint]]
    split: ClassVar[Split]
    resumable: ClassVar[bool] = False
    needs_raw: ClassVar[bool] = False  # whether raw data leave clients
    random_state: int

    labels_: xr.DataArray
    ledger_: Ledger
    timing_: dict[str, float]
    run_id_: str
    _contract: Contract  # of the federation of fit; new samples are held against it

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if getattr(cls, "split", None) not in SPLITS:
            raise TypeError(f"{cls.__name__}.split must be one of {', '.join(SPLITS)}.")

    def check(self, n_clients: int | None = None) -> None:
        """Hold the parameters against their constraints.

        Parameters
        ----------
        n_clients : int, optional
            Number of clients, where it is known already.

        Raises
        ------
        InvalidInput
            For the first parameter that breaks its rule.
        """
        check_params(type(self).__name__, self.get_params(deep=False), self._params)

    def fit(self, federation: Federation, y: None = None) -> Self:
        """Cluster the samples of all clients.

        Parameters
        ----------
        federation : Federation
            The parties, running.
        y : None
            Not used; present for scikit-learn's contract.

        Returns
        -------
        FederatedClusterer
            Itself.

        Raises
        ------
        InvalidInput
            When a parameter breaks its rule, or the clients' columns do not go together in the way
            that ``split`` says, before anything runs.
        PartyError
            When a step fails at a party.
        """
        if not isinstance(federation, Federation):
            raise InvalidInput(
                f"{type(self).__name__}.fit needs a Federation; got {type(federation).__name__}. "
                "Open one with Federation.local(storage) or Federation.connect(cluster)."
            )
        self.check(len(federation.clients))
        federation.contract.check_split(self.split, type(self).__name__)
        self._contract = federation.contract
        self.timing_ = {}
        self.run_id_ = self._start_run(federation)
        started = time.monotonic()
        parts = self._fit(federation)
        with self._stage(federation, "labels"):
            self.labels_ = labels_array({name: sent.result() for name, sent in parts.items()})
        self.timing_["total_s"] = time.monotonic() - started
        self.ledger_ = federation.ledger
        return self

    def can_start_again(self) -> bool:
        """Whether a fit that broke off could be started again with these parameters.

        Returns
        -------
        bool
            False once noisy releases have spent the budget of the whole fit.
        """
        return True

    @property
    def released(self) -> tuple[float, ...]:
        """Noise multipliers of all that the starts of this fit released."""
        return ()

    @property
    def released_before(self) -> tuple[float, ...]:
        """Those of them that are of starts before the last one, and not in `ledger_`."""
        return ()

    def remember(self, released: Sequence[float]) -> None:
        """Take into account what earlier starts of the next fit released, as `released` told."""

    def _start_run(self, federation: Federation) -> str:
        run_id = uuid.uuid4().hex
        federation.start_run(run_id, random_state=self.random_state, workspace=federation.workspace)
        return run_id

    def _check_clients(self, stores: Mapping[str, str], federation: Federation) -> None:
        """Refuse stores of new samples that belong to no client of the federation."""
        unknown = sorted(set(stores) - set(federation.clients))
        if unknown or not stores:
            raise InvalidInput(
                f"the stores given to predict must belong to clients, "
                f"{', '.join(federation.clients)}; got {unknown or 'none'}. Name a client of the "
                "federation."
            )

    def _check_new(self, stores: Mapping[str, str], federation: Federation) -> None:
        """Hold stores of new samples against their clients and the columns of fit."""
        sent = {
            name: federation.publish(new_store_summary, url, party=name, wait=False)
            for name, url in stores.items()
        }
        for name, store in sent.items():
            self._contract.check_new(name, store.result())

    def _start_predict(self, stores: Mapping[str, str], federation: Federation) -> None:
        """Begin ``predict`` of a method that keeps its model, in a run of its own."""
        check_is_fitted(self)
        self._check_clients(stores, federation)
        self._start_run(federation)
        self._check_new(stores, federation)

    def _return_to_fit(self, stores: Mapping[str, str], federation: Federation) -> None:
        """Begin ``predict`` of a method whose model lies with the parties, or fit again."""
        check_is_fitted(self)
        self._check_clients(stores, federation)
        if federation.run_id != self.run_id_:
            self.fit(federation)
        self._check_new(stores, federation)

    def _still_running(self, federation: Federation) -> None:
        """Refuse a federation that is not in the run of fit any more."""
        if federation.run_id != self.run_id_:
            raise InvalidInput(
                "server_view needs the federation in the run of fit, as what the server saw "
                "is gone with it. Fit again."
            )

    @contextmanager
    def _stage(self, federation: Federation, name: str) -> Iterator[None]:
        """Time a stage and tell whoever watches that it began."""
        federation.report_progress(name, 0, 0)
        started = time.monotonic()
        yield
        key = f"{name}_s"
        self.timing_[key] = self.timing_.get(key, 0.0) + time.monotonic() - started

    @abstractmethod
    def _fit(self, federation: Federation) -> PerClient[Sent]:
        """Wire the steps; return each client's published `LabelledSamples`."""

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "labels_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        return tags
