"""What is told to some clients and not to others, and arguments beside what was announced."""

import itertools
from importlib import resources

import numpy as np
import pytest

from daskfc.coding import FixedPoint
from daskfc.errors import DaskfcError
from daskfc.federation import PerClient
from daskfc.secure.sums import masked
from daskfc.site import RunRequest
from daskfc.site.approved import Protocol
from tests.attacks.conftest import ROWS
from tests.secure.sums import steps

pytestmark = pytest.mark.slow

# A method of a package that the sites' policies name: its runs may compose daskfc's steps.
OTHER = RunRequest("other", package="tests", masked=True)
RING = FixedPoint(1e3, 3, 30)  # noise is anywhere in 2**34, and near a sum once in 10**9
COARSE = FixedPoint(1e9, 4, -60)  # in which whatever is summed rounds to 0
_runs = itertools.count()


@pytest.fixture
def federation(ports):
    with ports.joined() as joined:
        joined.start_run(f"told-{next(_runs)}", random_state=0, deadline_s=60, request=OTHER)
        yield joined


def agreed(federation, members):
    near = PerClient(masked.mask_neighbours(members, 0))
    public = federation.exchange(masked.public_key, members, 0, clients=members, receivers=near)
    return federation.on_clients(masked.agree, public, members, 0, clients=members)


def masked_by(federation, parts, rings, tag="t"):
    keys = agreed(federation, federation.clients)
    return PerClient(
        {
            name: federation.ask(masked.masked_part, parts, keys, ring, tag, clients=[name])[name]
            for name, ring in rings.items()
        }
    )


def sums(rows):
    return {name: X.sum(axis=0) for name, X in rows.items()}


def test_who_is_told_the_same_adds_up(federation):
    """What the attempts below differ from."""
    parts = federation.on_clients(steps.own_sum)
    sent = masked_by(federation, parts, dict.fromkeys(ROWS, RING))
    found = federation.publish(steps.bare_total, sent, RING).values
    np.testing.assert_allclose(found, sum(sums(ROWS).values()), atol=1e-6)


def test_a_ring_of_its_own_for_each_client_gives_noise(federation):
    """Rings in which all others round to 0 left one client's sum, exactly."""
    parts = federation.on_clients(steps.own_sum)
    rings = {name: RING if name == "site-1" else COARSE for name in ROWS}
    sent = masked_by(federation, parts, rings)
    found = federation.publish(steps.bare_total, sent, RING).values
    assert (np.abs(found - sums(ROWS)["site-1"]) > 1.0).all()
    with pytest.raises(DaskfcError, match="were told different things: site-2, site-3"):
        federation.wait(federation.on_server(masked.masked_total, sent, "t", tuple(ROWS)))


def test_a_sum_is_decoded_as_its_clients_encoded_it(federation):
    """With three bits fewer a sample counted as eight, and sums of a few were opened."""
    sent = masked_by(federation, federation.on_clients(steps.own_sum), dict.fromkeys(ROWS, RING))
    total = federation.on_server(masked.masked_total, sent, "t", tuple(ROWS))
    found = federation.publish(steps.values_of, total).values[:-1]
    np.testing.assert_allclose(found, sum(sums(ROWS).values()), atol=1e-6)
    for path in resources.files("daskfc.site").joinpath("protocols").iterdir():
        for step, entry in Protocol.of(path.name.removesuffix(".yaml")).steps.items():
            assert not ("ring" in entry and step.endswith("_total")), step


def test_a_server_that_tells_one_client_something_else_gets_noise(federation):
    """arXiv 2111.07380: other clients' parts vanish where they are told what makes them vanish."""
    told = {name: federation.tell(steps.told_point, [7.0, 7.0]) for name in ("all",)}
    parts = federation.on_clients(steps.beside, told["all"])
    sent = masked_by(federation, parts, dict.fromkeys(ROWS, RING))
    found = federation.publish(steps.bare_total, sent, RING).values
    np.testing.assert_allclose(found, sum(sums(ROWS).values()) - 21.0, atol=1e-6)
    points = {name: [7.0, 7.0 if name == "site-1" else 8.0] for name in ROWS}
    each = PerClient(
        {name: federation.tell(steps.told_point, x, clients=[name]) for name, x in points.items()}
    )
    for name in ROWS:  # one at a time, as if all were told alike
        parts = federation.on_clients(steps.beside, each[name], clients=[name])
        sent = PerClient({**sent, name: parts[name]})
    sent = masked_by(federation, sent, dict.fromkeys(ROWS, RING), tag="u")
    found = federation.publish(steps.bare_total, sent, RING).values
    assert (np.abs(found - sum(sums(ROWS).values()) + 21.0) > 10.0).all()


def test_masks_of_a_tag_serve_one_set_of_members(federation):
    """Sums under one tag over {1, 2, 3} and {1, 2} told the third client's array."""
    parts = federation.on_clients(steps.own_sum)
    federation.wait(list(masked_by(federation, parts, dict.fromkeys(ROWS, RING)).values()))
    two = ("site-1", "site-2")
    keys = agreed(federation, two)
    sent = federation.ask(masked.masked_part, parts, keys, RING, "t", clients=two)
    with pytest.raises(DaskfcError, match="the masks of 't' were used for another content"):
        federation.wait(list(sent.values()))


def test_keys_of_chosen_neighbours_are_not_taken(federation):
    near = PerClient(masked.mask_neighbours(tuple(ROWS), 0))
    public = federation.exchange(masked.public_key, tuple(ROWS), 0, receivers=near)
    few = PerClient({"site-1": PerClient({"site-2": public["site-1"]["site-2"]})})
    keys = federation.on_clients(masked.agree, few, tuple(ROWS), 0, clients=["site-1"])
    with pytest.raises(DaskfcError, match="got the keys of site-2, who are not its neighbours"):
        federation.wait(list(keys.values()))
