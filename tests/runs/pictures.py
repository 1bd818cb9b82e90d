"""Pictures of a report, of a notebook and of the site, as a Chromium shows them.

    python -m tests.runs.pictures [--site docs/_build/html]

It writes docs/figures/report.png and notebook.png and, of a site that `make docs` built, site.png.
The notebook takes `pip install nbconvert ipykernel`; all of it takes a Chromium.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image  # comes with matplotlib

from tests.runs.browser import browse

FIGURES = Path("docs/figures")
SIZES = {"report": (1280, 1640), "notebook": (1060, 1720), "site": (1280, 1000)}  # in pixels
COLOURS = 128
CELLS = (
    """\
import daskfc as fc
from sklearn.datasets import load_wine

federation = fc.simulate(load_wine(as_frame=True).data, clients=4)
federation""",
    """\
federation.preparation = fc.Prepare("standardise")
model = fc.OmniFC(n_clusters=3, clusterer="k-means", random_state=0).fit(federation)
model.labels_.to_dataframe()["label"].value_counts()""",
    "model.ledger_  # every message of the fit",
    """\
run = fc.run(
    {
        "method": "OmniFC",
        "params": {"n_clusters": 3, "clusterer": "k-means"},
        "prepare": ["standardise"],
        "profiles": True,
    },
    storage={"source": {"dataset": "wine"}, "partition": {"scheme": "iid", "clients": 4}},
)
run.plot.profiles();""",
)


def picture(page: Path, size: tuple[int, int], path: Path) -> None:
    """Write what a window of a size shows of a page, with few colours."""
    with tempfile.TemporaryDirectory() as folder:
        shot = Path(folder, "shot.png")
        width, height = size
        browse(
            Path(folder), "--hide-scrollbars", "--virtual-time-budget=20000",
            f"--window-size={width},{height}", f"--screenshot={shot}", page.absolute().as_uri(),
        )  # fmt: skip
        with Image.open(shot) as image:
            image.convert("RGB").quantize(COLOURS).save(path, optimize=True)


def report_page(folder: Path) -> Path:
    """Return the report of ``daskfc demo``, run in a folder."""
    run = folder / "demo" / "runs" / "demo"
    for words in (
        ["demo", str(folder / "demo"), "--no-open"],
        ["report", str(run), "--title", "Patients of three hospitals"],
    ):
        command = [sys.executable, "-m", "daskfc", *words]
        subprocess.run(command, check=True, capture_output=True, text=True)
    return run / "report.html"


def notebook_page(folder: Path, cells: tuple[str, ...] = CELLS) -> Path:
    """Return a page of a notebook, whose cells a kernel has run."""
    blank = {"cell_type": "code", "metadata": {}, "execution_count": None, "outputs": []}
    named = [{**blank, "id": f"cell-{i}", "source": cell} for i, cell in enumerate(cells)]
    notebook = {"cells": named, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    path = folder / "notebook.ipynb"
    path.write_text(json.dumps(notebook), encoding="utf-8")
    convert = [sys.executable, "-m", "nbconvert", "--to", "html", "--execute", str(path)]
    subprocess.run(convert, check=True, capture_output=True, text=True, cwd=folder)
    return path.with_suffix(".html")


def main() -> None:
    """Write the pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--site", type=Path, help="the folder of a site that was built")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        pages = {"report": report_page(Path(folder)), "notebook": notebook_page(Path(folder))}
        if asked.site is not None:
            pages["site"] = asked.site / "index.html"
        for name, page in pages.items():
            picture(page, SIZES[name], FIGURES / f"{name}.png")
            print(FIGURES / f"{name}.png")


if __name__ == "__main__":
    main()
