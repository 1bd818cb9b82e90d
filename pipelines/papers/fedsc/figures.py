"""Figures of docs/results/fedsc.md, drawn from the records of `reproduce.py`.

matplotlib draws them: `pip install 'daskfc[figures]'`.
"""

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pipelines.papers.fedsc.text import MEANS, NOISE_FIGURE, ROUNDS_FIGURE, SETTINGS
from pipelines.papers.fedsc.values import ACCURACY
from pipelines.papers.figures import Drawing, draw_all, panels, shared_legend, with_band
from pipelines.papers.journal import Record
from pipelines.papers.means import of_kind

__all__ = ["draw"]

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
            with_band(axes, points, _OURS[setting], f"FedSC, {setting}")
    paper = [(noise, *v) for (d, noise, m), v in ACCURACY.items() if (d, m) == (data, "FedSC")]
    if paper:
        x, y, spread = zip(*paper, strict=True)
        axes.errorbar(x, y, spread, color="black", fmt="o", markersize=3, linewidth=1, capsize=2,
                      label="FedSC, paper")  # fmt: skip
    axes.set(title=data, xlabel="noise β", ylim=(0, 1.02))


def _of_data(records: Sequence[Record]) -> list[str]:
    return list(dict.fromkeys(r["data"] for r in records))


def _noise(records: Sequence[Record]) -> Figure | None:
    cells = of_kind(records, "cell")
    if not cells:
        return None
    figure, parts = panels(_of_data(cells), 2.1, 2.9, "accuracy")
    for name, axes in parts.items():
        _noise_panel(axes, name, cells)
    shared_legend(figure)
    return figure


def _rounds(records: Sequence[Record]) -> Figure | None:
    found = of_kind(records, "rounds")
    if not found:
        return None
    figure, parts = panels(_of_data(found), 2.6, 2.6, "relative error of similarities")
    ticks = sorted({r["rounds"] for r in found})
    for name, axes in parts.items():
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


_FIGURES: dict[str, Drawing] = {
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
    return draw_all(_FIGURES, records, folder)
