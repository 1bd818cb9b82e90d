"""Measure labels that count each client's own shares of clusters, where clients differ.

    python -m pipelines.papers.kmeans.priors --data FOLDER

It writes docs/results/k-means-priors.md. FOLDER holds mnist.npz and coil20_20x20.npz. With
`--records FILE` every finished piece is kept there, and a second start goes on with what is
missing.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.preprocessing import StandardScaler

from daskfc.baselines import FFCM
from daskfc.metrics import METRICS
from daskfc.protocols import FederatedKMeans
from daskfc.seeds import generator
from daskfc.stores.dealing.partitions import label_skew
from pipelines.papers.federations import holding
from pipelines.papers.journal import Journal, Record, carry_out, command_line
from pipelines.papers.means import Means, of_kind
from pipelines.papers.results import markdown_table, write_page

__all__ = ["SETS", "render"]

SKEWS = (0.0, 0.25, 0.5, 0.75, 1.0)
SEEDS = range(3)
FEW = 600  # samples, below which five clients have them, and else ten
METHODS = {
    "nearest": "FederatedKMeans, the nearest centre",
    "priors": "with `client_priors: true`",
    "FFCM": "FFCM, ten clients' centres averaged",
}
CHOSEN_ON = ("MNIST, 1,000", "MNIST, 5,000")


def _of_file(name: str, n: int | None = None) -> Callable[[Path], tuple[np.ndarray, np.ndarray]]:
    def read(folder: Path) -> tuple[np.ndarray, np.ndarray]:
        with np.load(folder / f"{name}.npz") as stored:
            X, y = stored["X"].astype(np.float64), stored["y"].astype(np.int64)
        if n is not None:
            rows = generator(0, "samples", n).choice(len(X), n, replace=False)
            X, y = X[rows] / 255.0, y[rows]
        return X, y

    return read


def _bundled(load: Callable[..., tuple[np.ndarray, np.ndarray]], scaled: bool) -> Callable:
    def read(_: Path) -> tuple[np.ndarray, np.ndarray]:
        X, y = load(return_X_y=True)
        return np.asarray(StandardScaler().fit_transform(X) if scaled else X), y

    return read


SETS: dict[str, Callable[[Path], tuple[np.ndarray, np.ndarray]]] = {
    "MNIST, 1,000": _of_file("mnist", 1000),
    "MNIST, 5,000": _of_file("mnist", 5000),
    "digits": _bundled(load_digits, scaled=False),
    "COIL20": _of_file("coil20_20x20"),
    "iris": _bundled(load_iris, scaled=False),
    "wine, standardised": _bundled(load_wine, scaled=True),
    "breast cancer, standardised": _bundled(load_breast_cancer, scaled=True),
}
NAMES = {name.replace(", ", "-").replace(",", "").replace(" ", "-"): name for name in SETS}


def piece(data: str, folder: Path, skew: float) -> Iterator[Record]:
    """Yield scores of one set at one skew of labels."""
    X, y = SETS[data](folder)
    k = len(np.unique(y))
    clients = 10 if len(X) >= FEW else 5
    with holding(X, y, label_skew(y, clients, skew=skew, seed=0)) as federation:
        for seed in SEEDS:
            models = {
                "nearest": FederatedKMeans(k, random_state=seed),
                "priors": FederatedKMeans(k, client_priors=True, random_state=seed),
                "FFCM": FFCM(k, random_state=seed),
            }
            for method, model in models.items():
                model.fit(federation)
                rows = model.labels_["sample_id"].to_numpy().astype(int)
                found = model.labels_.to_numpy()
                kappa = float(METRICS["kappa"](y[rows], found))
                about = {"kind": "priors", "data": data, "n": len(X), "skew": skew, "seed": seed}
                told = getattr(model, "overdispersion_", None) if method == "priors" else None
                yield {**about, "method": method, "kappa": kappa, "overdispersion": told}


def render(records: Sequence[Record]) -> str:
    """Return the page."""
    means = Means(3)
    rows, worst = [], 0.0
    for data in SETS:
        for skew in SKEWS:
            held = {
                one: of_kind(records, "priors", data=data, skew=skew, method=one) for one in METHODS
            }
            values = {one: means.of(own, "kappa") for one, own in held.items()}
            nearest, priors = values["nearest"], values["priors"]
            if nearest is None or priors is None:
                continue
            gain = priors[0] - nearest[0]
            worst = min(worst, gain)
            rho = means.of(held["priors"], "overdispersion")
            rows.append([
                data, "yes" if data in CHOSEN_ON else "no", f"{held['nearest'][0]['n']:,}",
                f"{skew:g}", *(means.text(value) for value in values.values()), f"{gain:+.3f}",
                means.text(rho),
            ])  # fmt: skip
    columns = ["data", "chosen on", "samples", "skew", *METHODS, "gain", "overdispersion"]
    told = "; ".join(f"*{name}*: {words}" for name, words in METHODS.items())
    return (
        "# k-means where clients have different clusters\n\n"
        "Written by `python -m pipelines.papers.kmeans.priors --data FOLDER`. Cohen's kappa over "
        f"{len(SEEDS)} seeds, mean ± standard deviation, through real federations of ten clients, "
        "five where samples are few. *Skew*: the share of the samples that are dealt by label, so "
        "that clients have different clusters; labels serve for that and for the scores alone. A "
        "client gets one class so: of COIL20's, of 72 samples each, that is half of what it has, "
        "and skews above are the same dealing. "
        f"{told}. *Overdispersion*: what the fit found of how unlike the clients are, from 0 to 1. "
        "*Chosen on*: the temperature, a fifth of the mean squared distance, was chosen on these "
        "samples by their labels.\n\n"
        f"{markdown_table(columns, rows, left=1)}\n\n"
        f"The largest loss against the nearest centre is {abs(worst):.3f}. FFCM's centres come of "
        "each client's own clusters, which is why it gains where a client has one class: who a "
        "client is tells its labels.\n"
    )  # fmt: skip


def main() -> None:
    """Read the command line, run what is missing, and write the page after every piece."""
    args, chosen = command_line(__doc__ or "", "k-means-priors", tuple(NAMES))
    journal = Journal(args.records)
    carry_out(
        [
            (f"{name}, skew {skew:g}", piece(NAMES[name], args.data, skew))
            for name in chosen
            for skew in SKEWS
        ],
        journal,
        write=lambda: write_page(args.out, render(journal.records)),
        shown="data skew seed method kappa overdispersion".split(),
    )


if __name__ == "__main__":
    main()
