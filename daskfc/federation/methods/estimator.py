"""The contract of every method: scikit-learn's, with ``fit(federation)``."""

import time
import uuid
import warnings
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, Self, dataclass_transform

import numpy as np
import xarray as xr
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from daskfc.checks import check_params, integer, optional
from daskfc.errors import InvalidInput, PrivacyError
from daskfc.federation.driver.agreement import agree_on_pseudonyms
from daskfc.federation.driver.contract import summary_of_new
from daskfc.federation.driver.federation import Federation
from daskfc.federation.driver.one_start import begin_releases
from daskfc.federation.driver.requests import request_for
from daskfc.federation.driver.stage import followed_in_cell
from daskfc.federation.methods.cluster_scores import ClusterScores, Scores, scores_told
from daskfc.federation.methods.fitted import FittedModel
from daskfc.federation.methods.one_budget import count_preparation, noise_beside
from daskfc.federation.methods.parameters import constraints_of, make_init, param
from daskfc.federation.methods.sample_map import SampleMap
from daskfc.federation.methods.samples import Labelled, LabelledSamples, NewStores, opened
from daskfc.federation.steps.handles import PerClient, Sent, results
from daskfc.seeds import fresh_seed
from daskfc.stores import ClientStore
from daskfc.stores.store.together import SPLITS, Split


def labels_array(parts: Mapping[str, LabelledSamples]) -> xr.DataArray:
    """Join clients' labelled samples: ``(sample,)`` int64, with ``client`` and ``sample_id``."""
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


def _each_once(labels: xr.DataArray) -> xr.DataArray:
    """Return each sample once, with the first client that has it."""
    _, first = np.unique(labels["sample_id"].to_numpy(), return_index=True)
    return labels[np.sort(first)]


def _steps_of(federation: Federation) -> dict[str, Any]:
    """Return the steps that prepare each client's features."""
    return {} if federation.preparation is None else dict(federation.preparation.steps)


def _predicts(method: "FederatedClusterer") -> bool:
    return type(method)._predict is not FederatedClusterer._predict


def _maps(method: "FederatedClusterer") -> bool:
    return type(method)._sample_map is not FederatedClusterer._sample_map


@dataclass_transform(kw_only_default=True, field_specifiers=(param,))
class FederatedClusterer(FittedModel):
    """Base of the methods: checks parameters, opens and closes the run, keeps the results.

    A subclass declares its parameters as fields by `param`, says by ``split`` how data lie with
    clients ("samples", "columns" or "views"), and writes ``_fit``, which wires steps and returns
    one handle of `LabelledSamples` per client. With ``_predict`` it also labels new samples;
    ``model_at_parties = False`` says that what `fit` left with the caller is enough for that.

    Parameters
    ----------
    random_state : int, optional
        Seed of the algorithm; None draws one for every fit, see ``seed_``. Masks and noise come
        from the operating system and have no seed.

    Attributes
    ----------
    labels_ : xarray.DataArray
        ``(sample,)`` int64; coordinates ``client`` and ``sample_id``.
    ledger_ : Ledger
        Every message of the run.
    timing_ : dict of str to float
        Seconds of each stage, and ``total_s``.
    seed_ : int
        The seed that reproduces the fit: ``random_state``, or what was drawn in its place. A
        method's steps read it, never ``random_state``.
    stages_ : list of (str, float, float)
        Every stage in order: its name, and when it began and ended, in seconds since 1970 by the
        caller's clock.
    run_id_ : str
        The run's identity; secrets are derived from it and never reused.
    """

    split: ClassVar[Split]
    resumable: ClassVar[bool] = False
    needs_raw: ClassVar[bool] = False  # whether raw data leave clients
    method_name: ClassVar[str]  # as pipelines name it, where that is not the class's name
    mapped_by: ClassVar[str] = ""  # what a map of samples is drawn from

    random_state: int | None = param(optional(integer(low=0)), default=0)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        declared = vars(cls).get("split")  # or a parameter: the class has its default
        split = getattr(declared, "default", getattr(cls, "split", None))
        if split not in SPLITS:
            raise TypeError(f"{cls.__name__}.split must be one of {', '.join(SPLITS)}.")
        make_init(cls)
        cls.split = split

    def check(self, n_clients: int | None = None) -> None:
        """Refuse (InvalidInput) the first parameter that breaks its rule."""
        check_params(type(self).__name__, self.get_params(deep=False), constraints_of(type(self)))

    @property
    def privacy_claim(self) -> str:
        """What is claimed of privacy, where parameters decide; else it is in the docstring."""
        return ""

    def check_data(self, stores: Mapping[str, ClientStore]) -> None:
        """Refuse (InvalidInput) a fit that is sure to fail on stores that the caller can read."""

    def fit(self, federation: Federation, y: None = None) -> Self:
        """Cluster the samples of all clients of a running federation; return itself.

        A ConvergenceWarning tells of fewer clusters than ``n_clusters``.

        Raises
        ------
        InvalidInput
            When a parameter breaks its rule, or the clients' columns do not go together as
            ``split`` says, before anything runs.
        PartyError
            When a step fails at a party.
        """
        self._begin(federation)
        started = time.monotonic()
        with followed_in_cell(federation, type(self).__name__):
            parts = self._fit(federation)
            with self._stage(federation, "labels"):
                self.labels_ = self._told_labels(parts)
        count_preparation(getattr(self, "privacy_", None), federation.preparation)
        self.timing_["total_s"] = time.monotonic() - started
        self.ledger_ = federation.ledger
        self._warn_of_empty_clusters()
        return self

    def _warn_of_empty_clusters(self) -> None:
        asked, labels = getattr(self, "n_clusters", None), self.labels_.to_numpy()
        found = len(np.unique(labels[labels >= 0]))
        if asked is None or found >= asked:
            return
        why = (
            "there are too few different samples, or some lie so far away that others are one "
            "cluster beside them. Ask for fewer clusters, or shorten far values by prepare: [clip]."
        )
        if getattr(self, "noise", None):
            why = "noise hides the others. Ask for fewer clusters, or take a larger epsilon."
        warnings.warn(
            f"{type(self).__name__} found {found} of {asked} clusters: {why}",
            ConvergenceWarning,
            stacklevel=3,
        )

    def _check_federation(self, federation: Federation, verb: str) -> None:
        """Refuse (InvalidInput) what is no federation that is open."""
        if not isinstance(federation, Federation):
            raise InvalidInput(
                f"{type(self).__name__}.{verb} needs a Federation; got "
                f"{type(federation).__name__}. Open one with Federation.local(storage) or "
                "Federation.connect(cluster), or try it on data at hand: with "
                "daskfc.simulate({'a': table, 'b': table}) as federation."
            )
        federation.check_open()

    def _begin(self, federation: Federation) -> None:
        """Check the parameters and the clients' columns, and begin a run."""
        self._check_federation(federation, "fit")
        self.check(len(federation.clients))
        federation.contract.check_split(self.split, type(self).__name__)
        federation.contract.check_prepared(_steps_of(federation))
        if federation.contract.readable:
            self.check_data(federation.contract.readable)
        asked, t = getattr(self, "noise", None), getattr(self, "n_colluding", None)
        self._noise_left = noise_beside(type(self).__name__, asked, federation.preparation, t)
        self._contract = federation.contract  # against which new samples are checked
        self._prepared = _steps_of(federation)  # must be those of new samples too
        self.timing_: dict[str, float] = {}
        self.seed_ = fresh_seed() if self.random_state is None else int(self.random_state)
        self.stages_: list[tuple[str, float, float]] = []
        self.run_id_ = self._start_run(federation)
        self.__dict__.pop("privacy_", None)  # of an earlier fit

    @property
    def _params_key(self) -> str:
        """The parameters as a key of this fit in the server's workspace."""
        return repr(sorted(self.get_params(deep=False).items()))

    def _begin_releases(self, federation: Federation) -> None:
        """Have the server refuse (PrivacyError) a second start of a fit that releases noise."""
        of = type(self).__name__, self._params_key, self.run_id_
        federation.wait(federation.on_server(begin_releases, *of))

    @property
    def _noise_within(self) -> Mapping[str, Any] | None:
        """The noise that the preparation leaves to a fit; before a fit, the parameter."""
        left: Mapping[str, Any] | None = vars(self).get("_noise_left", getattr(self, "noise", None))
        return left

    def rehearse(self, federation: Federation) -> None:
        """Go through a fit in a ``Rehearsal`` to see its messages, or the error of `fit`."""
        self._begin(federation)
        for told in self._fit(federation).values():
            told.result()

    @property
    def criteria(self) -> tuple[str, ...]:
        """Criteria by which `scores_of` can score numbers of clusters, the preferred one first."""
        return ()

    @property
    def criterion(self) -> str | None:
        """The default one of `criteria`; None where stability is the better criterion."""
        return next(iter(self.criteria), None)

    def scores_of(self, federation: Federation, n_clusters: Sequence[int], *, by: str) -> Scores:
        """Score numbers of clusters by what the server knows, in one run; larger is better.

        Parameters
        ----------
        federation : Federation
            The parties, running.
        n_clusters : sequence of int
            The numbers, each of at least 2.
        by : str
            One of `criteria`.

        Raises
        ------
        InvalidInput
            For another criterion, and as `fit`.
        """
        if by not in self.criteria:
            raise InvalidInput(
                f"{type(self).__name__} cannot tell a number of clusters by {by!r}; it can by "
                f"{', '.join(map(repr, self.criteria)) or 'nothing'}. Choose another criterion."
            )
        scoring = clone(self)  # leaves the results of an earlier fit alone
        scoring._begin(federation)
        return scores_told(n_clusters, scoring._scores_of(federation, n_clusters, by), by)

    def _scores_of(
        self, federation: Federation, n_clusters: Sequence[int], by: str
    ) -> ClusterScores:
        """Wire the steps of `scores_of`; a score that is not finite counts as no score."""
        raise NotImplementedError

    def can_start_again(self) -> bool:
        """Whether a fit may start again: False once noise has spent the whole fit's budget."""
        return True

    @property
    def histories(self) -> Mapping[str, Mapping[str, Sequence[float]]]:
        """How the fit went, for the report: by title, named lines of one number a step."""
        return {}

    @property
    def choices(self) -> Mapping[str, str]:
        """What the last fit chose by itself and why, for the report, by name of the choice."""
        return {}

    @property
    def released(self) -> tuple[float, ...]:
        """Noise multipliers of all that the starts of this fit released."""
        return ()

    @property
    def released_before(self) -> tuple[float, ...]:
        """Those of `released` from starts before the last one, which are not in `ledger_`."""
        return ()

    def remember(self, released: Sequence[float]) -> None:
        """Take into account what earlier starts of the next fit released, see `released`."""

    def _start_run(self, federation: Federation) -> str:
        if self.split != "samples":
            agree_on_pseudonyms(federation)
        run_id = uuid.uuid4().hex
        federation.start_run(
            run_id,
            random_state=self.seed_,
            workspace=federation.workspace,
            request=request_for(type(self), self.get_params(deep=False)),
        )
        return run_id

    @available_if(_predicts)  # type: ignore[untyped-decorator]
    def predict(
        self,
        federation: Federation,
        stores: Mapping[str, Any] | None = None,
        *,
        refit: bool = False,
    ) -> xr.DataArray:
        """Label new samples, or the clients' own, as `labels_` and without clustering again.

        Parameters
        ----------
        federation : Federation
            The parties, running. Where the model lies with them, the one of `fit` in its run.
        stores : mapping of str to str, optional
            For some clients the URL of a store with new samples, readable there, or for all where
            each holds columns of the same samples; by default their own, where readable here. In a
            simulation also tables and arrays, as `daskfc.simulate` takes them of each client.
        refit : bool
            Whether to fit again first where the run of `fit` is over and its model with it.

        Raises
        ------
        InvalidInput
            When a name is no client, a client that is needed is missing, a store has other columns
            than those of `fit` or another owner, or the model is gone.
        PrivacyError
            When noise protects the releases and their budget is spent.

        Notes
        -----
        Privacy: of new samples the same is revealed as of those of `fit`, see the class.
        """
        check_is_fitted(self)
        self._check_federation(federation, "predict")
        if stores is None:
            stores = {name: own.url for name, own in federation.contract.readable.items()}
        self._check_clients(stores, federation)
        stores = federation.new_stores(stores)
        if not self.model_at_parties:
            self._start_run(federation)
        elif federation.run_id != self.run_id_ or not hasattr(self, "_contract"):
            self._check_refit()
            if not refit:
                raise InvalidInput(
                    f"the model of {type(self).__name__} lies with the parties of the run of fit, "
                    "which is over. Fit again, or give refit=True."
                )
            self.fit(federation)
        if _steps_of(federation) != self._prepared:
            raise InvalidInput(
                f"new samples must be prepared as those of fit were, and the federation's "
                f"preparation is another one now. Set it as it was, or fit {type(self).__name__} "
                "again."
            )
        owners = [name for name in federation.clients if name in stores]
        urls = PerClient({name: stores[name] for name in owners})
        new = federation.on_clients(opened, urls, clients=owners)
        told = federation.publish(summary_of_new, new, party=owners)
        for name, store in told.items():
            self._contract.check_new(name, store, self._prepared.get(name, ()))
        sent = self._predict(federation, new)
        return self._told_labels(sent)

    @available_if(_maps)  # type: ignore[untyped-decorator]
    def sample_map(self, federation: Federation) -> SampleMap | None:
        """Have the server of `fit`'s run draw some samples in a plane, if it knows enough.

        Notes
        -----
        Privacy: the caller learns where these samples lie in a plane, to 1/255 of its width; no
        ids, no clients. The server uses what it knew before.
        """
        check_is_fitted(self)
        self._still_running(federation, "sample_map")
        told = self._sample_map(federation)
        return told if told is not None and len(told.labels) else None

    def _sample_map(self, federation: Federation) -> SampleMap | None:
        """Have the server publish a map; implementing it gives a method its `sample_map`."""
        raise NotImplementedError

    def _told_labels(self, parts: PerClient[Sent[LabelledSamples]]) -> xr.DataArray:
        labels = labels_array(dict(results(parts)))
        return labels if self.split == "samples" else _each_once(labels)

    def _predict(self, federation: Federation, new: NewStores) -> Labelled:
        """Run the steps on new samples; a method that implements it has a ``predict``."""
        raise NotImplementedError

    def _check_raw(self, federation: Federation, what: str) -> None:
        """Refuse (PrivacyError) to send raw data within a federation that does not allow it."""
        if not federation.allow_raw:
            name = getattr(self, "method_name", type(self).__name__)
            raise PrivacyError(
                f"{name} sends {what}, and this federation was started without allow_raw. Start "
                f"it with allow_raw=True, or leave {name} out."
            )

    def _check_refit(self) -> None:
        """Raise where this fit may not be repeated for `predict`."""

    def _check_clients(self, stores: Mapping[str, str], federation: Federation) -> None:
        """Refuse stores of new samples that belong to no client, or to too few of them."""
        if not isinstance(stores, Mapping):
            raise InvalidInput(
                "new samples are given to predict as a mapping of clients to tables, arrays or "
                f"URLs of their stores; got {type(stores).__name__}. Give {{'a': table}}, where "
                "'a' is a client."
            )
        unknown = sorted(set(stores) - set(federation.clients))
        if unknown or not stores:
            raise InvalidInput(
                f"the stores given to predict must belong to clients, "
                f"{', '.join(federation.clients)}; got {unknown or 'none'}. Name a client of the "
                "federation, or read labels_ for the samples of fit."
            )
        missing = [name for name in federation.clients if name not in stores]
        if self.split in ("columns", "grid") and missing:
            raise InvalidInput(
                f"{type(self).__name__}.predict needs the columns of every client; those of "
                f"{', '.join(missing)} are missing. Give each its columns of the new samples."
            )

    def _still_running(self, federation: Federation, asked: str = "server_view") -> None:
        """Refuse a federation that is not in the run of fit any more."""
        if federation.run_id != self.run_id_:
            raise InvalidInput(
                f"{asked} needs the federation in the run of fit, as what the server saw "
                "is gone with it. Fit again."
            )

    @contextmanager
    def _stage(self, federation: Federation, name: str) -> Iterator[None]:
        """Time a stage and report that it began."""
        federation.report_progress(name, 0, 0)
        began, started = time.time(), time.monotonic()
        yield
        key, took = f"{name}_s", time.monotonic() - started
        self.timing_[key] = self.timing_.get(key, 0.0) + took
        self.stages_ = [*getattr(self, "stages_", ()), (name, began, began + took)]

    @abstractmethod
    def _fit(self, federation: Federation) -> Labelled:
        """Wire the steps; return each client's published `LabelledSamples`."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        return tags


make_init(FederatedClusterer)
