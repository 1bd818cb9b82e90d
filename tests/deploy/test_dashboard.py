"""Dask's pages: off, and on this machine alone where somebody asks for them."""

import importlib.util
import urllib.request

import pytest
import yaml

from daskfc.deploy import LocalCluster, load_cluster
from daskfc.errors import InvalidInput
from daskfc.federation import Federation
from daskfc.testing.federation import stores_of
from tests.deploy.test_sites import ROWS, Site, cluster_of
from tests.ports import free_port


@pytest.fixture
def drawn(monkeypatch):
    """As if Bokeh were installed; where it is not, Dask serves a page that says so."""
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: name == "bokeh" or found(name, *rest)
    )


@pytest.mark.parametrize("value", ["false", "null", None])
def test_none_is_the_default(value):
    text = "cluster: local\n" + ("" if value is None else f"dashboard: {value}\n")
    config = load_cluster(yaml.safe_load(text))
    assert isinstance(config, LocalCluster)
    assert config.dashboard is None


@pytest.mark.parametrize("place", ["0.0.0.0:8787", "10.0.0.1:8787", "127.0.0.1", "true", 8787])
def test_a_place_that_others_reach_is_refused(drawn, place):
    with pytest.raises(InvalidInput, match=r"such as 127\.0\.0\.1:8787"):
        load_cluster({"cluster": "local", "dashboard": place if place != "true" else True})


def test_without_bokeh_it_says_what_to_install(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None)
    with pytest.raises(InvalidInput, match=r"Install daskfc\[dashboard\]"):
        load_cluster({"cluster": "local", "dashboard": "127.0.0.1:8787"})


@pytest.mark.slow
def test_it_is_where_the_cluster_file_says(drawn, tmp_path):
    place = f"127.0.0.1:{free_port()}"
    cluster = {"cluster": "local", "dashboard": place}
    with Federation.local(stores_of(tmp_path, ROWS), cluster=cluster) as federation:
        assert federation.dashboard_link == f"http://{place}/status"
        with urllib.request.urlopen(federation.dashboard_link, timeout=30) as page:
            assert page.status == 200
            told = page.read()
    assert b"ashboard" in told or b"okeh" in told
    with Federation.local(stores_of(tmp_path / "2", ROWS)) as federation:
        assert federation.dashboard_link is None


@pytest.mark.slow
def test_a_scheduler_tells_where_its_own_is(tmp_path):
    pytest.importorskip("bokeh", reason="needs Bokeh (daskfc[dashboard])")
    site, place = Site(tmp_path), f"127.0.0.1:{free_port()}"
    try:
        address = site.scheduler("127.0.0.1", "--dashboard", place)
        urls = stores_of(tmp_path, ROWS)
        for name in ROWS:
            site.party(name, address, store=urls[name])
        site.party("server", address)
        with Federation.connect(cluster_of(address), clients=list(ROWS)) as federation:
            assert federation.dashboard_link == f"http://{place}/status"
    finally:
        site.end()
