"""Pictures of the documentation are of what a browser shows: `python -m tests.runs.pictures`."""

import numpy as np
import pytest
from PIL import Image

from tests.runs.browser import chromium
from tests.runs.pictures import FIGURES, SIZES, notebook_page, picture, report_page

pytestmark = pytest.mark.slow


def pixels(path):
    with Image.open(path) as image:
        return np.asarray(image.convert("RGB"), dtype=float)


def rows_with_ink(path):
    """Return the share of a picture's rows that are not of one colour."""
    return np.mean(np.ptp(pixels(path), axis=1).max(axis=1) > 60)


@pytest.mark.parametrize("name", SIZES)
def test_the_pictures_are_there_and_show_something(name):
    path = FIGURES / f"{name}.png"
    assert pixels(path).shape[1::-1] == SIZES[name]
    assert rows_with_ink(path) > 0.4
    assert path.stat().st_size < 200_000


def test_a_picture_of_todays_report(tmp_path):
    chromium()
    picture(report_page(tmp_path), SIZES["report"], tmp_path / "report.png")
    assert pixels(tmp_path / "report.png").shape[1::-1] == SIZES["report"]
    assert rows_with_ink(tmp_path / "report.png") > 0.4


def test_a_notebook_is_run_and_shown(tmp_path):
    chromium()
    pytest.importorskip("nbconvert", reason="needs nbconvert and ipykernel")
    cells = (
        "import daskfc as fc\nfederation = fc.simulate([[0.0], [1.0]], clients=2)\nfederation",
    )
    page = notebook_page(tmp_path, cells)
    assert "client-1" in page.read_text("utf-8")
    picture(page, (600, 400), tmp_path / "notebook.png")
    assert rows_with_ink(tmp_path / "notebook.png") > 0.2
