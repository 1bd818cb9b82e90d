"""What installed packages register is there beside ours, and a broken package stops nothing."""

import re
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from daskfc.cli import main
from daskfc.clustering import known_clusterers, make_clusterer
from daskfc.errors import InvalidInput, StoreError
from daskfc.runs import known_methods, make_estimator
from daskfc.stores import ClientStore, load_storage
from daskfc.stores.dealing.config import SourceConfig
from daskfc.stores.sources.readers import format_of, known_sources, open_source

GUIDE = Path(__file__).parents[1] / "docs" / "guides" / "own-data.md"
CODE = """
from daskfc.baselines import KFED
from daskfc.clustering import KMeans
from daskfc.stores import Samples, Source
from daskfc.stores.sources.tables.csv import Csv

class Method(KFED):
    '''k-FED by another name.'''

class Found(KMeans):
    '''k-means by another name.'''

class Tables(Csv):
    suffixes = (".table",)

class Broken(Source):
    suffixes = (".broken",)

    def open(self, source):
        if source.scale is None:
            raise KeyError("why")

        def blocks(rows):
            raise KeyError("why")

        return Samples(2, ("a",), blocks)

class Half(Source):
    '''Cannot open a file.'''

class Listed(Tables):
    suffixes = [".list"]

not_a_method = 3
"""


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Install a package with some entry points, for the test."""

    def install(points, code=CODE):
        (tmp_path / "a_plugin.py").write_text(code)
        found = tmp_path / "a_plugin-1.dist-info"
        found.mkdir()
        (found / "METADATA").write_text("Metadata-Version: 2.1\nName: a-plugin\nVersion: 1\n")
        (found / "entry_points.txt").write_text(points)
        monkeypatch.syspath_prepend(str(tmp_path))
        monkeypatch.delitem(sys.modules, "a_plugin", raising=False)

    yield install
    sys.modules.pop("a_plugin", None)


def test_a_method_a_clusterer_and_a_source_of_another_package(installed, tmp_path):
    installed(
        "[daskfc.methods]\nk-FED-again = a_plugin:Method\n"
        "[daskfc.clusterers]\nfound = a_plugin:Found\n"
        "[daskfc.sources]\ntable = a_plugin:Tables\n"
    )
    assert list(known_methods())[-1] == "k-FED-again"
    assert make_estimator("k-FED-again", {"n_clusters": 3}, seed=1).random_state == 1
    assert type(make_clusterer("found")).__name__ == "Found"
    (tmp_path / "some.table").write_text("a,b\n1.0,2.0\n3.0,4.0\n")
    source = SourceConfig(path=str(tmp_path / "some.table"))
    assert format_of(source) == "table"
    assert open_source(source).n_samples == 2


@pytest.mark.parametrize(
    ("point", "why"),
    [
        ("broken = a_plugin:Missing", "it cannot be loaded (AttributeError"),
        ("broken = no_such_module:Method", "it cannot be loaded (ModuleNotFoundError"),
        ("broken = a_plugin:not_a_method", "daskfc.methods takes no int of this kind"),
        ("broken = a_plugin:Found", "daskfc.methods takes no ABCMeta of this kind"),
        ("OmniFC = a_plugin:Method", "its name is taken"),
    ],
)
def test_a_plugin_that_is_none_is_left_out_with_a_reason(installed, caplog, point, why):
    own = known_methods()
    installed(f"[daskfc.methods]\n{point}\n")
    assert known_methods() == own
    name = point.split()[0]
    assert f"plug-in {name!r} of a-plugin is left out: {why}" in caplog.text


def test_a_module_that_fails_stops_nothing(installed, caplog):
    installed("[daskfc.clusterers]\nfailing = a_plugin:Found\n", code="raise SystemError('why')")
    assert "failing" not in known_clusterers()
    assert "(SystemError: why)" in caplog.text
    with pytest.raises(InvalidInput, match="no clusterer is named 'failing'"):
        make_clusterer("failing")


@pytest.mark.parametrize("name", ["Half", "Listed", "Found", "not_a_method"])
def test_a_source_that_is_none_is_left_out(installed, caplog, name):
    installed(f"[daskfc.sources]\nodd = a_plugin:{name}\n")
    assert "odd" not in known_sources()
    assert "plug-in 'odd' of a-plugin is left out: daskfc.sources takes no" in caplog.text


def test_what_a_source_raises_is_a_sentence(installed):
    installed("[daskfc.sources]\nbroken = a_plugin:Broken\n")
    said = r"x.broken: the source cannot be read as broken \(KeyError\)"
    with pytest.raises(StoreError, match=said):
        open_source(SourceConfig(path="x.broken"))
    samples = open_source(SourceConfig(path="x.broken", scale=2.0))
    with pytest.raises(StoreError, match=said):
        list(samples.blocks(2))
    with pytest.raises(StoreError, match=r"source\.ids means nothing to the format 'broken'"):
        open_source(SourceConfig(path="x.broken", ids="id"))


@pytest.fixture
def omop(installed, tmp_path, monkeypatch):
    """Install the source of the guide, and write an export that it reads."""
    text = GUIDE.read_text(encoding="utf-8")
    (code,) = [one for one in re.findall(r"```python\n(.*?)```", text, re.S) if "(Source)" in one]
    (points,) = re.findall(r"```toml\n(.*?)```", text, re.S)
    assert len(code.splitlines()) <= 40
    name, target = re.search(r'(\w+) = "(\S+)"', points).groups()
    assert "project.entry-points." + '"daskfc.sources"' in points
    installed(f"[daskfc.sources]\n{name} = {target.replace('omop_source', 'a_plugin')}\n", code)
    folder = tmp_path / "export.omop"
    folder.mkdir()
    person = {"person_id": [7, 9, 12], "year_of_birth": [1961, 1958, 1990], "site": list("abc")}
    pd.DataFrame(person).to_parquet(folder / "person.parquet")
    rows = [(7, 3004249, 120.0), (7, 3004249, 130.0), (9, 3004249, 140.0), (9, 55, 1.5)]
    names = ["person_id", "measurement_concept_id", "value_as_number"]
    pd.DataFrame(rows, columns=names).to_parquet(folder / "measurement.parquet")
    monkeypatch.chdir(tmp_path)
    return folder


def test_the_source_of_the_guide(omop):
    lines = re.findall(r"^    daskfc (stores add .*omop.*)$", GUIDE.read_text(), re.M)
    done = CliRunner().invoke(main, lines[0].split(), catch_exceptions=False)
    assert done.exit_code == 0, done.output
    store = ClientStore.open("stores/hospital-a.zarr")
    assert store.feature_names == ("year_of_birth", "3004249")
    assert store.sample_ids().tolist() == ["7", "9", "12"]
    expected = [[1961, 125], [1958, 140], [1990, np.nan]]
    np.testing.assert_array_equal(store.rows(0, 3), expected)


def test_a_storage_file_names_it(omop):
    omop.rename("other")
    source = {"path": "other", "format": "omop", "missing": "keep"}
    tree = {"root": "built", "clients": {"a": {"source": source}}}
    (url,) = load_storage(tree).build().values()
    assert ClientStore.open(url).feature_names == ("year_of_birth", "55", "3004249")
    (Path("other") / "person.parquet").write_bytes(b"another")
    with pytest.raises(StoreError, match="made from an earlier version of the source"):
        load_storage(tree).ensure()


def test_without_plugins_there_are_ours():
    assert {"csv", "npz"} <= set(known_sources())
    assert {"OmniFC", "FedSC", "kCAGC", "central"} <= set(known_methods())
