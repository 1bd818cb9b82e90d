"""Figures of docs/results/esfmc.md, drawn from the records of `reproduce.py`.

matplotlib draws them: `pip install 'daskfc[figures]'`.
"""

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, pstdev

from matplotlib.figure import Figure

from pipelines.papers.esfmc.text import (
    ALPHA_FIGURE,
    CLIENTS_FIGURE,
    LOSSES_FIGURE,
    OVERLAP_FIGURE,
    VARIANTS_FIGURE,
    names,
)
from pipelines.papers.figures import Drawing, Point, draw_all, panels, shared_legend, with_band
from pipelines.papers.journal import Record
from pipelines.papers.means import of_kind

__all__ = ["draw"]

_COLORS = ("#0b5fa5", "#d1731b", "#3a7d44", "#7a4fa3", "#8a8a8a", "#b02a37")


def _points(runs: Sequence[Record], over: str, key: str) -> list[Point]:
    """Return means in % with standard deviations, by a key of the records."""
    points = []
    for x in sorted({r[over] for r in runs}):
        values = [100.0 * r[key] for r in runs if r[over] == x and key in r]
        if values:
            points.append((float(x), fmean(values), pstdev(values)))
    return points


def _overlap(records: Sequence[Record]) -> Figure | None:
    own = [r for r in of_kind(records, "accuracy", data="BDGP") if r["method"] == "ESFMC, robust"]
    if len({r["overlap"] for r in own}) < 3:
        return None
    figure, parts = panels(["BDGP"], 3.6, 2.8, "accuracy, %")
    axes = parts["BDGP"]
    complete = [r for r in own if r["overlap"] == 1.0]
    for mode, color in zip(("local", "align"), _COLORS, strict=False):
        runs = [r for r in own if r["mode"] == mode and r["overlap"] < 1.0] + complete
        with_band(axes, _points(runs, "overlap", "acc"), color, mode)
    axes.set(xlabel="share φ of samples in all views")
    axes.legend()
    return figure


def _losses(records: Sequence[Record]) -> Figure | None:
    found = of_kind(records, "losses")
    if not found:
        return None
    clients = names(found, "client")
    figure, parts = panels(clients, 3.2, 2.8, "loss", sharey=False)
    for client, axes in parts.items():
        runs = of_kind(found, "losses", client=client)
        for run, color in zip(runs, _COLORS, strict=False):
            epochs = range(1, len(run["losses"]) + 1)
            label = run["term"].removeprefix("Loss of the networks, ")
            axes.plot(epochs, run["losses"], color=color, linewidth=1, label=label)
        axes.set(title=client, xlabel="epoch, over all rounds", yscale="log")
    shared_legend(figure)
    return figure


def _alpha(records: Sequence[Record]) -> Figure | None:
    found = of_kind(records, "alpha")
    if not found:
        return None
    figure, parts = panels(["BDGP, φ = 0.9"], 3.8, 2.8, "accuracy, %")
    (axes,) = parts.values()
    labels = {"acc_in_all": "in both views", "acc_others": "in one view", "acc": "all"}
    for (key, words), color in zip(labels.items(), _COLORS, strict=False):
        with_band(axes, _points(found, "alpha", key), color, words)
    axes.set_xscale("symlog", linthresh=1e-6)
    axes.set(xlabel="α")
    shared_legend(figure)
    return figure


def _clients(records: Sequence[Record]) -> Figure | None:
    found = of_kind(records, "clients")
    if not found:
        return None
    figure, parts = panels(["complete views"], 3.4, 2.8, "accuracy, %")
    (axes,) = parts.values()
    for data, color in zip(names(found, "data"), _COLORS, strict=False):
        runs = of_kind(found, "clients", data=data)
        points = _points(runs, "each", "acc")
        axes.plot([p[0] for p in points], [p[1] for p in points], "o-", color=color, label=data)
    axes.set(xlabel="clients a view")
    axes.legend()
    return figure


def _variants(records: Sequence[Record]) -> Figure | None:
    found = of_kind(records, "variant")
    if not found:
        return None
    figure, parts = panels(names(found, "data"), 3.4, 3.0, "accuracy, %", sharey=False)
    for data, axes in parts.items():
        own = of_kind(found, "variant", data=data)
        floor = fmean(r["labels_error"] for r in own)
        axes.axvline(floor, color="black", linestyle=":", linewidth=1, label="labels alone")
        for words, color in zip(names(own, "variant"), _COLORS, strict=False):
            runs = of_kind(own, "variant", variant=words)
            x, y = fmean(r["error"] for r in runs), 100.0 * fmean(r["acc"] for r in runs)
            axes.plot([x], [y], "o", color=color, label=words)
        axes.set(title=data, xlabel="error of rebuilt rows: right is safer")
    shared_legend(figure, 3)
    return figure


_FIGURES: dict[str, Drawing] = {
    OVERLAP_FIGURE: _overlap,
    LOSSES_FIGURE: _losses,
    ALPHA_FIGURE: _alpha,
    CLIENTS_FIGURE: _clients,
    VARIANTS_FIGURE: _variants,
}


def draw(records: Sequence[Record], folder: Path) -> list[Path]:
    """Draw every figure for which there are records.

    Parameters
    ----------
    records : sequence of Record
        Of `reproduce.py`.
    folder : Path
        Where the SVG files go; made when it is not there.

    Returns
    -------
    list of Path
        The files.
    """
    return draw_all(_FIGURES, records, folder)
