"""Figures of FedSC's section of docs/results.md, drawn from the records of `reproduce.py`.

matplotlib draws them: `pip install 'daskfc[figures]'`.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pipelines.papers.fedsc.text import MEANS, NOISE_FIGURE, ROUNDS_FIGURE, SETTINGS
from pipelines.papers.fedsc.values import ACCURACY
from pipelines.papers.journal import Record
from pipelines.papers.means import of_kind

__all__ = ["draw"]

# The same bytes for the same records: no date, no random names. Words stay words.
_STYLE = {
    "svg.hashsalt": "daskfc",
    "svg.fonttype": "none",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10,
    "legend.frameon": False,
}
_OURS = {"defaults": "#0b5fa5", "published": "#d1731b"}
_OTHERS = {"SC": ("#555555", "--"), "k-means": ("#999999", "-."), "DSC": ("#999999", ":")}


def _accuracies(found: Sequence[Record]) -> list[tuple[float, float, float]]:
    """Return noise, mean and deviation of the accuracy over the seeds."""
    levels = sorted({r["noise"] for r in found})
    means = [(noise, MEANS.of([r for r in found if r["noise"] == noise])) for noise in levels]
    return [(noise, *value) for noise, value in means if value is not None]


def _noise_panel(axes: Axes, data: str, cells: Sequence[Record]) -> None:
    own = [r for r in cells if r["data"] == data and r["split"] == "equal"]
    for method, (color, dashes) in _OTHERS.items():
        points = _accuracies([r for r in own if r["method"] == method])
        if points:
            x, y, _ = zip(*points, strict=True)
            axes.plot(x, y, color=color, linestyle=dashes, linewidth=1, label=method)
    for setting in SETTINGS:
        points = _accuracies([r for r in own if r.get("setting") == setting])
        if points:
            x, y, spread = zip(*points, strict=True)
            low = [a - s for a, s in zip(y, spread, strict=True)]
            high = [a + s for a, s in zip(y, spread, strict=True)]
            axes.fill_between(x, low, high, color=_OURS[setting], alpha=0.15, linewidth=0)
            axes.plot(x, y, color=_OURS[setting], label=f"FedSC, {setting}")
    paper = [(noise, *v) for (d, noise, m), v in ACCURACY.items() if (d, m) == (data, "FedSC")]
    if paper:
        x, y, spread = zip(*paper, strict=True)
        axes.errorbar(x, y, spread, color="black", fmt="o", markersize=3, linewidth=1, capsize=2,
                      label="FedSC, paper")  # fmt: skip
    axes.set(title=data, xlabel="noise β", ylim=(0, 1.02))


def _panels(
    records: Sequence[Record], width: float, height: float, label: str
) -> tuple[Figure, dict[str, Axes]]:
    """Return a figure with a panel for each data set, side by side; sizes in inches."""
    names = list(dict.fromkeys(r["data"] for r in records))
    figure = Figure(figsize=(width * len(names) + 0.6, height), layout="constrained")
    panels = figure.subplots(1, len(names), sharey=True, squeeze=False)[0]
    panels[0].set_ylabel(label)
    return figure, dict(zip(names, panels, strict=True))


def _noise(records: Sequence[Record]) -> Figure | None:
    cells = of_kind(records, "cell")
    if not cells:
        return None
    figure, panels = _panels(cells, 2.1, 2.9, "accuracy")
    for name, axes in panels.items():
        _noise_panel(axes, name, cells)
    legend = {}
    for axes in panels.values():
        handles, words = axes.get_legend_handles_labels()
        legend.update(zip(words, handles, strict=True))
    figure.legend(legend.values(), legend.keys(), loc="outside upper center", ncols=len(legend))
    return figure


def _rounds(records: Sequence[Record]) -> Figure | None:
    found = of_kind(records, "rounds")
    if not found:
        return None
    figure, panels = _panels(found, 2.6, 2.6, "relative error of similarities")
    ticks = sorted({r["rounds"] for r in found})
    for name, axes in panels.items():
        for setting in SETTINGS:
            own = of_kind(found, "rounds", data=name, setting=setting)
            counts = sorted({r["rounds"] for r in own})
            errors = [fmean(r["relative"] for r in own if r["rounds"] == n) for n in counts]
            axes.plot(counts, errors, marker="o", markersize=3, color=_OURS[setting], label=setting)
        axes.set(title=name, xlabel="rounds", xscale="log", yscale="log")
        axes.set_xticks(ticks, [str(n) for n in ticks])
        axes.minorticks_off()
    axes.legend()  # in the last panel
    return figure


_FIGURES: dict[str, Callable[[Sequence[Record]], Figure | None]] = {
    NOISE_FIGURE: _noise,
    ROUNDS_FIGURE: _rounds,
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
    drawn = []
    with mpl.rc_context(_STYLE):
        for name, make in _FIGURES.items():
            figure = make(records)
            if figure is not None:
                folder.mkdir(parents=True, exist_ok=True)
                figure.savefig(folder / name, metadata={"Date": None})
                drawn.append(folder / name)
    return drawn
