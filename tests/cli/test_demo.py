"""``daskfc demo`` of a built wheel, as ``uvx daskfc demo`` runs it: its files, and no extras."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TAKEN = ("daskfc", "pyproject.toml", "README.md", "LICENSE")
# What extras bring. It is there where tests run, and Python looks for it in vain.
EXTRAS = (
    "numba", "onnxruntime", "torch", "jax", "umap", "matplotlib", "mlflow", "bokeh",
    "python_calamine", "duckdb", "sqlalchemy", "h5netcdf", "anndata", "prometheus_client", "s3fs",
    "gcsfs", "asyncssh",
)  # fmt: skip
WITHOUT_EXTRAS = f"""
import sys
from importlib.machinery import PathFinder

class Finder(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name in {EXTRAS} else super().find_spec(name, path, target)

sys.meta_path[sys.meta_path.index(PathFinder)] = Finder
"""
WHERE = f"""
from importlib.util import find_spec
import daskfc
print(daskfc.__file__)
print([name for name in {EXTRAS} if find_spec(name)])
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Return a folder with what the wheel installs."""
    source, folder = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("installed")
    for name in TAKEN:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, source / name)
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    asked = [*pip, "install", "--no-deps", "--target", str(folder), str(source)]
    done = subprocess.run(asked, capture_output=True, text=True)
    if "No matching distribution found for setuptools" in done.stderr:
        pytest.skip("building a wheel takes setuptools from an index of packages")
    assert done.returncode == 0, done.stderr
    (folder / "sitecustomize.py").write_text(WITHOUT_EXTRAS)
    return folder


@pytest.mark.slow
def test_the_demo_of_a_wheel_ends_with_a_report(wheel, tmp_path):
    own = {**os.environ, "PYTHONPATH": str(wheel), "PYTHONWARNINGS": "error"}
    where = [sys.executable, "-c", WHERE]
    found = subprocess.run(where, cwd=tmp_path, env=own, capture_output=True, text=True)
    place, there = found.stdout.splitlines()
    assert Path(place).is_relative_to(wheel)
    assert there == "[]"
    asked = [sys.executable, "-m", "daskfc", "demo", "--no-open", "trial"]
    done = subprocess.run(asked, cwd=tmp_path, env=own, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    report = tmp_path / "trial" / "runs" / "demo" / "report.html"
    assert done.stdout.rstrip().endswith(f"Open {report}")
    assert report.read_text(encoding="utf-8").startswith("<!doctype html>")


def test_a_browser_shows_the_report_unless_told_not_to(daskfc, monkeypatch, tmp_path):
    opened = []
    monkeypatch.setattr("daskfc.cli.demo.run", lambda **given: opened.append(given["name"]))
    monkeypatch.setattr("webbrowser.open", opened.append)
    assert daskfc("demo", "shown").exit_code == 0
    report = (tmp_path / "shown" / "runs" / "demo" / "report.html").resolve()
    assert opened == ["demo", report.as_uri()]
    assert daskfc("demo", "--no-open", "hidden").exit_code == 0
    assert opened[2:] == ["demo"]
    again = daskfc("demo", "shown")
    assert again.exit_code == 2
    assert "writes only where nothing is yet" in again.stderr
    assert opened[3:] == []
