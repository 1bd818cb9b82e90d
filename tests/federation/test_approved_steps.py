"""Installed steps, composed by a submitter, at parties whose sites have a policy.

Row 5 of the list of attempts in docs/security.md: what reads samples, then what sends what it is
given. The parties are real processes; their policy is what a file without keys says.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from importlib import resources

import numpy as np
import pytest
import yaml

from daskfc.coding import LagrangeCode, ResidueSystem
from daskfc.errors import PolicyRefused
from daskfc.federation import Federation, PerClient
from daskfc.federation.driver.requests import request_for
from daskfc.federation.methods.samples import own_labels
from daskfc.federation.steps.calls import Forward
from daskfc.federation.steps.handles import InnerCall, Slot
from daskfc.federation.steps.uses import identity, uses_of
from daskfc.protocols import FederatedKernelKMeans, FederatedKMeans, FedSC, OmniFC
from daskfc.protocols.federated_kmeans.party import own_rows
from daskfc.protocols.fedsc.party import samples_of
from daskfc.protocols.fedsc.privacy.noise import DataNoise
from daskfc.secure.distances.parties.party import encode_rows
from daskfc.secure.kmeans.on_sums import first_moments
from daskfc.secure.prepare.steps import zero_rows
from daskfc.secure.sums.interpoint import interpoint_moments
from daskfc.secure.sums.plain import plain_part
from daskfc.secure.sums.shared import offered
from daskfc.secure.sums.vault import advertise
from daskfc.site import RunRequest
from daskfc.site.approved import Protocol, StepUse
from daskfc.testing.federation import stores_of
from tests.deploy.test_sites import Site, cluster_of
from tests.federation import steps

# Every client has both blobs: one that only one client has is not found between sites.
BLOBS = np.repeat([[0.0], [6.0]], 4, axis=0)
ROWS = {name: BLOBS + np.random.default_rng(i).normal(size=(8, 2)) for i, name in enumerate("abc")}


@pytest.fixture(scope="module")
def sites(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sites")
    site, urls = Site(folder), stores_of(folder, ROWS)
    site.policy.write_text("raw: never\n")
    address = site.scheduler("127.0.0.1")
    for name in (*ROWS, "server"):
        files = {"workspace": str(folder / name)}
        site.party(name, address, **files, **({"store": urls[name]} if name in urls else {}))
    yield address
    site.end()


@pytest.fixture(scope="module")
def connected(sites):
    with Federation.connect(cluster_of(sites), clients=list(ROWS)) as federation:
        yield federation


@pytest.fixture(autouse=True)
def unheard(recorder, request):
    """What is tried here is what the lists must not have."""
    recorder.listens = "followed" in request.node.name
    yield
    recorder.listens = True


def begin(federation, method=FedSC, **parameters):
    request = request_for(method, method(2, **parameters).get_params(deep=False))
    federation.start_run(f"r-{id(request)}", random_state=0, deadline_s=60, request=request)


def refused():
    return pytest.raises(PolicyRefused, match="refuses this by its rule 'steps'")


@pytest.mark.slow
class TestAtSites:
    def test_methods_that_are_followed_go_through(self, connected):
        short = {"n_features": 8, "iterations": 2, "random_state": 0}
        recovering = {"clustering": "sums", "averaging": "recovering", "patience_s": 5.0}
        kernel = FederatedKernelKMeans(2, **short, **recovering)
        named = {"averaging": "shared", "aggregators": (connected.clients[1], connected.clients[2])}
        shared = FedSC(2, n_init=2, patience_s=5.0, random_state=0, **named)
        for model in (
            FedSC(2, n_init=2, random_state=0),
            OmniFC(2, random_state=0),
            kernel,
            shared,
        ):
            assert model.fit(connected).labels_.shape == (24,)

    def test_samples_do_not_leave_as_a_part_of_a_sum(self, connected):
        begin(connected, averaging="plain")
        rows = connected.on_clients(samples_of, noise=None)
        with refused():
            connected.wait(list(connected.ask(plain_part, rows).values()))
        assert len(connected.ledger) == 0

    def test_samples_do_not_leave_as_labels(self, connected):
        begin(connected)
        rows = connected.on_clients(samples_of, noise=None)
        with refused():
            connected.publish(own_labels, rows, party="clients")

    def test_a_sum_in_the_clear_is_not_one_under_masks(self, connected):
        """The run was announced with masks, which a policy may ask for."""
        begin(connected, averaging="masked")
        with refused():
            connected.wait(list(connected.ask(plain_part, np.ones((2, 2))).values()))

    def test_masks_that_two_hold_are_not_those_of_neighbours(self, connected):
        """Whom one trusts with all masks a policy may ask for."""
        members = connected.clients
        for averaging in ("shared", "masked"):
            begin(connected, averaging=averaging, n_colluding=2)
            near = PerClient(dict.fromkeys(members, members))
            sent = connected.exchange(offered, members, 2, receivers=near)
            if averaging == "shared":
                connected.wait([one for by in sent.values() for one in by.values()])
        with refused():
            connected.wait([one for by in sent.values() for one in by.values()])

    def test_masks_that_others_may_open_are_not_those_of_neighbours(self, connected):
        """Sums of those that stay, in a run that was announced with all."""
        tags, to = ["t.0"], {"receivers": connected.clients}
        for averaging in ("recovering", "masked"):
            begin(connected, averaging=averaging)
            sent = connected.exchange(advertise, connected.clients, "t", tags, **to)
            if averaging == "recovering":
                connected.wait([one for by in sent.values() for one in by.values()])
        with refused():
            connected.wait([one for by in sent.values() for one in by.values()])

    def test_sums_do_not_leave_without_the_noise_that_was_announced(self, connected):
        noise = {"epsilon": 1.0, "delta": 1e-5}
        begin(connected, FederatedKMeans, noise={**noise, "largest_norm": 1.0})
        rows = connected.on_clients(own_rows)
        with refused():
            connected.wait(list(connected.on_clients(first_moments, rows, 1.0).values()))
        begin(connected, FederatedKernelKMeans, noise=noise, n_features=8)
        with refused():
            connected.wait(list(connected.on_clients(interpoint_moments, "gaussian").values()))

    @pytest.mark.parametrize("noise", [None, DataNoise(1e-4), DataNoise(1e-4, 10.0, 1e-5)])
    def test_samples_do_not_leave_with_less_noise_than_was_announced(self, connected, noise):
        begin(connected, noise={"kind": "data", "epsilon": 1.0, "delta": 1e-5, "clip": 10.0})
        with refused():
            connected.wait(list(connected.on_clients(samples_of, noise=noise).values()))

    def test_rows_are_not_shared_out_by_a_weaker_code(self, connected):
        """Who has two shares of a row is two of those that may collude."""
        system = ResidueSystem((251, 241), scale=1.0, bound=30_000)
        more = {"start": 0, "stop": 8, "system": system, "evaluators": ("a", "b", "c")}
        begin(connected, OmniFC, n_colluding=1, n_segments=1)
        code = LagrangeCode(1, 1, 3)
        sent = connected.exchange(encode_rows, code=code, **more)
        connected.wait([one for by in sent.values() for one in by.values()])
        for names in (("a", "b", "b"), ("a", "b", "stranger")):
            begin(connected, OmniFC, n_colluding=1, n_segments=1)
            told = {**more, "evaluators": names}
            sent = connected.exchange(encode_rows, code=code, receivers=["a", "b"], **told)
            with refused():
                connected.wait([one for by in sent.values() for one in by.values()])
        begin(connected, OmniFC, n_colluding=2, n_segments=1)
        sent = connected.exchange(encode_rows, code=code, **more)
        with refused():
            connected.wait([one for by in sent.values() for one in by.values()])

    def test_a_step_of_another_method_is_none_of_this(self, connected):
        begin(connected, OmniFC)
        with refused():
            connected.wait(list(connected.on_clients(samples_of, noise=None).values()))

    def test_a_preparation_that_was_announced_with_noise_sums_nothing_without(self, connected):
        for noised in (False, True):
            request = RunRequest("preparation", masked=True, parameters={"noised": noised})
            connected.start_run(f"p-{noised}", random_state=0, deadline_s=60, request=request)
            if not noised:
                connected.wait(list(connected.on_clients(zero_rows, ()).values()))
        with refused():
            connected.wait(list(connected.on_clients(zero_rows, ()).values()))

    @pytest.mark.parametrize("request_", [None, RunRequest("profiles"), RunRequest("made-up")])
    def test_a_run_that_says_something_else_gets_no_samples(self, connected, request_):
        connected.start_run(f"n-{id(request_)}", random_state=0, deadline_s=60, request=request_)
        with refused():
            connected.wait(list(connected.on_clients(samples_of, noise=None).values()))


def produced():
    """Return an array; any step."""


def uses(step, arguments, made_by=(), **more):
    more = {"at": "client", "read": lambda inner: produced, **more}
    return {use.step: use for use in uses_of(step, arguments, made_by, **more)}


@dataclass(frozen=True)
class Applied:
    """A step that is an object, and does what it is given."""

    function: Callable[[], None]

    def __call__(self):
        self.function()


ME = f"{__name__}.produced"


def test_what_an_argument_is_made_of():
    arguments = {
        "one": Slot(1),
        "several": {"a": [Slot(0), (Slot(1), 3)], "b": None},
        "bare": {},
        "function": (1.0, produced),
        "within": [InnerCall("produced", b"", {"inner": Slot(0)}, 0)],
    }
    found = uses(own_labels, arguments, ["first", "second"], sends=["client → server"])
    use = found[identity(own_labels)]
    assert use.takes == {
        "one": {"second"},
        "several": {"first", "second", "caller"},
        "bare": {"caller"},
        "function": {"caller", f"caller: {ME}"},
        "within": {ME},
    }
    assert use.sends == {"client → server"}
    assert found[ME].takes == {"inner": {"first"}}  # a step within a step is one, too
    assert found[ME].sends == set()


def test_what_a_step_brings_along_counts_as_the_caller_s():
    bound = functools.partial(own_labels, labels=produced)
    assert uses(bound, {})[identity(own_labels)].takes == {"labels": {"caller", f"caller: {ME}"}}
    own = Applied(produced)
    assert uses(own, {})[identity(own)].takes == {"itself": {f"caller: {ME}"}}


def test_what_was_made_before_is_a_step_of_its_own():
    assert identity(Forward(steps.row_sum)) == "tests.federation.steps.row_sum (made before)"


PROTOCOL = Protocol(
    "M",
    {
        "read": {"at": {"client": {}}, "noise": {"caller": {}}},
        "send": {
            "at": {"client": {}},
            "sends": {"client → server": {}},
            "part": {"noised": {}, "read": {"noise": [None]}},
        },
    },
)


def send(part="noised", at="client", sends="client → server", **more):
    takes = {"part": frozenset([part]), **more}
    return StepUse("send", at, frozenset([sends]), takes)


@pytest.mark.parametrize("noise", [None, {"epsilon": 1}])
def test_a_use_that_is_listed_is_approved(noise):
    assert PROTOCOL.refusal(send(), {"noise": noise}) is None


@pytest.mark.parametrize(
    ("use", "told"),
    [
        (StepUse("write", "client", frozenset(), {}), "M has no step write."),
        (send(at="server"), "M has no step send at a server."),
        (send(sends="client → caller"), "M has no step send that sends client → caller."),
        (send("caller"), "M has no step send whose part is from caller."),
        (send(more=frozenset(["caller"])), "M has no step send whose more is from caller."),
        (send("read"), "M has no step send whose part is from read where its noise is 3."),
    ],
)
def test_a_use_that_is_not_listed_is_refused(use, told):
    refusal = PROTOCOL.refusal(use, {"noise": 3})
    assert (refusal.rule, refusal.sentence) == ("steps", told)


def test_noise_that_was_announced_is_not_left_out():
    (use,) = uses_of(own_labels, {"noise": None}, (), at="client", read=lambda inner: produced)
    assert use.left_out == {"noise"}
    read = StepUse("read", "client", frozenset(), {"noise": frozenset(["caller"])}, use.left_out)
    assert PROTOCOL.refusal(read, {"noise": None}) is None
    refusal = PROTOCOL.refusal(read, {"noise": {"epsilon": 1}})
    assert "without the noise that was announced" in refusal.sentence


def test_what_depends_on_a_parameter_holds_where_that_is_so():
    assert PROTOCOL.refusal(send("read"), {"noise": None}) is None
    assert PROTOCOL.refusal(send("read"), {}) is None


def test_what_all_of_a_steps_entries_need_each_of_them_needs():
    """Of the files themselves, and of a step that FedSC has where averaging is plain."""
    needed = 0
    for file in resources.files("daskfc.site").joinpath("protocols").iterdir():
        content = yaml.safe_load(file.read_text(encoding="utf-8"))
        steps_of = Protocol.of(file.name.removesuffix(".yaml")).steps
        assert set(steps_of) == set(content["steps"])
        for name, entry in content["steps"].items():
            where = entry.pop("where", {})
            assert set(steps_of[name]) == set(entry)
            for key, listed in entry.items():
                wanted = {}
                for one in listed:
                    wanted |= {one: {}} if isinstance(one, str) else one
                assert steps_of[name][key] == {
                    value: {**where, **needs} for value, needs in wanted.items()
                }
            needed += len(where)
    assert needed > 20
    part = {"part": frozenset(["daskfc.protocols.fedsc.party.moments"])}
    name = "daskfc.secure.sums.plain.plain_part"
    use = StepUse(name, "client", frozenset(["client → server"]), part)
    assert Protocol.of("FedSC").refusal(use, {"averaging": "plain"}) is None
    told = Protocol.of("FedSC").refusal(use, {"averaging": "masked"})
    assert told.sentence.endswith("at a client where its averaging is 'masked'.")


@pytest.mark.parametrize("name", ["../template", "", "FedSC.yaml", "/etc/passwd", "made-up"])
def test_other_names_have_no_steps(name):
    assert Protocol.of(name).steps == {}
