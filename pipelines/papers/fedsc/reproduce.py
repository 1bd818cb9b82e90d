"""Reproduce the FedSC paper's tables through real federations and write docs/results/fedsc.md.

Its figures need matplotlib, which `pip install 'daskfc[figures]'` brings.

    python -m pipelines.papers.fedsc.reproduce --data FOLDER

FOLDER holds iris.npz, coil20_20x20.npz, banknote.npz, mnist.npz and concentric_circles.npz. The
file `cell.yaml` beside this program, or the pipeline that is named first, gives the seeds, this
program the cells. With `--records FILE` every finished piece is kept there, and a second start
goes on with what is missing. Parts: iris, coil20, banknote, circles, mnist (Tables 1, 3 and
8), atoms (4), factors (5), attack (6), single (7), figure (3), rounds, bounds, reconstruction.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from daskfc.baselines import DSC
from daskfc.federation import Federation
from daskfc.federation.methods.estimator import FederatedClusterer
from daskfc.metrics import accuracy
from daskfc.protocols import FedSC
from daskfc.protocols.fedsc.privacy.attacks import cluster_coefficients
from daskfc.runs import load_pipeline
from pipelines.papers.fedsc.cells import (
    DATASETS,
    N_INIT,
    Pool,
    atoms_holding,
    in_order,
    opened,
    pooled,
    published_settings,
    scores,
    spectral,
)
from pipelines.papers.fedsc.factors import (
    FactorsSeen,
    bound_of_data,
    bound_of_factors,
    cluster_largest,
    reconstruction,
    similarity_error,
)
from pipelines.papers.fedsc.figures import draw
from pipelines.papers.fedsc.tables import render
from pipelines.papers.fedsc.values import ATOMS, FACTORS, SVD_ATOMS
from pipelines.papers.journal import Journal, Record, carry_out, command_line
from pipelines.papers.results import write_page

ROUNDS = (1, 2, 3, 5, 10, 20)  # S of the errors
BOUNDED = (0.01, 0.1)  # noise beside the bounds, in standard deviations
TABLES = ("iris", "coil20", "banknote", "circles", "mnist")  # parts of Tables 1, 3 and 8
PARTS = (*TABLES, *"atoms factors attack single figure rounds bounds reconstruction".split())
FEW = {"figure": 5, "rounds": 3, "bounds": 3, "reconstruction": 3}  # seeds of these parts
N_ATTACKED = 100  # rows that are reconstructed where they are long


@dataclass(frozen=True)
class Cell:
    """A data set at one seed, with noise, dealt to clients.

    Parameters
    ----------
    data : str
        A key of `DATASETS`.
    clean, pool : Pool
        Before and after the noise.
    seed : int
        Of the split, of the noise and of the algorithms.
    federation : Federation
        Of the clients.
    """

    data: str
    clean: Pool
    pool: Pool
    seed: int
    federation: Federation

    @property
    def settings(self) -> dict[str, dict[str, Any]]:
        """FedSC's parameters by the name of the setting."""
        return {"published": published_settings(self.clean, self.pool), "defaults": {}}

    def fit(self, **params: Any) -> tuple[FedSC, Record]:
        """Fit FedSC and return it with its scores."""
        model = FedSC(
            DATASETS[self.data].n_clusters, **params, n_init=N_INIT, random_state=self.seed
        )
        record = self.judged(model)
        return model, {**record, "atoms": model.n_atoms_, "rounds": model.n_rounds_}

    def judged(self, model: FederatedClusterer) -> Record:
        """Fit a method and compare its labels with the classes."""
        model.fit(self.federation)
        found = scores(self.pool.y[in_order(model.labels_)], model.labels_.values)
        about = {"data": self.data, "seed": self.seed}
        return {**about, **found, "seconds": model.timing_["total_s"]}

    def seen(self, model: FedSC) -> FactorsSeen:
        """Return the factors that the server of the last fit has, with the rows they belong to."""
        view = model.server_view(self.federation)
        rows = in_order(model.labels_)
        return FactorsSeen(
            Z=view.dictionary,
            C=view.coefficients,
            true=self.clean.X[rows],
            given=self.pool.X[rows],
            width=model.kernel_width_,
            ridge=model.ridge,
        )


@contextmanager
def dealt(name: str, clean: Pool, pool: Pool, seed: int, **deal: Any) -> Iterator[Cell]:
    """Deal a pool to clients and open their federation."""
    with opened(pool, DATASETS[name].deal(pool, seed, **deal)) as federation:
        yield Cell(name, clean, pool, seed, federation)


@dataclass(frozen=True)
class Study:
    """The parts, each of which yields pieces, and a piece yields records.

    Parameters
    ----------
    data : Path
        Folder with the data sets.
    seeds : tuple of int
        Of iris, banknote and the circles; the first five of them for the others.
    """

    data: Path
    seeds: tuple[int, ...]

    def seeds_of(self, name: str) -> tuple[int, ...]:
        """Return the seeds of a data set."""
        return self.seeds[: DATASETS[name].n_seeds]

    def pieces(self, part: str) -> Iterator[tuple[str, Iterator[Record]]]:
        """Yield the pieces of a part that are kept together; nothing runs before they are read."""
        if part in TABLES:
            spec = DATASETS[part]
            for noise in spec.noise:
                for split in spec.splits:
                    for seed in self.seeds_of(part):
                        name = f"{part}, noise {noise:g}, {split}, seed {seed}"
                        yield name, self.cells(part, noise, split, seed)
            return
        over: dict[str, tuple[tuple[str, ...], Callable[[str, int], Iterator[Record]]]] = {
            "atoms": (("coil20",), self.atoms),
            "factors": (("coil20",), self.factors),
            "attack": (("iris", "coil20", "banknote"), self.attack),
            "single": (("iris", "coil20", "banknote"), self.single),
            "figure": (("circles",), self.figure),
            "rounds": (("iris", "coil20"), self.rounds),
            "bounds": (("iris", "coil20"), self.bounds),
            "reconstruction": (("iris", "coil20"), self.reconstruction),
        }
        names, study = over[part]
        for name in names:
            for seed in self.seeds_of(name)[: FEW.get(part)]:
                yield f"{part}, {name}, seed {seed}", study(name, seed)

    @contextmanager
    def cell(self, name: str, seed: int, noise: float = 0.0, **deal: Any) -> Iterator[Cell]:
        """Read a data set, add noise to it, and deal it to clients."""
        clean = DATASETS[name].read(self.data, seed)
        pool = clean.noisy(noise, name, seed) if noise else clean
        with dealt(name, clean, pool, seed, **deal) as cell:
            yield cell

    def cells(self, name: str, noise: float, split: str, seed: int) -> Iterator[Record]:
        """Tables 1, 3 and 8: all methods on the same noisy data."""
        about = {"kind": "cell", "data": name, "noise": noise, "seed": seed, "split": split}
        k = DATASETS[name].n_clusters
        with self.cell(name, seed, noise, split=split) as cell:
            if split == "equal":  # the others do not see the split, and DSC needs K samples of each
                for record in pooled(cell.pool, k, seed):
                    yield {**about, **record}
                yield {**about, "method": "DSC", **cell.judged(DSC(k, random_state=seed))}
            for setting, params in cell.settings.items():
                yield {**about, "method": "FedSC", "setting": setting, **cell.fit(**params)[1]}

    def atoms(self, name: str, seed: int) -> Iterator[Record]:
        """Table 4: other numbers of atoms, for clients as in Table 1."""
        with self.cell(name, seed, split="unequal") as cell:
            for setting, params in cell.settings.items():
                for d in ATOMS:
                    record = cell.fit(**{**params, "n_atoms": d})[1]
                    own = params.get("n_atoms", 0) if d == SVD_ATOMS else 0
                    yield {"kind": "atoms", "setting": setting, "svd": own, **record}

    def factors(self, name: str, seed: int) -> Iterator[Record]:
        """Table 5: noise on the factors; from the operating system, so that no seed repeats it."""
        with self.cell(name, seed) as cell:
            for setting, params in cell.settings.items():
                for z, c in FACTORS:
                    noise = {
                        "kind": "factors",
                        "relative_dictionary": z,
                        "relative_coefficients": c,
                    }
                    record = cell.fit(**params, noise=noise)[1]
                    yield {"kind": "factors", "setting": setting, "z": z, "c": c, **record}

    def attack(self, name: str, seed: int) -> Iterator[Record]:
        """Table 6: k-means on the coefficients that the server has."""
        with self.cell(name, seed) as cell:
            for setting, params in cell.settings.items():
                model, record = cell.fit(**params)
                seen = cell.seen(model)
                k = DATASETS[name].n_clusters
                found = cluster_coefficients(seen.C, k, seed, n_init=N_INIT)
                y = cell.pool.y[in_order(model.labels_)]
                attacked = {"attack": accuracy(y, found)}
                yield {"kind": "attack", "setting": setting, **record, **attacked}

    def single(self, name: str, seed: int) -> Iterator[Record]:
        """Table 7: one client; eight are in Table 1."""
        with self.cell(name, seed, clients=1) as cell:
            for setting, params in cell.settings.items():
                record = cell.fit(**params, averaging="plain")[1]
                yield {"kind": "single", "setting": setting, **record}

    def figure(self, name: str, seed: int) -> Iterator[Record]:
        """Fig. 3: the published circles, clean and noisy, with the published atom and with more."""
        with np.load(self.data / "concentric_circles.npz") as file:
            y = file["y"].astype(np.int64)
            pools = {key: Pool(file[key], y) for key in ("X", "X_noisy")}
        for key, pool in pools.items():
            about = {"kind": "figure", "noisy": key == "X_noisy", "seed": seed}
            labels, components = spectral(pool.X, 2, seed)
            found = {"components": components, **scores(y, labels)}
            yield {**about, "method": "SC", **found}
            with dealt(name, pools["X"], pool, seed) as cell:
                published = cell.settings["published"]
                one = {"n_atoms": atoms_holding(pools["X"].X, 0.1), "ridge": 1e-4}
                for setting, params in {
                    "published for this figure": {**published, **one},
                    "published for the tables": published,
                    "defaults": {},
                }.items():
                    model, record = cell.fit(**params)
                    record = {**about, "method": "FedSC", **record}
                    yield {**record, "setting": setting}
                    if setting == "published for this figure":
                        other = cluster_largest(cell.seen(model), 2, seed, N_INIT)
                        judged = scores(y[in_order(model.labels_)], other)
                        yield {**record, "setting": f"{setting}, its graph", **judged}

    def rounds(self, name: str, seed: int) -> Iterator[Record]:
        """How far the server's similarities are from the true kernel after some rounds."""
        with self.cell(name, seed) as cell:
            for setting, params in cell.settings.items():
                for count in ROUNDS:
                    model, record = cell.fit(**{**params, "rounds": count})
                    error = similarity_error(cell.seen(model))
                    yield {"kind": "rounds", "setting": setting, **record, **error}

    def bounds(self, name: str, seed: int) -> Iterator[Record]:
        """Theorems 3.1 and 3.8 beside what is measured."""
        about = {"kind": "bounds", "data": name, "seed": seed}
        for noise in (0.0, *BOUNDED):
            with self.cell(name, seed, noise) as cell:
                seen = cell.seen(cell.fit()[0])
            sigma = noise * float(cell.clean.X.std())
            yield {**about, "theorem": "3.1", "noise": noise, **bound_of_data(seen, sigma)}
            if noise == 0:
                for share in BOUNDED:
                    found = bound_of_factors(seen, share, seed)
                    yield {**about, "theorem": "3.8", "noise": share, **found}

    def reconstruction(self, name: str, seed: int) -> Iterator[Record]:
        """Recover the samples from what the server has."""
        about = {"kind": "reconstruction", "data": name, "seed": seed}
        with self.cell(name, seed) as cell:
            seen = cell.seen(cell.fit()[0])
        yield {**about, **reconstruction(seen, N_ATTACKED)}


SHOWN = (
    "data noise split method setting theorem z c atoms rounds seed acc nmi attack relative largest "
    "error bound seconds"
).split()


def timed(part: str, records: Iterator[Record]) -> Iterator[Record]:
    """Yield the records, then how long they took."""
    started = time.monotonic()
    yield from records
    yield {"kind": "seconds", "of": part, "seconds": time.monotonic() - started}


def main() -> None:
    """Read the command line, run what is missing, and write the page after every piece."""
    args, chosen = command_line(__doc__, "fedsc", PARTS, Path(__file__).with_name("cell.yaml"))
    study = Study(args.data, tuple(load_pipeline(args.pipeline).seeds))
    journal = Journal(args.records)
    pieces = [
        (name, timed(part, records)) for part in chosen for name, records in study.pieces(part)
    ]
    carry_out(
        pieces,
        journal,
        write=lambda: write_page(args.out, render(journal.records)),
        shown=SHOWN,
    )
    draw(journal.records, args.out.parent / "figures")


if __name__ == "__main__":
    main()
