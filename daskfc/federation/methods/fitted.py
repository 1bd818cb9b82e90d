"""Display, saving and pickling of fitted methods."""

from collections.abc import Mapping
from dataclasses import replace
from os import PathLike
from typing import Any, ClassVar, Self

import numpy as np
import xarray as xr
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils.validation import check_is_fitted

from daskfc.errors import InvalidInput
from daskfc.federation.driver.contract import Contract
from daskfc.federation.methods.saving import read_model, write_model
from daskfc.html_tables import html_table

_CLUSTERS, _SITES = 40, 8  # ours: rows and clients that a notebook shows of a fitted model
_FOR_AUTHORS = {
    "can_start_again", "check", "check_data", "mapped_by", "method_name", "model_at_parties",
    "needs_raw", "rehearse", "released", "released_before", "remember", "resumable", "split",
}  # fmt: skip


class FittedModel(ClusterMixin, BaseEstimator):  # type: ignore[misc]
    """Base of `FederatedClusterer` that shows, saves and pickles fitted methods."""

    model_at_parties: ClassVar[bool] = True  # whether predict needs the run of fit
    labels_: xr.DataArray

    def __dir__(self) -> list[str]:
        """Leave out, for completion in a notebook, what only authors of methods need."""
        return sorted({*super().__dir__()} - _FOR_AUTHORS)

    def score(self, federation: Any, y: None = None) -> float:
        """Raise InvalidInput, always: search tools need a score, and would split the samples."""
        raise InvalidInput(
            f"{type(self).__name__} has no score, and a federation cannot be split for a search. "
            "Fit with each parameter, and compare the labels_ by daskfc.metrics, or runs by "
            "'daskfc compare'."
        )

    def save(self, folder: str | PathLike[str]) -> None:
        """Write the fitted method, as text and arrays, into a new folder open to its owner only.

        What lies with the parties stays there, so that `predict` needs another fit. Privacy: labels
        are saved with their sample names, clear ids or pseudonyms.
        """
        check_is_fitted(self)
        state = {name: value for name, value in self.__getstate__().items() if name in vars(self)}
        if isinstance(contract := state.get("_contract"), Contract):
            state["_contract"] = replace(contract, readable={})
        write_model(type(self), state, folder)

    @classmethod
    def load(cls, folder: str | PathLike[str]) -> Self:
        """Read a fitted method of this class that `save` wrote; see also `daskfc.load`."""
        _, state = read_model(folder, {f"{cls.__module__}:{cls.__qualname__}": cls})
        return cls._of_state(state)

    @classmethod
    def _of_state(cls, state: Mapping[str, Any]) -> Self:
        model = cls.__new__(cls)
        model.__dict__.update(state)
        return model

    def _repr_html_inner(self) -> str:
        """Return a fitted model's clusters as a table; for notebooks."""
        if not self.__sklearn_is_fitted__():
            return str(super()._repr_html_inner())
        labels = self.labels_.to_numpy()
        clients = self.labels_["client"].to_numpy().astype(str)
        names = list(dict.fromkeys(clients.tolist()))
        shown = names if len(names) <= _SITES else []
        rows = [
            (
                "noise" if c < 0 else str(c),
                int((labels == c).sum()),
                *(int(((labels == c) & (clients == name)).sum()) for name in shown),
            )
            for c in np.unique(labels).tolist()
        ]
        more = len(rows) - _CLUSTERS
        note = f"and {more} more clusters" if more > 0 else ""
        head = ["cluster", "samples", *shown]
        return html_table(repr(self), head, rows[:_CLUSTERS], note)

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**kwargs)
        if "text/html" in bundle:
            bundle["text/html"] = self._repr_html_inner()
        return bundle

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what lies with the parties: results are kept, `predict` needs another fit."""
        state: dict[str, Any] = super().__getstate__()
        if not self.model_at_parties:
            return state
        kept = {"_sklearn_version", *self.get_params(deep=False)}
        return {k: v for k, v in state.items() if k in kept or not k.startswith("_")}

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "labels_")
