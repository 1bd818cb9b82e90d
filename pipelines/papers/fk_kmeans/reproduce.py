"""Reproduce "A communication efficient federated kernel k-means" through real federations.

It writes docs/results/fk-kmeans.md, and figures, which need matplotlib:
`pip install 'daskfc[figures]'`.

    python -m pipelines.papers.fk_kmeans.reproduce --data FOLDER

FOLDER holds mushrooms.npz and mnist.npz. `cell.yaml` beside this program, or the pipeline that is
named first, gives the seeds. With `--records FILE` every finished piece is kept there, and a second
start goes on with what is missing. `--samples N` and `--iterations N` are for a first look: a page
that is made with them says so. Parts: convergence (Fig. 1), communication (2), mushrooms and mnist
(3), noise, attack, scale, speed, rounds.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from daskfc.clustering.kernels.width import interpoint_width
from daskfc.runs import load_pipeline
from pipelines.papers.fk_kmeans.attack import ATTACKED, FEATURES, attacks, sizes_of
from pipelines.papers.fk_kmeans.data import DATASETS, Pool, opened
from pipelines.papers.fk_kmeans.figures import draw
from pipelines.papers.fk_kmeans.fits import (
    VERSIONS,
    communication,
    convergence,
    noisy,
    rounds_of,
)
from pipelines.papers.fk_kmeans.quality import (
    METHODS,
    ON_SUMS,
    OURS,
    central,
    on_sums,
    others,
    ours,
)
from pipelines.papers.fk_kmeans.recovery import exact_coordinates
from pipelines.papers.fk_kmeans.scale import SCALE_ITERATIONS, TIMED_ITERATIONS, scale, speed
from pipelines.papers.fk_kmeans.tables import render
from pipelines.papers.fk_kmeans.values import FEW_ITERATIONS, ITERATIONS
from pipelines.papers.journal import Journal, Record, carry_out, command_line
from pipelines.papers.results import write_page

FIGURES = {"mushrooms": "mushrooms", "mnist": "MNIST"}  # parts of Fig. 3
PARTS = ("convergence", "communication", *FIGURES, "noise", "attack", "scale", "speed", "rounds")
LIMITS = {"samples": "at most so many of every data set", "iterations": "at most so many of a fit"}

CURVES = ("mushrooms", "MNIST-small")
UNCOMPRESSED = {"mushrooms": 50, "MNIST-small": 5}  # iterations without CEM, of Fig. 1
UPLOADS = {"mushrooms": 20, "MNIST": 5, "covtype": 3}  # iterations, of Fig. 2
EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0, None)
NOISY = ("mushrooms", "MNIST")
NOISY_ITERATIONS = 5
SHARES = (4, 2, 1)  # n over these
BLOCKS = (1, 4, 8, 0)  # of Lanczos; 0 is the one sum
ROUND_FEATURES = (15, 200)  # D of the rounds
ROUND_ITERATIONS = 4
# Seeds, where not all; a pooled fit of 60,000 samples takes minutes, and so does Lanczos, which
# finds the eigenpairs that one sum gives.
FEW = {
    "noise": 5,
    "attack": 3,
    "speed": 3,
    "CK k-means, MNIST": 3,
    "FK k-means, Lanczos, MNIST": 3,
    f"{ON_SUMS}, MNIST": 5,
}


@dataclass(frozen=True)
class Study:
    """The parts, each of which yields pieces, and a piece yields records.

    Parameters
    ----------
    data : Path
        Folder with the data sets.
    seeds : tuple of int
        Of everything that has several.
    samples, iterations : int, optional
        For a first look.
    """

    data: Path
    seeds: tuple[int, ...]
    samples: int | None = None
    iterations: int | None = None
    _exact: dict[str, NDArray[np.float64]] = field(default_factory=dict, repr=False)

    @property
    def limits(self) -> dict[str, int]:
        """What makes it a first look; nothing where it is none."""
        limits = {"samples": self.samples, "iterations": self.iterations}
        return {name: value for name, value in limits.items() if value is not None}

    def pieces(self, part: str) -> Iterator[tuple[str, Iterator[Record]]]:
        """Yield the pieces of a part that are kept together; nothing runs before they are read."""
        for name, records in self._pieces(part):
            limits = "".join(f", {key} {value}" for key, value in self.limits.items())
            yield f"{part}, {name}{limits}", self._limited(records)

    def _pieces(self, part: str) -> Iterator[tuple[str, Iterator[Record]]]:
        if part in FIGURES:
            return self._quality(FIGURES[part])
        over: dict[str, Callable[[], Iterator[tuple[str, Iterator[Record]]]]] = {
            "convergence": self._convergence,
            "communication": self._communication,
            "noise": self._noise,
            "attack": self._attack,
            "scale": self._scale,
            "speed": self._speed,
            "rounds": self._rounds,
        }
        return over[part]()

    def _limited(self, records: Iterator[Record]) -> Iterator[Record]:
        for record in records:
            yield {**record, "limits": self.limits} if self.limits else record

    def _pool(self, name: str) -> Pool:
        return DATASETS[name].read(self.data, self.samples)

    def _upto(self, iterations: int) -> int:
        return min(iterations, self.iterations or iterations)

    # -- Fig. 1 -------------------------------------------------------------------------------

    def _convergence(self) -> Iterator[tuple[str, Iterator[Record]]]:
        for name in CURVES:
            for version in VERSIONS:
                for seed in self.seeds if version == "CEM, one sum" else self.seeds[:1]:
                    piece = f"{name}, {version}, seed {seed}"
                    yield piece, self.curve(name, version, seed)

    def curve(self, name: str, version: str, seed: int) -> Iterator[Record]:
        """Errors over the iterations."""
        pool, data = self._pool(name), DATASETS[name]
        width = interpoint_width(pool.X)
        if name not in self._exact:
            self._exact[name], converged = exact_coordinates(
                pool.X, width, data.setting.n_eigenvectors
            )
            assert converged, name
        T = self._upto(UNCOMPRESSED[name] if version == "without CEM" else max(ITERATIONS))
        with opened(pool, seed) as federation:
            record = convergence(federation, pool, data, version, seed, T, self._exact[name])
        yield {**record, "pooled_width": width}

    # -- Fig. 2 -------------------------------------------------------------------------------

    def _communication(self) -> Iterator[tuple[str, Iterator[Record]]]:
        for name in UPLOADS:
            for version in VERSIONS:
                yield f"{name}, {version}", self.uploads(name, version)

    def uploads(self, name: str, version: str) -> Iterator[Record]:
        """Numbers uploaded in every iteration."""
        pool, T = self._pool(name), self._upto(UPLOADS[name])
        with opened(pool, self.seeds[0], server_memory="8GB") as federation:
            yield communication(federation, pool, DATASETS[name], version, self.seeds[0], T)

    # -- Fig. 3 -------------------------------------------------------------------------------

    def _quality(self, name: str) -> Iterator[tuple[str, Iterator[Record]]]:
        for method in METHODS:
            for seed in self.seeds[: FEW.get(f"{method}, {name}")]:
                yield f"{method}, seed {seed}", self.quality(name, method, seed)
                few = FEW_ITERATIONS.get(name)
                if few and method in OURS:
                    piece = f"{method}, few iterations, seed {seed}"
                    yield piece, self.quality(name, method, seed, few)

    def quality(
        self, name: str, method: str, seed: int, iterations: Sequence[int] = ITERATIONS
    ) -> Iterator[Record]:
        """NMI beside uploads."""
        pool, data = self._pool(name), DATASETS[name]
        with opened(pool, seed, server_memory="8GB") as federation:
            if method in OURS:
                ends = sorted({self._upto(T) for T in iterations})
                yield from ours(federation, pool, data, method, seed, ends)
            elif method == ON_SUMS:
                yield from on_sums(federation, pool, data, seed, self._upto(max(ITERATIONS)))
            elif method.startswith(("CK", "SK")):
                yield from central(federation, pool, data, method, seed)
            else:
                yield from others(federation, pool, data, method, seed)

    # -- ours ---------------------------------------------------------------------------------

    def _noise(self) -> Iterator[tuple[str, Iterator[Record]]]:
        for name in NOISY:
            for seed in self.seeds[: FEW["noise"]]:
                yield f"{name}, seed {seed}", self.noise(name, seed)

    def noise(self, name: str, seed: int) -> Iterator[Record]:
        """NMI beside ε; the noise is the operating system's, so that no seed repeats it."""
        pool, T = self._pool(name), self._upto(NOISY_ITERATIONS)
        with opened(pool, seed) as federation:
            for epsilon in EPSILONS:
                yield noisy(federation, pool, DATASETS[name], epsilon, seed, T)

    def _attack(self) -> Iterator[tuple[str, Iterator[Record]]]:
        for name in ATTACKED:
            for n_features in FEATURES:
                for seed in self.seeds[: FEW["attack"]]:
                    piece = f"{name}, D = {n_features}, seed {seed}"
                    yield piece, self.attack(name, n_features, seed)

    def attack(self, name: str, n_features: int, seed: int) -> Iterator[Record]:
        """Shares of samples that the server finds."""
        for size in sizes_of(name):
            if self.samples is None or size <= self.samples:
                yield from attacks(name, n_features, size, seed)

    def _scale(self) -> Iterator[tuple[str, Iterator[Record]]]:
        for share in SHARES:
            yield f"n / {share}", self.scale(share)

    def scale(self, share: int) -> Iterator[Record]:
        """Speed and memory of parties of 2 GB."""
        data, T = DATASETS["covtype"], self._upto(SCALE_ITERATIONS)
        pool = self._pool("covtype")
        pool = pool.drawn(len(pool.y) // share, "share", share)
        with opened(pool, self.seeds[0], server_memory="2GB") as federation:
            yield scale(federation, pool, data, T)

    def _speed(self) -> Iterator[tuple[str, Iterator[Record]]]:
        for seed in self.seeds[: FEW["speed"]]:
            yield f"seed {seed}", self.speed(seed)

    def speed(self, seed: int) -> Iterator[Record]:
        """Seconds beside scikit-learn's."""
        pool = self._pool("MNIST")
        with opened(pool, seed) as federation:
            yield speed(federation, pool, DATASETS["MNIST"], seed, self._upto(TIMED_ITERATIONS))

    def _rounds(self) -> Iterator[tuple[str, Iterator[Record]]]:
        yield "mushrooms", self.rounds()

    def rounds(self) -> Iterator[Record]:
        """Messages, bytes and milliseconds of rounds."""
        pool, data, T = self._pool("mushrooms"), DATASETS["mushrooms"], self._upto(ROUND_ITERATIONS)
        with opened(pool, self.seeds[0]) as federation:
            for n_features in ROUND_FEATURES:
                for block in BLOCKS:
                    yield rounds_of(federation, data, n_features, block, T)


SHOWN = (
    "data version method setting D size block masked epsilon seed n nmi floats share ours seconds"
).split()


def main() -> None:
    """Read the command line, run what is missing, and write the page after every piece."""
    pipeline = Path(__file__).with_name("cell.yaml")
    args, chosen = command_line(__doc__, "fk-kmeans", PARTS, pipeline, LIMITS)
    seeds = tuple(load_pipeline(args.pipeline).seeds)
    study = Study(args.data, seeds, args.samples, args.iterations)
    journal = Journal(args.records)
    pieces = [piece for part in chosen for piece in study.pieces(part)]
    carry_out(
        pieces,
        journal,
        write=lambda: write_page(args.out, render(journal.records)),
        shown=SHOWN,
    )
    draw(journal.records, args.out.parent / "figures")


if __name__ == "__main__":
    main()
