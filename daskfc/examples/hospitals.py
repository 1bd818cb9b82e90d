"""Random tables of synthetic patients at three hospitals."""

from collections.abc import Sequence

import numpy as np

from daskfc.seeds import generator

COLUMNS = (
    "patient", "age", "bmi", "systolic", "heart_rate", "creatinine", "glucose", "crp", "smoking",
    "diagnosis",
)  # fmt: skip
DIAGNOSES = ("cardiac", "diabetes", "renal")
# How many patients of each diagnosis a hospital has: each has mostly one of them.
PATIENTS = {
    "hospital-a": (120, 30, 20),
    "hospital-b": (25, 90, 25),
    "hospital-c": (15, 20, 75),
}
# Mean and standard deviation of each diagnosis, in the columns' order; made up to be separable.
_MEASURES = {
    #          age       bmi        systolic   heart_rate
    "cardiac": ((68, 9), (27.0, 3.5), (152, 13), (91, 10)),
    "diabetes": ((54, 10), (33.5, 4.0), (136, 12), (77, 8)),
    "renal": ((61, 11), (25.0, 3.0), (143, 12), (74, 8)),
}
# Mean and standard deviation of the logarithm: these are never negative and have long tails.
_SKEWED = {
    #          creatinine    glucose       crp
    "cardiac": ((4.5, 0.18), (1.72, 0.12), (1.6, 0.6)),
    "diabetes": ((4.4, 0.18), (2.35, 0.20), (1.2, 0.6)),
    "renal": ((5.6, 0.25), (1.70, 0.12), (1.3, 0.6)),
}
_SMOKING = ("never", "former", "current")
# Shares of `_SMOKING`.
_SMOKERS = {
    "cardiac": (0.25, 0.3, 0.45),
    "diabetes": (0.5, 0.25, 0.25),
    "renal": (0.6, 0.2, 0.2),
}
_NOT_MEASURED = 0.08  # share of patients without a crp: the last measure's cell is empty then
_DECIMALS = (0, 1, 0, 0, 0, 1, 1)  # as such measures are written down


def _patients(diagnosis: str, n: int, random: np.random.Generator) -> list[list[str]]:
    """Return the cells of `n` patients, all but id and diagnosis."""
    mean, deviation = np.transpose(_MEASURES[diagnosis])
    plain = random.normal(mean, deviation, size=(n, len(mean)))
    log_mean, log_deviation = np.transpose(_SKEWED[diagnosis])
    skewed = random.lognormal(log_mean, log_deviation, size=(n, len(log_mean)))
    smoking = random.choice(_SMOKING, size=n, p=_SMOKERS[diagnosis])
    measured = random.random(n) >= _NOT_MEASURED
    rows = []
    for values, is_there, word in zip(np.hstack([plain, skewed]), measured, smoking, strict=True):
        cells = [f"{v:.{d}f}" for v, d in zip(values, _DECIMALS, strict=True)]
        rows.append([*cells[:-1], cells[-1] if is_there else "", str(word)])
    return rows


def hospital_tables(seed: int = 0) -> dict[str, Sequence[Sequence[str]]]:
    """Return a table of made-up patients for each of three hospitals.

    Parameters
    ----------
    seed : int
        Random state of the patients.

    Returns
    -------
    dict of str to list of rows
        By the hospital's name; the first row names the columns: an id, seven measures of very
        different size, some with long tails and one with gaps, a column of words, and the
        diagnosis that all of them were drawn from.

    Examples
    --------
    >>> from daskfc.examples import hospital_tables
    >>> tables = hospital_tables()
    >>> [len(table) - 1 for table in tables.values()]
    [170, 140, 110]
    >>> tables["hospital-a"][1][0]
    'synthetic-a-001'
    """
    tables: dict[str, Sequence[Sequence[str]]] = {}
    for hospital, counts in PATIENTS.items():
        random = generator(seed, "example", hospital)
        found = [
            [*cells, diagnosis]
            for diagnosis, n in zip(DIAGNOSES, counts, strict=True)
            for cells in _patients(diagnosis, n, random)
        ]
        letter = hospital[-1]
        rows = [
            [f"synthetic-{letter}-{number:03d}", *found[i]]
            for number, i in enumerate(random.permutation(len(found)), start=1)
        ]
        tables[hospital] = [list(COLUMNS), *rows]
    return tables
