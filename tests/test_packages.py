"""What the sdist holds: whatever is tracked, so that its tests run where it is unpacked.

What the wheel holds is checked in test_layout.py, by the patterns of package data.
"""

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BY_ITSELF = {"daskfc", "pyproject.toml", "README.md", "LICENSE", "MANIFEST.in"}  # setuptools adds


def commands():
    for line in (ROOT / "MANIFEST.in").read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            word, *rest = line.split()
            yield word, rest


@pytest.fixture
def tracked():
    if not (ROOT / ".git").exists():
        pytest.skip("an sdist knows no commits")
    done = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_every_tracked_file_is_in_the_sdist(tracked):
    grafted = {name for word, names in commands() if word == "graft" for name in names}
    included = {name for word, names in commands() if word == "include" for name in names}
    for path in tracked:
        top = path.partition("/")[0]
        assert top in BY_ITSELF | grafted or path in included, f"{path} is not in MANIFEST.in"


def test_nothing_that_is_made_here_is_in_the_sdist(tracked):
    pruned = [name for word, names in commands() if word == "prune" for name in names]
    assert not [path for path in tracked if path.startswith(tuple(pruned))]
    ignored = (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()
    for folder in pruned:
        assert f"/{folder}/" in ignored


def test_what_the_sdist_names_is_there():
    for word, names in commands():
        if word in ("graft", "include"):
            for name in names:
                assert (ROOT / name).exists(), name
