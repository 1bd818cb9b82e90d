"""What parties and a scheduler tell Prometheus: the ledger's numbers, and no value."""

import socket
import urllib.error
import urllib.request

import numpy as np
import pandas as pd
import pytest
from prometheus_client.parser import text_string_to_metric_families

from daskfc.deploy.connections.metrics_page import check_metrics
from daskfc.errors import ClusterError, InvalidInput
from daskfc.federation import Federation
from daskfc.testing.federation import stores_of
from tests.deploy.test_sites import ROWS, Site, cluster_of
from tests.federation import steps
from tests.ports import free_port


def told_at(place):
    """Return numbers by name and labels."""
    with urllib.request.urlopen(f"http://{place}/metrics", timeout=30) as page:
        text = page.read().decode()
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


@pytest.mark.parametrize("address", ["9100", "127.0.0.1", "127.0.0.1:0", "http://a:1/x", "a:99999"])
def test_an_address_that_is_none_is_refused(address):
    with pytest.raises(InvalidInput, match=r"such as 127\.0\.0\.1:9100"):
        check_metrics(address)


def test_an_address_that_is_taken_is_told_before_anything_starts():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(ClusterError, match=f"metrics cannot be told at {address}"):
            check_metrics(address)


def test_without_the_library_it_says_what_to_install(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(InvalidInput, match=r"Install daskfc\[metrics\]"):
        check_metrics("127.0.0.1:9100")


@pytest.mark.long
@pytest.mark.slow
def test_pages_tell_what_the_ledger_has(tmp_path):
    site, names = Site(tmp_path), [*ROWS, "server"]
    places = {name: f"127.0.0.1:{free_port()}" for name in ("scheduler", "hospital-a", "server")}
    try:
        address = site.scheduler("127.0.0.1", "--metrics", places["scheduler"])
        urls = stores_of(tmp_path, ROWS)
        for name in names:
            own = {"store": urls[name]} if name in ROWS else {}
            own |= {"metrics": places[name]} if name in places else {}
            site.party(name, address, **own)
        with Federation.connect(cluster_of(address, startup="300s"), clients=list(ROWS)) as there:
            there.start_run("counted", random_state=0, deadline_s=120)
            for _ in range(3):
                asked = there.ask(steps.row_sum)
                total = there.publish(steps.total_message, asked)
            np.testing.assert_array_equal(total.values, [14.0, 26.0])
            ledger = pd.concat([there.opening_ledger.to_frame(), there.ledger.to_frame()])
            found = {name: told_at(place) for name, place in places.items()}
        for name in ("hospital-a", "server"):
            sent = ledger[ledger["sender"] == name]
            told = {
                (dict(labels)["message"], dict(labels)["receiver"]): number
                for (metric, *labels), number in found[name].items()
                if metric == "daskfc_payload_bytes_sent_total"
            }
            assert told == sent.groupby(["message", "receiver"])["payload_bytes"].sum().to_dict()
            begun = found[name][("daskfc_runs_begun_total",)]
            assert begun == 2  # the opening, in which stores are described, and the run
            assert found[name][("daskfc_steps_total",)] >= 3
        assert found["scheduler"][("daskfc_parties",)] == 3
        assert found["scheduler"][("daskfc_submitters",)] == 1
        for name in names:
            assert found["scheduler"]["daskfc_steps_waited_for", ("party", name)] == 0
            assert 0 <= found["scheduler"]["daskfc_silent_seconds", ("party", name)] < 60
        with pytest.raises(urllib.error.HTTPError):
            urllib.request.urlopen(f"http://{places['server']}/", timeout=30)
    finally:
        site.end()
