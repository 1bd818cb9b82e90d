"""What the kCAGC paper prints, for the graphs at hand: Tables II, III, IV, V, VII and VIII."""

from pipelines.papers.means import Value

__all__ = [
    "AGC_SECONDS",
    "ALONE_F1",
    "BASIC",
    "CENTRAL",
    "LEAKAGE",
    "LOCAL",
    "OPTIMISED",
    "OTHER_FILTER",
    "OTHER_FILTER_CENTRAL",
    "PARTICIPANTS",
    "SECONDS",
]

PARTICIPANTS = (2, 4, 8, 16)  # L
LOCAL = (1, 2, 4, 8)  # k̂ / k


def _cells(*rows: tuple[Value, ...]) -> dict[tuple[int, int], Value]:
    """Return cells by (L, k̂ / k) of rows by k̂."""
    return {
        (L, m): value
        for m, row in zip(LOCAL, rows, strict=True)
        for L, value in zip(PARTICIPANTS, row, strict=True)
    }


# Table II: accuracy in percent.
OPTIMISED = {
    "Cora": _cells(
        ((67.81, 1.78), (68.12, 0.33), (67.85, 1.01), (66.83, 1.71)),
        ((69.69, 0.95), (72.44, 0.51), (71.28, 1.25), (71.97, 0.41)),
        ((72.12, 0.76), (70.30, 1.60), (71.89, 0.88), (72.78, 1.18)),
        ((70.49, 0.38), (71.16, 2.06), (71.87, 1.69), (70.96, 2.04)),
    ),
    "Pubmed": _cells(
        ((69.67, 0.00), (65.61, 5.43), (69.67, 0.00), (69.79, 0.00)),
        ((69.71, 0.00), (66.14, 4.97), (69.85, 0.00), (69.83, 0.01)),
        ((69.71, 0.08), (69.85, 0.00), (69.77, 0.00), (69.80, 0.02)),
        ((69.72, 0.02), (69.76, 0.07), (69.67, 0.00), (69.81, 0.12)),
    ),
}
BASIC: dict[str, dict[int, Value]] = {
    "Cora": {2: (67.6, 0.1), 4: (69.24, 1.14), 8: (70.27, 1.04), 16: (69.63, 2.78)},
    "Pubmed": {2: (69.69, 0.0), 4: (69.77, 0.0), 8: (69.74, 0.0), 16: (69.80, 0.0)},
}
CENTRAL: dict[str, dict[str, Value]] = {
    "AGC": {"Cora": (68.17, 0.0), "Pubmed": (69.78, 0.0)},
    "GCC": {"Cora": (74.29, 0.0), "Pubmed": (70.82, 0.0)},
}

# Table III: macro F1 of kCAGC with L = 2, k̂ = k.
ALONE_F1 = {"Cora": (61.83, 0.09), "Pubmed": (68.51, 0.0)}

# Tables IV and V: seconds, of kCAGC in a local network and of AGC.
SECONDS = {
    "Cora": {
        1: (1.16, 3.43, 7.86, 16.67),
        2: (1.47, 4.28, 9.40, 19.10),
        4: (2.49, 5.80, 11.52, 22.56),
        8: (5.18, 12.62, 26.25, 53.27),
    },
    "Pubmed": {
        1: (1.17, 3.23, 7.26, 15.57),
        2: (1.82, 3.81, 7.93, 16.70),
        4: (3.03, 5.45, 10.43, 19.93),
        8: (5.88, 9.18, 14.00, 24.17),
    },
}
AGC_SECONDS = {"Cora": 0.13, "Pubmed": 0.14}

# Table VII, Cora: privacy level and leakage, by L.
LEAKAGE = {
    2: (2438.21, 0.09312),
    4: (2433.96, 0.09311),
    6: (2424.31, 0.09301),
    8: (2402.38, 0.09311),
    10: (2372.59, 0.09307),
    12: (2348.12, 0.09305),
    14: (2321.91, 0.09302),
    16: (2298.28, 0.09299),
}

# Table VIII, Cora with the filter (1 - λ / ‖L_s‖)^5: accuracy, NMI and macro F1 by (L, k̂ / k).
OTHER_FILTER: dict[tuple[int, int], tuple[Value, Value, Value]] = {
    (2, 1): ((67.90, 1.85), (50.84, 1.94), (65.37, 2.83)),
    (4, 1): ((66.30, 0.47), (52.43, 1.72), (62.42, 2.53)),
    (8, 1): ((66.45, 3.37), (52.00, 1.28), (61.86, 5.03)),
    (16, 1): ((65.94, 3.83), (50.59, 1.65), (59.76, 6.59)),
    (2, 2): ((67.05, 1.93), (49.64, 1.10), (62.93, 3.72)),
    (4, 2): ((71.32, 1.42), (54.24, 0.59), (70.66, 1.89)),
    (8, 2): ((68.21, 3.16), (53.77, 1.67), (62.86, 7.01)),
    (16, 2): ((66.66, 2.85), (51.60, 1.42), (57.24, 3.96)),
}
OTHER_FILTER_CENTRAL: tuple[Value, Value, Value] = ((66.91, 0.04), (51.24, 0.04), (63.94, 0.08))
