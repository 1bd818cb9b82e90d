"""Reproduce "An Effective and Secure Federated Multi-View Clustering Method ...", ESFMC.

It writes the paper's section of docs/results.md, through real federations.

    python -m pipelines.papers.esfmc.reproduce --data FOLDER

FOLDER holds hw_mfeat.npz, synthetic3d.npz and bdgp.npz. `cell.yaml` beside this program, or the
pipeline that is named first, gives the seeds. With `--records FILE` every finished piece is kept
there, and a second start goes on with what is missing. `--samples N` is for a first look: a page
that is made with it says so. Parts: complete (Table 1), half (Table 2), sharing (Table 5), attack
(Fig. 3(c)), overlap (Fig. 2), printed (the paper's text as it stands; hours).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from daskfc.runs import load_pipeline
from pipelines.papers.esfmc.fits import BASELINES, attacked, made, opened, scored
from pipelines.papers.esfmc.tables import render
from pipelines.papers.esfmc.values import DATASETS, SHARES
from pipelines.papers.journal import Journal, Record, carry_out, command_line
from pipelines.papers.results import write_section

PARTS = ("complete", "half", "sharing", "attack", "overlap", "printed")
LIMITS = {"samples": "at most so many of every data set"}
MODES = ("local", "align")
OVERLAPS = (0.1, 0.3, 0.7, 0.9)  # of Fig. 2, beside 0.5 and 1
FEW = 2  # seeds of Fig. 2, and of the attack
ATTACKED = ("HW", "BDGP")


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
        return self._over(("HW", "BDGP"), self.sharing)

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
                yield scored(held, model, **about, method=method, mode=mode)

    def _accuracy(self, name: str, seed: int, overlap: float) -> Iterator[Record]:
        """Accuracy of ours and of what it is compared with."""
        yield from self._ours(name, seed, overlap)
        data = DATASETS[name]
        about = {"kind": "accuracy", "data": name, "overlap": overlap, "seed": seed, "mode": ""}
        with opened(data, self.data, seed, overlap, self.samples) as held:
            for method, (kind, params) in BASELINES.items():
                model = kind(n_clusters=data.n_clusters, random_state=seed, **params)
                yield scored(held, model, **about, method=method)

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
            yield from attacked(data, held, seed, kind="attack", data=name)


SHOWN = "data overlap method mode share view shared seed acc nmi error rounds seconds".split()


def main() -> None:
    """Read the command line, run what is missing, and write the page after every piece."""
    pipeline = Path(__file__).with_name("cell.yaml")
    args, chosen = command_line(__doc__, PARTS, pipeline, LIMITS)
    study = Study(args.data, tuple(load_pipeline(args.pipeline).seeds), args.samples)
    journal = Journal(args.records)
    pieces = [piece for part in chosen for piece in study.pieces(part)]
    carry_out(
        pieces,
        journal,
        write=lambda: write_section(args.out, "ESFMC", render(journal.records)),
        shown=SHOWN,
    )


if __name__ == "__main__":
    main()
