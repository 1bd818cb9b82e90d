"""Figures of docs/results/fk-kmeans.md, drawn from the records of `reproduce.py`.

matplotlib draws them: `pip install 'daskfc[figures]'`.
"""

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pipelines.papers.figures import Drawing, draw_all, panels, shared_legend, with_band
from pipelines.papers.fk_kmeans.text import (
    ATTACK_FIGURE,
    COLORS,
    CONVERGENCE_FIGURE,
    MEANS,
    NOISE_FIGURE,
    QUALITY_FIGURE,
    UPLOAD_FIGURE,
    error_curve,
    names_of,
    quality_points,
)
from pipelines.papers.fk_kmeans.values import BOUNDS
from pipelines.papers.journal import Record
from pipelines.papers.means import of_kind

__all__ = ["draw"]

_BLUE, _ORANGE = "#0b5fa5", "#d1731b"
_POOLED = {"CK k-means": "--", "SK k-means": ":"}


def _convergence(records: Sequence[Record]) -> Figure | None:
    found = [r for r in of_kind(records, "convergence") if r["errors"]]
    if not found:
        return None
    names = names_of(found)
    figure, parts = panels(names, 3.0, 2.8, "normalised recovery error", sharey=False)
    for name, axes in parts.items():
        own = of_kind(found, "convergence", data=name)
        last = max(len(r["errors"]) for r in own)
        t = np.arange(1, last + 1)
        axes.plot(t, BOUNDS[name] / t, "k--", linewidth=1, label="paper's bound, c/t")
        for version in names_of(own, "version"):
            points = error_curve(of_kind(own, "convergence", version=version))
            with_band(axes, points, COLORS[version], version)
        _same_seed(axes, own)
        axes.set(title=f"{name}, c = {BOUNDS[name]:g}", xlabel="iteration t", yscale="log")
    shared_legend(figure)
    return figure


def _same_seed(axes: Axes, own: Sequence[Record]) -> None:
    """Draw the default's curve of the seed that Lanczos has, which it is to lie on."""
    for other in of_kind(own, "convergence", version="CEM, Lanczos"):
        for one in of_kind(own, "convergence", version="CEM, one sum", seed=other["seed"]):
            t = range(1, len(one["errors"]) + 1)
            label = "CEM, one sum, same seed"
            axes.plot(t, one["errors"], "k:", linewidth=0.8, label=label)


def _uploads(records: Sequence[Record]) -> Figure | None:
    found = of_kind(records, "communication")
    if not found:
        return None
    names = names_of(found)
    figure, parts = panels(names, 2.3, 2.6, "numbers uploaded in an iteration", sharey=False)
    for name, axes in parts.items():
        own = of_kind(found, "communication", data=name)
        versions = [r["version"] for r in own]
        means = [fmean(r["floats"]) for r in own]
        axes.bar(versions, means, color=[COLORS[v] for v in versions])
        axes.set(title=name, yscale="log", ylim=(10.0 ** np.floor(np.log10(min(means))), None))
        axes.set_xticks(range(len(versions)), [v.replace(" ", "\n", 1) for v in versions])
    return figure


def _quality_panel(axes: Axes, found: Sequence[Record], name: str) -> None:
    for method in names_of(of_kind(found, "quality", data=name), "method"):
        points = quality_points(found, name, method)
        scores = [point["nmi"] for point in points]
        if method in _POOLED:
            axes.axhline(
                fmean(scores), color=COLORS[method], linestyle=_POOLED[method], label=method
            )
            continue
        axes.errorbar(
            [point["floats"] / 1e5 for point in points],
            scores,
            [point["off"] for point in points],
            color=COLORS[method],
            marker="o",
            markersize=3,
            linewidth=1,
            capsize=2,
            label=method,
        )
    axes.set(title=name, xlabel="numbers uploaded, 10⁵")


def _quality(records: Sequence[Record]) -> Figure | None:
    found = of_kind(records, "quality")
    if not found:
        return None
    figure, parts = panels(names_of(found), 3.4, 3.2, "NMI", sharey=False)
    for name, axes in parts.items():
        _quality_panel(axes, found, name)
    shared_legend(figure, 3)
    return figure


def _noise(records: Sequence[Record]) -> Figure | None:
    found = [r for r in of_kind(records, "noise") if r["epsilon"] is not None]
    if not found:
        return None
    figure, parts = panels(names_of(found), 2.6, 2.6, "NMI")
    for name, axes in parts.items():
        levels = sorted({r["epsilon"] for r in found if r["data"] == name})
        means = [MEANS.of(of_kind(found, "noise", data=name, epsilon=e), "nmi") for e in levels]
        points = [(e, *value) for e, value in zip(levels, means, strict=True) if value]
        with_band(axes, points, _BLUE, "with noise")
        plain = MEANS.of(of_kind(records, "noise", data=name, epsilon=None), "nmi")
        if plain:
            axes.axhline(plain[0], color="#777777", linestyle="--", label="without")
        axes.set(title=name, xlabel="ε", xscale="log", ylim=(0, None))
        axes.set_xticks(levels, [f"{e:g}" for e in levels])
        axes.minorticks_off()
    shared_legend(figure)
    return figure


def _attack(records: Sequence[Record]) -> Figure | None:
    found = of_kind(records, "attack")
    if not found:
        return None
    figure, parts = panels(names_of(found), 3.2, 2.8, "share of samples found")
    for name, axes in parts.items():
        own = of_kind(found, "attack", data=name)
        counts = sorted({r["D"] for r in own})
        for D, marker in zip(counts, "osD^v", strict=False):
            for masked, color in ((False, _ORANGE), (True, _BLUE)):
                cells = of_kind(own, "attack", D=D, masked=masked)
                sizes = sorted({r["size"] for r in cells})
                shares = [fmean(r["share"] for r in cells if r["size"] == n) for n in sizes]
                who = "sum over 5 clients" if masked else "one client"
                label = f"{who}, D = {D}"
                axes.plot(sizes, shares, color=color, marker=marker, markersize=3, label=label)
        ticks = sorted({r["size"] for r in own})
        axes.set(title=name, xlabel="samples of a client", xscale="log", ylim=(-0.03, 1.03))
        axes.set_xticks(ticks, [str(n) for n in ticks])
        axes.minorticks_off()
    shared_legend(figure, 3)
    return figure


_FIGURES: dict[str, Drawing] = {
    CONVERGENCE_FIGURE: _convergence,
    UPLOAD_FIGURE: _uploads,
    QUALITY_FIGURE: _quality,
    NOISE_FIGURE: _noise,
    ATTACK_FIGURE: _attack,
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
