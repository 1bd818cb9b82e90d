"""Figures of a run as matplotlib's axes, for notebooks and papers."""

import importlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import pandas as pd

from daskfc.errors import InvalidInput
from daskfc.runs.report.profile_rows import standardised_rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLOURS = 10  # of matplotlib's cycle, C0 to C9
_NOISE = "0.7"
_PROTECTIONS = ("plain", "masked", "coded", "noised", "raw")
_MOST_SHOWN = 40  # ours: rows of a heat map


def _axes(ax: "Axes | None", height: float = 3.5) -> "Axes":
    """Return axes to draw into: those that were given, or a new figure's."""
    if ax is not None:
        return ax
    try:
        pyplot = importlib.import_module("matplotlib.pyplot")
    except ImportError as error:
        raise InvalidInput(
            f"figures need matplotlib, which cannot be imported ({error.name} is missing). "
            "Install it with: pip install 'daskfc[figures]'."
        ) from None
    own: Axes = pyplot.subplots(figsize=(6.0, height), layout="constrained")[1]
    return own


def _colour(cluster: int) -> str:
    return _NOISE if cluster < 0 else f"C{cluster % _COLOURS}"


def _with_legend(ax: "Axes") -> "Axes":
    """Put the legend beside the axes, where it covers nothing."""
    ax.legend(loc="upper left", bbox_to_anchor=(1, 1), frameon=False, fontsize="small")
    return ax


class Plots:
    """Figures of one run, see `daskfc.Run.plot`; all are of its own method and its first seed.

    Each method draws into ``ax``, by default into a new figure, and returns these
    `matplotlib.axes.Axes`.

    Parameters
    ----------
    name : str
        The run's name, for errors.
    summary : mapping
        Its ``summary.json``.
    ledger : callable
        Returns its messages.

    Raises
    ------
    InvalidInput
        Where the run has not what is to be drawn, or matplotlib is not installed.

    Notes
    -----
    Privacy: nothing is asked of any party; what is drawn is in the run's folder.

    Examples
    --------
    >>> import daskfc as fc
    >>> run = fc.Run("runs/nightly")  # doctest: +SKIP
    >>> run.plot.map().set_title("patients")  # doctest: +SKIP
    """

    def __init__(
        self, name: str, summary: Mapping[str, Any], ledger: Callable[[], pd.DataFrame]
    ) -> None:
        self._name, self._summary, self._ledger = name, summary, ledger

    def _found(self, key: str, what: str, way_out: str) -> Any:
        return self._summary.get(key) or self._lacks(what, way_out)

    def _lacks(self, what: str, way_out: str) -> NoReturn:
        status = self._summary["status"]
        raise InvalidInput(f"run {self._name!r} has no {what}; its status is {status!r}. {way_out}")

    def __call__(self, ax: "Axes | None" = None, **options: Any) -> "Axes":
        """Draw the map of samples, as `map` does."""
        return self.map(ax, **options)

    def map(self, ax: "Axes | None" = None, **options: Any) -> "Axes":
        """Draw the map of samples by cluster, noise in grey; options of matplotlib's scatter."""
        way_out = "Some methods' servers know nothing to draw one from; see the method's page."
        plane = self._found("map", "map of its samples", way_out)
        X, labels = np.array(plane["positions"], dtype=float), np.array(plane["labels"])
        ax = _axes(ax, height=4.5)
        for cluster in np.unique(labels).tolist():
            given = {"s": 8, "color": _colour(cluster), **options}
            name = "noise" if cluster < 0 else f"cluster {cluster}"
            ax.scatter(*X[labels == cluster].T, label=name, **given)
        ax.set(xticks=[], yticks=[], aspect="equal")
        return _with_legend(ax)

    def sizes(self, ax: "Axes | None" = None) -> "Axes":
        """Draw how many samples of each client each cluster has.

        A bar a cluster, divided by client.
        """
        quality = self._found("quality", "clusters", "Resume it, or look at its log.")
        table = pd.DataFrame(quality["by_client"])  # (cluster, client)
        ax = _axes(ax)
        # clients have no colour of a cluster
        table.plot.bar(stacked=True, ax=ax, rot=0, colormap="Set2")
        ax.set(xlabel="cluster", ylabel="samples")
        return _with_legend(ax)

    def profiles(self, ax: "Axes | None" = None) -> "Axes":
        """Draw the mean of each column, or share of each word, in each cluster.

        A heat map in standard deviations from all samples' mean; white is withheld.
        """
        way_out = "Write 'profiles: true' in its pipeline, and run it again."
        found = self._found("profiles", "profiles of its clusters", way_out)
        rows = standardised_rows(found)[:_MOST_SHOWN]
        values = np.array([row for _, row in rows], dtype=float)  # (column, cluster)
        ax = _axes(ax, height=1.0 + 0.28 * len(rows))
        most = max(1.0, np.nanmax(np.abs(values), initial=0.0))
        image = ax.imshow(values, cmap="RdBu_r", vmin=-most, vmax=most, aspect="auto")
        ax.set_xticks(range(len(found["clusters"])), found["clusters"])
        ax.set_yticks(range(len(rows)), [name for name, _ in rows])
        ax.set_xlabel("cluster")
        ax.figure.colorbar(image, ax=ax, label="standard deviations")
        return ax

    def k_curve(self, ax: "Axes | None" = None) -> "Axes":
        """Draw the score of each number of clusters that was tried, and which one was chosen.

        With bars where scores have errors by chance, and the curves of criteria that it is made of.
        """
        way_out = "It has one where the pipeline says 'n_clusters: auto'."
        found = self._found("n_clusters_choice", "choice of a number of clusters", way_out)
        tried = [k for k, score in found["scores"].items() if score is not None]
        scores = {int(k): found["scores"][k] for k in tried}
        off = [found["errors"].get(k, 0.0) for k in tried]
        ax = _axes(ax)
        ax.errorbar([*scores], [*scores.values()], yerr=off if any(off) else None, marker="o")
        chosen = found["n_clusters"]
        ax.plot(chosen, scores[chosen], "o", markersize=12, fillstyle="none", color="C3")
        for name, part in found.get("parts", {}).items():
            told = {int(k): one for k, one in part.items() if one is not None}
            ax.plot([*told], [*told.values()], ":", label=name)
        if found.get("parts"):
            ax.legend(fontsize="small")
        ax.set(xlabel="clusters", ylabel=found["by"], xticks=[*scores])
        return ax

    def silhouette(self, ax: "Axes | None" = None) -> "Axes":
        """Draw the mean silhouette of all samples as a line, and each cluster's as a bar, if told.

        1 is far from every other cluster, 0 between two, below 0 in the wrong one.
        """
        quality = self._summary.get("quality") or {}
        if quality.get("silhouette") is None:
            self._lacks("silhouette", "The server of its method has no distances of its samples.")
        each = quality.get("silhouettes") or {}
        ax = _axes(ax)
        ax.bar([*each], [*each.values()], color=[_colour(int(cluster)) for cluster in each])
        ax.axhline(quality["silhouette"], linestyle="--", color=_NOISE, label="all samples")
        ax.set(xlabel="cluster", ylabel="silhouette")
        return _with_legend(ax)

    def ledger(self, ax: "Axes | None" = None) -> "Axes":
        """Draw how many bytes each compared method sent in its first fit, by their protection.

        A bar a method, in MB of content.
        """
        methods = self._found("methods", "messages", "Resume it, or look at its log.")
        rows, first = self._ledger(), self._summary["seeds"][0]
        rows = rows[(rows["seed"] == first) & rows["method"].isin([*methods])]
        sums = rows.groupby(["method", "protection"])["payload_bytes"].sum() / 1e6
        table = sums.unstack(fill_value=0.0).reindex([*methods][::-1], fill_value=0.0)
        kinds = [name for name in _PROTECTIONS if name in table.columns]
        colours = {name: f"C{_PROTECTIONS.index(name)}" for name in kinds}
        ax = _axes(ax, height=1.2 + 0.45 * len(methods))
        table[kinds].plot.barh(stacked=True, ax=ax, color=colours)
        ax.set(xlabel="content of messages, MB", ylabel="")
        return _with_legend(ax)
