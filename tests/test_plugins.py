"""What installed packages register is there beside ours, and a broken package stops nothing."""

import sys

import pytest

from daskfc.clustering import known_clusterers, make_clusterer
from daskfc.errors import InvalidInput
from daskfc.runs import known_methods, make_estimator
from daskfc.stores.dealing.config import SourceConfig
from daskfc.stores.sources.readers import format_of, known_readers, open_source

CODE = """
from dataclasses import replace

from daskfc.baselines import KFED
from daskfc.clustering import KMeans
from daskfc.stores.sources.readers import READERS

class Method(KFED):
    '''k-FED by another name.'''

class Found(KMeans):
    '''k-means by another name.'''

tables = replace(READERS["csv"], suffixes=(".table",))
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


def test_a_method_a_clusterer_and_a_reader_of_another_package(installed, tmp_path):
    installed(
        "[daskfc.methods]\nk-FED-again = a_plugin:Method\n"
        "[daskfc.clusterers]\nfound = a_plugin:Found\n"
        "[daskfc.readers]\ntable = a_plugin:tables\n"
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


def test_without_plugins_there_are_ours():
    assert {"csv", "npz"} <= set(known_readers())
    assert {"OmniFC", "FedSC", "kCAGC", "central"} <= set(known_methods())
