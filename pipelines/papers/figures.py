"""How figures of pages in docs/results look: vector files, the same bytes for the same records.

matplotlib draws them: `pip install 'daskfc[figures]'`.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pipelines.papers.journal import Record

__all__ = ["Drawing", "Point", "draw_all", "panels", "shared_legend", "with_band"]

Drawing: TypeAlias = Callable[[Sequence[Record]], Figure | None]
Point: TypeAlias = tuple[float, float, float]  # x, y and how far y may be off

# No date, no random names; words stay words.
_STYLE = {
    "svg.hashsalt": "daskfc",
    "svg.fonttype": "none",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10,
    "legend.frameon": False,
}


def panels(
    names: Sequence[str], width: float, height: float, label: str, *, sharey: bool = True
) -> tuple[Figure, dict[str, Axes]]:
    """Return a figure with a panel for each name, side by side; sizes in inches."""
    figure = Figure(figsize=(width * len(names) + 0.6, height), layout="constrained")
    axes = figure.subplots(1, len(names), sharey=sharey, squeeze=False)[0]
    axes[0].set_ylabel(label)
    return figure, dict(zip(names, axes, strict=True))


def shared_legend(figure: Figure, n_columns: int | None = None) -> None:
    """Put one legend for all panels above them."""
    legend = {}
    for axes in figure.axes:
        handles, words = axes.get_legend_handles_labels()
        legend.update(zip(words, handles, strict=True))
    columns = n_columns or len(legend)
    figure.legend(legend.values(), legend.keys(), loc="outside upper center", ncols=columns)


def with_band(axes: Axes, points: Sequence[Point], color: str, label: str) -> None:
    """Draw a curve in a band of what it may be off."""
    x, y, off = zip(*points, strict=True)
    low = [a - s for a, s in zip(y, off, strict=True)]
    high = [a + s for a, s in zip(y, off, strict=True)]
    axes.fill_between(x, low, high, color=color, alpha=0.15, linewidth=0)
    axes.plot(x, y, color=color, label=label)


def draw_all(
    drawings: Mapping[str, Drawing], records: Sequence[Record], folder: Path
) -> list[Path]:
    """Draw every figure for which there are records.

    Parameters
    ----------
    drawings : mapping of str to callable
        By the name of the file; None where a figure would be empty.
    records : sequence of Record
        What was found.
    folder : Path
        Where the SVG files go; made when it is not there.

    Returns
    -------
    list of Path
        The files.
    """
    drawn = []
    with mpl.rc_context(_STYLE):
        for name, make in drawings.items():
            figure = make(records)
            if figure is not None:
                folder.mkdir(parents=True, exist_ok=True)
                figure.savefig(folder / name, metadata={"Date": None})
                drawn.append(folder / name)
    return drawn
