"""Reproduce "An Effective and Secure Federated Multi-View Clustering Method ...", ESFMC.

It writes docs/results/esfmc.md, through real federations.

    python -m pipelines.papers.esfmc.reproduce --data FOLDER

FOLDER holds hw_mfeat.npz, synthetic3d.npz and bdgp.npz. `cell.yaml` beside this program, or the
pipeline that is named first, gives the seeds. With `--records FILE` every finished piece is kept
there, and a second start goes on with what is missing. `--samples N` is for a first look: a page
that is made with it says so. Figures need matplotlib: `pip install 'daskfc[figures]'`.

Parts: complete (Table 1), half (Table 2), ablation (Table 3), sharing (Table 5), overlap (Fig. 2),
convergence, alpha and attack (Fig. 3(a), (b) and (c)), clients (Fig. 4), variants (what may be
shared in place of Z_c), printed (Tables 1 and 2 by the paper's text as it stands), time (where the
seconds of a fit go).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from daskfc.errors import PartyError
from daskfc.runs import load_pipeline
from pipelines.papers.esfmc.figures import draw
from pipelines.papers.esfmc.fits import (
    BASELINES,
    attacked,
    losses_of,
    made,
    opened,
    scored,
    timed,
    variant,
)
from pipelines.papers.esfmc.tables import render
from pipelines.papers.esfmc.values import ABLATED, ALPHAS, CLIENTS, DATASETS, SHARES, VARIANTS
from pipelines.papers.journal import Journal, Record, carry_out, command_line
from pipelines.papers.results import write_page

PARTS = (
    "complete",
    "half",
    "variants",
    "ablation",
    "sharing",
    "overlap",
    "convergence",
    "alpha",
    "attack",
    "clients",
    "printed",
    "time",
)
LIMITS = {"samples": "at most so many of every data set"}
MODES = ("local", "align")
OVERLAPS = (0.1, 0.3, 0.7, 0.9)  # of Fig. 2, beside 0.5 and 1
FEW = 2  # seeds of figures, and of Tables 3 and 5
ATTACKED = ("HW", "BDGP")
TIMED = ("HW", "Synthetic3d", "BDGP")


@dataclass(frozen=True)
class Study:
    """The parts, each of which yields pieces, and a piece yields records.

    Parameters
    ----------
    data : Path
        Folder with the data sets.
    seeds : tuple of int
        Of everything that has several.
    samples : int, optional
        For a first look.
    """

    data: Path
    seeds: tuple[int, ...]
    samples: int | None = None

    def pieces(self, part: str) -> Iterator[tuple[str, Iterator[Record]]]:
        """Yield the pieces of a part that are kept together; nothing runs before they are read."""
        over: dict[str, Callable[[], Iterator[tuple[str, Iterator[Record]]]]] = {
            "complete": self._complete,
            "half": self._half,
            "sharing": self._sharing,
            "attack": self._attack,
            "overlap": self._overlap,
            "printed": self._printed,
            "ablation": self._ablation,
            "convergence": self._convergence,
            "alpha": self._alpha,
            "clients": self._clients,
            "variants": self._variants,
            "time": self._time,
        }
        limit = "" if self.samples is None else f", samples {self.samples}"
        for name, records in over[part]():
            yield f"{part}, {name}{limit}", self._limited(records)

    def _limited(self, records: Iterator[Record]) -> Iterator[Record]:
        for record in records:
            yield record if self.samples is None else {**record, "samples": self.samples}

    def _over(
        self, names: tuple[str, ...], records: Callable[[str, int], Iterator[Record]], few: int = 99
    ) -> Iterator[tuple[str, Iterator[Record]]]:
        for name in names:
            for seed in self.seeds[:few]:
                yield f"{name}, seed {seed}", records(name, seed)

    def _complete(self) -> Iterator[tuple[str, Iterator[Record]]]:
        return self._over(tuple(DATASETS), lambda name, seed: self._accuracy(name, seed, 1.0))

    def _half(self) -> Iterator[tuple[str, Iterator[Record]]]:
        return self._over(("BDGP",), lambda name, seed: self._accuracy(name, seed, 0.5))

    def _overlap(self) -> Iterator[tuple[str, Iterator[Record]]]:
        for overlap in OVERLAPS:
            for name, records in self._over(
                ("BDGP",), lambda name, seed, at=overlap: self._ours(name, seed, at), FEW
            ):
                yield f"{name}, overlap {overlap:g}", records

    def _sharing(self) -> Iterator[tuple[str, Iterator[Record]]]:
        return self._over(("HW", "BDGP"), self.sharing, FEW)

    def _ablation(self) -> Iterator[tuple[str, Iterator[Record]]]:
        return self._over(tuple(ABLATED), self.ablation, FEW)

    def _convergence(self) -> Iterator[tuple[str, Iterator[Record]]]:
        return self._over(("BDGP",), self.convergence, 1)

    def _alpha(self) -> Iterator[tuple[str, Iterator[Record]]]:
        return self._over(("BDGP",), self.alpha, FEW)

    def _clients(self) -> Iterator[tuple[str, Iterator[Record]]]:
        for name, several in CLIENTS.items():
            for each in several:
                for piece, records in self._over(
                    (name,), lambda name, seed, each=each: self.clients(name, seed, each), 1
                ):
                    yield f"{piece}, {each} clients a view", records

    def _variants(self) -> Iterator[tuple[str, Iterator[Record]]]:
        return self._over(("HW", "BDGP"), self.variants, FEW)

    def _time(self) -> Iterator[tuple[str, Iterator[Record]]]:
        return self._over(TIMED, self.time, 1)

    def _attack(self) -> Iterator[tuple[str, Iterator[Record]]]:
        return self._over(ATTACKED, self.attack, FEW)

    def _printed(self) -> Iterator[tuple[str, Iterator[Record]]]:
        for name, overlap in (("Synthetic3d", 1.0), ("HW", 1.0), ("BDGP", 0.5)):
            yield from self._over(
                (name,), lambda name, seed, at=overlap: self._ours(name, seed, at, recipe="paper")
            )

    def _modes(self, overlap: float) -> tuple[str, ...]:
        return MODES if overlap < 1 else MODES[:1]

    def _ours(self, name: str, seed: int, overlap: float, **params: Any) -> Iterator[Record]:
        """Accuracy of ours at an overlap rate, both ways of treating incomplete samples."""
        data = DATASETS[name]
        about = {"kind": "accuracy", "data": name, "overlap": overlap, "seed": seed}
        with opened(data, self.data, seed, overlap, self.samples) as held:
            for mode in self._modes(overlap):
                method = f"ESFMC, {params.get('recipe', 'robust')}"
                model = made(data, seed, incomplete=mode, **params)
                told = {**about, "method": method, "mode": mode}
                try:
                    yield scored(held, model, **told)
                except PartyError as error:
                    if "must stay finite" not in str(error):
                        raise
                    yield {**told, "kind": "diverged"}

    def _accuracy(self, name: str, seed: int, overlap: float) -> Iterator[Record]:
        """Accuracy of ours and of what it is compared with."""
        yield from self._ours(name, seed, overlap)
        data = DATASETS[name]
        about = {"kind": "accuracy", "data": name, "overlap": overlap, "seed": seed, "mode": ""}
        with opened(data, self.data, seed, overlap, self.samples) as held:
            for method, (kind, params) in BASELINES.items():
                model = kind(n_clusters=data.n_clusters, random_state=seed, **params)
                yield scored(held, model, **about, method=method)

    def time(self, name: str, seed: int) -> Iterator[Record]:
        """Seconds of a fit, and of the same once more."""
        data = DATASETS[name]
        with opened(data, self.data, seed, samples=self.samples) as held:
            twice = [made(data, seed) for _ in range(2)]
            yield timed(held, twice, kind="time", data=name, seed=seed)

    def sharing(self, name: str, seed: int) -> Iterator[Record]:
        """Accuracy by what is shared."""
        data = DATASETS[name]
        with opened(data, self.data, seed, samples=self.samples) as held:
            for share in SHARES:
                about = {"kind": "sharing", "data": name, "share": share, "seed": seed}
                yield scored(held, made(data, seed, share=share), **about)

    def attack(self, name: str, seed: int) -> Iterator[Record]:
        """Errors of rows that are rebuilt."""
        data = DATASETS[name]
        with opened(data, self.data, seed, samples=self.samples) as held:
            model = made(data, seed).fit(held.federation)
            yield from attacked(held, model, kind="attack", data=name)

    def ablation(self, name: str, seed: int) -> Iterator[Record]:
        """Accuracy without a term of the loss."""
        data, how = DATASETS[name], ABLATED[name]
        about = {"kind": "ablation", "data": name, "overlap": how.overlap, "seed": seed}
        with opened(data, self.data, seed, how.overlap, self.samples) as held:
            for term in ("", *how.terms):
                weights = {term: 0.0} if term else None
                model = made(data, seed, incomplete=how.mode, loss_weights=weights)
                yield scored(held, model, **about, without=term)

    def convergence(self, name: str, seed: int) -> Iterator[Record]:
        """Losses of every client by epoch."""
        data, overlap = DATASETS[name], 0.5
        with opened(data, self.data, seed, overlap, self.samples) as held:
            model = made(data, seed, incomplete="align").fit(held.federation)
            yield from losses_of(model, data=name, overlap=overlap, seed=seed)

    def alpha(self, name: str, seed: int) -> Iterator[Record]:
        """Accuracy by α."""
        data, overlap = DATASETS[name], 0.9
        with opened(data, self.data, seed, overlap, self.samples) as held:
            for alpha in ALPHAS:
                about = {"kind": "alpha", "data": name, "alpha": alpha, "seed": seed}
                yield scored(held, made(data, seed, alpha=alpha), **about)

    def clients(self, name: str, seed: int, each: int) -> Iterator[Record]:
        """Accuracy by the number of clients a view."""
        data = DATASETS[name]
        with opened(data, self.data, seed, 1.0, self.samples, each) as held:
            about = {"kind": "clients", "data": name, "each": each, "seed": seed}
            yield scored(held, made(data, seed), **about)

    def variants(self, name: str, seed: int) -> Iterator[Record]:
        """Accuracy, and errors of rows that are rebuilt, by what is shared."""
        data = DATASETS[name]
        with opened(data, self.data, seed, samples=self.samples) as held:
            for words, params in VARIANTS.items():
                about = {"kind": "variant", "data": name, "variant": words, "seed": seed}
                yield variant(held, made(data, seed, **params), **about)


SHOWN = (
    "data overlap method mode share without alpha each variant view shared seed "
    "acc nmi error rounds seconds"
).split()


def main() -> None:
    """Read the command line, run what is missing, and write the page after every piece."""
    pipeline = Path(__file__).with_name("cell.yaml")
    args, chosen = command_line(__doc__, "esfmc", PARTS, pipeline, LIMITS)
    study = Study(args.data, tuple(load_pipeline(args.pipeline).seeds), args.samples)
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
