"""Write docs/results.md: headline figures of the papers, read from docs/results, and links.

    python -m pipelines.papers.overview

Run it after a program has written a page of docs/results.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from pipelines.papers.results import markdown_table

__all__ = ["overview"]

PAGES = Path("docs/results")
INTRO = """\
# Results

Each page has the tables of a paper beside ours, on the data at hand, through real federations. A
page is written by the program that it names, and this one by `python -m pipelines.papers.overview`;
do not edit them.

All pages but that of public data sets were written before samples were put into an order of their
own (see [Changes](changelog.md)): for the same seed, starts, coresets and batches are others since,
which moves single cells as another seed does.

Of each paper one or two figures that it prints, on those of its data sets that are at hand; pages
say how they were measured, and all that differs. The difference is ours minus the paper's.
"""


class Headline(NamedTuple):
    """Where a page has a figure: part and row begin with these words, {} is the data set."""

    page: str
    figure: str
    data: str
    part: str
    row: tuple[str, ...]
    paper: str  # the column of the paper's values; the next difference is ours to it


HEADLINES = [
    Headline("omnifc", "kappa, spectral clustering", "iris iris-unit coil20 mnist-1000",
             "Kappa of the clusterers", ("{}", "SC"), "OmniFC, paper"),
    Headline("kcagc", "accuracy in %, L = 2, k̂ = k, default basis", "Cora Pubmed",
             "{} (Table II)", ("2", "1k"), "paper"),
    Headline("fedsc", "accuracy without noise, defaults", "iris coil20 banknote mnist",
             "{} (Table", ("0", "FedSC, defaults"), "ACC, paper"),
    Headline("fk-kmeans", "t · error (the paper's: a bound), one sum", "mushrooms MNIST-small",
             "Convergence", ("{}", "CEM, one sum"), "paper: t · error <"),
    Headline("fk-kmeans", "uploads saved, Lanczos", "mushrooms MNIST",
             "Uploads of an iteration", ("{}", "CEM, Lanczos"), "saving, paper"),
    *(
        Headline("esfmc", f"accuracy in %, {views}, {recipe} recipe", data,
                 part, ("{}", f"ESFMC, {recipe}", mode), "paper, ACC")
        for recipe in ("robust", "paper")
        for views, data, part, mode in (
            ("complete views", "HW Synthetic3d", "Complete views", ""),
            ("half complete", "BDGP", "Half of the samples", "local"),
        )
    ),
]  # fmt: skip


def _tables(text: str) -> Iterator[list[list[str]]]:
    """Yield the cells of every table of a text."""
    for block in text.split("\n\n"):
        if block.startswith("|"):
            lines = block.splitlines()
            yield [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def _values(text: str, headline: Headline, data: str) -> list[str]:
    """Return the paper's value, ours and the difference."""
    [part] = [part for part in text.split("\n## ") if part.startswith(headline.part.format(data))]
    start = [word.format(data) for word in headline.row]
    [[head, row]] = [
        [table[0], row]
        for table in _tables(part)
        for row in table[2:]
        if headline.paper in table[0] and row[: len(start)] == start
    ]
    paper = head.index(headline.paper)
    gap = next(i for i in range(paper, len(head)) if head[i].startswith("diff"))
    return [row[paper], row[gap - 1], row[gap]]


def overview(folder: Path) -> str:
    """Return docs/results.md from the pages in docs/results."""
    pages = {path.stem: path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.md"))}
    links = {
        page: f"[{text.splitlines()[0].removeprefix('# ')}]({folder.name}/{page}.md)"
        for page, text in pages.items()
    }
    papers = dict.fromkeys(headline.page for headline in HEADLINES)
    rows = [
        [links[h.page], h.figure, data, *_values(pages[h.page], h, data)]
        for h in HEADLINES
        for data in h.data.split()
    ]
    header = ["paper", "figure", "data", "paper's", "ours", "difference"]
    others = "\n".join(f"- {links[page]}" for page in pages if page not in papers)
    order = [*papers, *(page for page in pages if page not in papers)]
    contents = "\n".join(f"{folder.name}/{page}" for page in order)
    return (
        f"{INTRO}\n{markdown_table(header, rows, left=3)}\n\nWithout a paper's figures:\n\n"
        f"{others}\n\n:::{{toctree}}\n:hidden:\n\n{contents}\n:::\n"
    )


if __name__ == "__main__":
    PAGES.with_suffix(".md").write_text(overview(PAGES), encoding="utf-8")
