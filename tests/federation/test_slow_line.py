"""A slow line: messages leave one after the other, and each takes its bytes and the latency."""

from types import SimpleNamespace

import numpy as np
import pytest

from daskfc.deploy import load_cluster
from daskfc.errors import InvalidInput
from daskfc.federation.party.slow_line import SlowLine
from tests.federation.steps import Vector


def of_bytes(n):
    return SimpleNamespace(message=Vector(np.zeros(n // 8)))


def test_messages_leave_one_after_the_other():
    now = [100.0]
    line = SlowLine(latency=0.5, bandwidth=1000.0, clock=lambda: now[0])
    assert line.held([of_bytes(2000)]) == pytest.approx(2.5)
    now[0] = 101.0  # the first has another second to go
    assert line.held([of_bytes(800), of_bytes(200)]) == pytest.approx(2.5)
    now[0] = 110.0  # the line is free
    assert line.held([of_bytes(1000)]) == pytest.approx(1.5)


def test_without_a_bandwidth_only_the_latency_counts():
    line = SlowLine(latency=0.25)
    assert [line.held([of_bytes(80_000_000)]) for _ in range(2)] == [0.25, 0.25]
    assert SlowLine().held([of_bytes(8)]) == 0.0


def test_a_cluster_file_says_it_as_people_do_and_reads_what_it_wrote():
    config = load_cluster({"cluster": "local", "bandwidth": "100Mbit"})
    assert config.bandwidth == 12.5e6
    assert load_cluster(config.model_dump(mode="json")) == config


@pytest.mark.parametrize("value", ["fast", 0, -1.0, float("inf"), True, "0Mbit"])
def test_what_is_no_bandwidth_is_refused(value):
    with pytest.raises(InvalidInput, match="such as 100Mbit"):
        load_cluster({"cluster": "local", "bandwidth": value})
