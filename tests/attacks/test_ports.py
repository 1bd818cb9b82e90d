"""Pickles at the ports of a party, as a stranger sends them who has no certificate to show."""

import pytest
from distributed.protocol import to_serialize
from distributed.protocol.serialize import Serialized, ToPickle, deserialize, serialize

from tests.attacks.ports import Canary, identity, send

pytestmark = pytest.mark.slow


def as_dask_writes_it(canary):
    return Serialized(*serialize(canary))


@pytest.mark.parametrize("process", ["worker", "nanny"])
@pytest.mark.parametrize("op", ["run", "ping", "plugin_add", "daskfc_start_run", "no_such_word"])
@pytest.mark.parametrize("wrapped", [to_serialize, ToPickle, as_dask_writes_it])
def test_a_pickle_in_an_argument_runs_nothing(addresses, process, op, wrapped, tmp_path):
    """Dask opens it before it looks at the list of handlers."""
    canary = tmp_path / "it-ran"
    asked = {"op": op, "function": wrapped(Canary(canary)), "reply": True}
    send(addresses[process], asked)
    assert not canary.exists()
    assert identity(addresses[process])["type"].startswith("Party")


def test_the_canary_sings(tmp_path):
    """Else the test above would hold whatever a party does."""
    wrapped = as_dask_writes_it(Canary(tmp_path / "it-ran"))
    deserialize(wrapped.header, wrapped.frames)
    assert (tmp_path / "it-ran").exists()
