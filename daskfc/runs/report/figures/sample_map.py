"""A map of samples in a plane, coloured by cluster."""

from collections.abc import Mapping, Sequence
from html import escape

import numpy as np

from daskfc.runs.report.figures.chart import WIDTH, chart, colour, swatch, words

_MARGIN = 8
_LEAST, _MOST = 0.35, 1.0  # ours: of the width, the height of a map
_NAMED = 40  # ours: clusters whose names stand in the map


def sample_map(
    positions: Sequence[Sequence[int]], labels: Sequence[int], told: Mapping[int, str]
) -> str:
    """Return a dot per sample at its (across, up), coloured by cluster (-1 is noise), and names.

    `told` is by cluster what its dots say when a pointer is over them.
    """
    X, clusters = np.asarray(positions, dtype=np.float64), np.asarray(labels)
    if len(X) < 2 or not np.ptp(X, axis=0).any():
        return ""
    low, high = X.min(axis=0), X.max(axis=0)
    scale = (WIDTH - 2 * _MARGIN) / max(high[0] - low[0], high[1] - low[1])
    height = min(max((high[1] - low[1]) * scale, _LEAST * WIDTH), _MOST * WIDTH)
    middle = (low + high) / 2
    x = WIDTH / 2 + (X[:, 0] - middle[0]) * scale
    y = _MARGIN + height / 2 - (X[:, 1] - middle[1]) * scale  # up is up
    found = np.unique(clusters).tolist()
    svg, legend, names = [], [], []
    for cluster in found:
        own = clusters == cluster
        style = "dots faint" if cluster < 0 else f"dots {colour(cluster)}"
        places = np.column_stack([x, y])[own].round(1).tolist()
        dots = "".join(f"M{across:g} {down:g}h0" for across, down in places)
        said = escape(told.get(cluster, "noise" if cluster < 0 else f"cluster {cluster}"))
        svg.append(f'<path class="{style}" d="{dots}"><title>{said}</title></path>')
        if cluster < 0:
            legend.append(('<span class="swatch noise"></span>', "noise"))
            continue
        legend.append((swatch(cluster), f"cluster {cluster}"))
        names.append(words(np.median(x[own]), np.median(y[own]) + 5, str(cluster),
                           anchor="middle", style="halo strong"))  # fmt: skip
    label = f"{len(X):,} samples in a plane, in {sum(c >= 0 for c in found)} clusters"
    return chart(label, height + 2 * _MARGIN, [*svg, *names[:_NAMED]], legend[:_NAMED])
