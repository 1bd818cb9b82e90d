import numpy as np
import pytest

from daskfc.deploy.config.bandwidth import parse_bandwidth
from daskfc.errors import InvalidInput
from daskfc.federation.methods.samples import ClientLabels
from daskfc.federation.planning.sizes import sized
from daskfc.federation.planning.traffic import DELAYS, Links, Network, framing_bytes


@pytest.mark.parametrize(
    ("text", "bytes_a_second"),
    [
        ("100Mbit", 12.5e6),
        ("1Gbit/s", 125e6),
        ("12.5MB/s", 12.5e6),
        ("8bit", 1),
        ("64 kbits", 8e3),
        ("100Mbps", 12.5e6),
        ("100mbps", 12.5e6),
        ("20 Mb/s", 2.5e6),
        ("1Gb", 125e6),
        ("3MBps", 3e6),
        ("2 MB", 2e6),
        ("1000", 1000),
        (".5kB/s", 500),
    ],
)
def test_bandwidths(text, bytes_a_second):
    assert parse_bandwidth(text) == pytest.approx(bytes_a_second)


@pytest.mark.parametrize(
    "text",
    ["", "fast", "-1Mbit", "0", "infMB", "100mb", "100M", "1e3Mbit", "1_0MB", "1 Mbit/h", "１MB"],
)
def test_what_is_no_bandwidth(text):
    """A small m and b may be megabits or megabytes."""
    with pytest.raises(InvalidInput, match="a bandwidth must be"):
        parse_bandwidth(text)


@pytest.mark.parametrize("latency", ["-1ms", "soon", "inf"])
def test_what_is_no_latency(latency):
    with pytest.raises(InvalidInput, match="must be a time"):
        Network.parsed(latency=latency)


def test_a_party_sends_one_message_after_the_other_and_receives_so():
    links = Links(Network(bandwidth=10.0, latency=1.0))
    assert links.sent("a", "server", 50, 0.0) == 5 + DELAYS
    assert links.sent("a", "b", 50, 0.0) == 10 + DELAYS  # after the first
    assert links.sent("b", "server", 50, 0.0) == 10 + DELAYS  # the server's line was taken
    assert links.sent("c", "d", 50, 0.0) == 5 + DELAYS  # lines of their own


def test_framing_is_of_the_envelope_alone():
    small, large = (
        framing_bytes(sized(ClientLabels, sample=n), "server", "client-1", "labels_for", "r", 0)
        for n in (1, 10**9)
    )
    assert small == large
    assert 300 < small < 1000
    empty = ClientLabels(np.empty(0, np.int64))
    none = framing_bytes(empty, "server", "client-1", "labels_for", "r", 0)
    assert abs(none - small) < 50
    longer = framing_bytes(empty, "server", "client-1", "labels_for", "run", 0)
    assert longer == none + 2
