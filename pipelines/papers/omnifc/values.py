"""What the OmniFC paper prints in Tables 1, 2, 5 and 6, for the data sets at hand."""

from typing import Any

__all__ = ["BASELINES", "CENTRAL", "OMNIFC", "ROWS", "P"]

ROWS = ("SC", "DBSCAN", "HC", "KMed", "KM", "FCM", "NMF")  # the paper's abbreviations
P = (0.0, 0.25, 0.5, 0.75, 1.0)  # its non-IID levels


def _rows(*values: float) -> dict[str, float]:
    return dict(zip(ROWS, values, strict=True))


# Columns "central" and "ours": SC, KM, FCM and NMF from Tables 1 and 5, the others from 2 and 6.
CENTRAL: dict[str, dict[str, dict[str, float]]] = {
    "kappa": {
        "Iris": _rows(0.95, 0.50, 0.94, 0.94, 0.95, 0.95, 0.57),
        "MNIST": _rows(0.55, 0.21, 0.41, 0.31, 0.47, 0.50, 0.46),
        "COIL-20": _rows(0.61, 0.58, 0.45, 0.41, 0.64, 0.59, 0.56),
    },
    "nmi": {
        "Iris": _rows(0.90, 0.73, 0.89, 0.86, 0.90, 0.90, 0.56),
        "MNIST": _rows(0.58, 0.56, 0.49, 0.38, 0.54, 0.55, 0.47),
        "COIL-20": _rows(0.75, 0.86, 0.70, 0.60, 0.74, 0.75, 0.70),
    },
}
OMNIFC: dict[str, dict[str, dict[str, float]]] = {
    "kappa": {
        "Iris": _rows(0.95, 0.50, 0.95, 0.94, 0.95, 0.95, 0.95),
        "MNIST": _rows(0.55, 0.21, 0.41, 0.30, 0.42, 0.41, 0.38),
        "COIL-20": _rows(0.63, 0.58, 0.45, 0.42, 0.64, 0.59, 0.61),
    },
    "nmi": {
        "Iris": _rows(0.90, 0.73, 0.90, 0.86, 0.90, 0.90, 0.90),
        "MNIST": _rows(0.58, 0.56, 0.49, 0.38, 0.46, 0.43, 0.47),
        "COIL-20": _rows(0.75, 0.86, 0.69, 0.61, 0.74, 0.72, 0.75),
    },
}


def _levels(*values: float) -> dict[float, float]:
    return dict(zip(P, values, strict=True))


# Tables 1 and 5, from p = 0 to p = 1.
BASELINES: dict[str, dict[str, Any]] = {
    "kappa": {
        "Iris": {
            "k-FED": _levels(0.38, 0.95, 0.93, 0.95, 0.71),
            "MUFC": _levels(0.83, 0.93, 0.79, 0.81, 0.77),
            "FFCM": _levels(0.96, 0.49, 0.93, 0.96, 0.97),
            "FedMAvg": _levels(0.50, 0.50, 0.50, 0.50, 0.50),
        },
        "MNIST": {
            "k-FED": _levels(0.43, 0.45, 0.29, 0.32, 0.47),
            "MUFC": _levels(0.41, 0.50, 0.46, 0.47, 0.43),
            "FFCM": _levels(0.48, 0.52, 0.53, 0.45, 0.48),
            "FedMAvg": _levels(0.40, 0.44, 0.39, 0.45, 0.46),
        },
        "COIL-20": {
            "k-FED": _levels(0.42, 0.46, 0.42, 0.41, 0.46),
            "MUFC": _levels(0.58, 0.61, 0.57, 0.58, 0.56),
            "FFCM": _levels(0.51, 0.47, 0.51, 0.55, 0.59),
            "FedMAvg": _levels(0.50, 0.51, 0.44, 0.51, 0.52),
        },
    },
    "nmi": {
        "Iris": {
            "k-FED": _levels(0.66, 0.90, 0.87, 0.90, 0.70),
            "MUFC": _levels(0.76, 0.85, 0.70, 0.74, 0.70),
            "FFCM": _levels(0.91, 0.72, 0.87, 0.91, 0.93),
            "FedMAvg": _levels(0.73, 0.73, 0.73, 0.73, 0.73),
        },
        "MNIST": {
            "k-FED": _levels(0.51, 0.49, 0.39, 0.46, 0.51),
            "MUFC": _levels(0.48, 0.52, 0.50, 0.52, 0.55),
            "FFCM": _levels(0.53, 0.53, 0.52, 0.52, 0.57),
            "FedMAvg": _levels(0.48, 0.45, 0.43, 0.47, 0.47),
        },
        "COIL-20": {
            "k-FED": _levels(0.65, 0.70, 0.66, 0.67, 0.69),
            "MUFC": _levels(0.74, 0.73, 0.72, 0.73, 0.72),
            "FFCM": _levels(0.71, 0.69, 0.72, 0.74, 0.75),
            "FedMAvg": _levels(0.62, 0.62, 0.62, 0.63, 0.63),
        },
    },
}
