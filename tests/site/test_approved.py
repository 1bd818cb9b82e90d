"""A step is performed in the uses that a method has, with the settings that they need."""

import pytest

from daskfc.site.approved import Protocol, StepUse

STEPS = {
    "s.part": {
        "at": {"client": {"averaging": ["plain"], "noise": [None, "given"]}},
        "sends": {"client → server": {}},
        "rows": {"s.own": {"scaled": [True]}, "caller": {}},
    }
}
SETTINGS = {"averaging": "plain", "noise": None, "scaled": True}
CLAIM = {"kind": "data", "epsilon": 1.0, "delta": 1e-5, "clip": 1.0}


def refused(step="s.part", at="client", sends=("client → server",), rows=("s.own",), **settings):
    use = StepUse(step, at, frozenset(sends), {"rows": frozenset(rows)})
    return Protocol("M", STEPS).refusal(use, {**SETTINGS, **settings})


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"step": "s.other"}, "M has no step s.other."),
        ({"at": "server"}, "M has no step s.part at a server."),
        ({"sends": ["client → client"]}, "M has no step s.part that sends client → client."),
        ({"rows": ["s.own", "s.raw"]}, "M has no step s.part whose rows is from s.raw."),
        (
            {"averaging": "masked"},
            "M has no step s.part at a client where its averaging is 'masked'",
        ),
        ({"averaging": None}, "M has no step s.part at a client where its averaging is None."),
        ({"scaled": 1}, "M has no step s.part whose rows is from s.own where its scaled is 1."),
        ({"noise": True}, "M has no step s.part at a client where its noise is True."),
    ],
)
def test_what_is_not_among_the_uses_is_refused(asked, told):
    assert refused() is None
    assert refused(noise={"epsilon": 1.0, "delta": 1e-5}) is None  # whichever was announced
    assert refused(rows=["caller"], scaled=False) is None
    assert told in refused(**asked).sentence


@pytest.mark.parametrize(
    ("method", "step", "allowed", "refused_"),
    [
        ("FedSC", "protocols.fedsc.diagnosis.reconstruction_of",
         [{"diagnostics": True}, {"diagnostics": True, "noise": {"kind": "data", "sigma": 1.0}}],
         [{}, {"diagnostics": False}, {"diagnostics": True, "noise": CLAIM}]),
        ("FedSC", "protocols.fedsc.party.moments",
         [{"start": "moments"}, {"start": "last", "noise": CLAIM}], [{"start": "normal"}]),
        ("FedSC", "federation.methods.samples.store_content",
         [{}, {"noise": {"kind": "factors", "relative_dictionary": 0.1}}], [{"noise": CLAIM}]),
        ("FederatedKernelKMeans", "federation.methods.samples.store_content",
         [{}], [{"noise": CLAIM}]),
        ("ESFMC", "protocols.esfmc.party.tell_losses", [{}], [{"noise": CLAIM}]),
        ("ESFMC", "protocols.esfmc.party.tell_assignments", [{}], [{"noise": CLAIM}]),
        ("ESFMC", "protocols.esfmc.party.vote", [{}], [{"noise": CLAIM}]),
    ],
)  # fmt: skip
def test_what_noise_does_not_protect_no_site_tells_beside_it(method, step, allowed, refused_):
    """Drivers did not ask for it; nothing else stood against it."""
    use = StepUse(f"daskfc.{step}", "client", frozenset(), {})
    for parameters in allowed:
        assert Protocol.of(method).refusal(use, parameters) is None
    for parameters in refused_:
        assert Protocol.of(method).refusal(use, parameters) is not None


@pytest.mark.parametrize(
    ("method", "step", "parameter", "allowed", "refused_"),
    [
        ("FedSC", "protocols.fedsc.party.tell_rows", "similarity", "rows", "coded"),
        ("FedSC", "protocols.fedsc.similarity.coded_rows.squared_norms", "similarity",
         "coded", "rows"),
        ("FederatedKernelKMeans", "secure.kmeans.coreset.coreset_part", "clustering",
         "coreset", "sums"),
        ("FederatedKernelKMeans", "secure.kmeans.on_sums.fresh_moments", "clustering",
         "sums", "coreset"),
        ("FederatedKernelKMeans", "protocols.fk_kmeans.uncompressed.expand",
         "communication_efficient", False, True),
    ],
)  # fmt: skip
def test_what_a_limit_on_a_parameter_hides_is_not_told(method, step, parameter, allowed, refused_):
    """A site that took FedSC with coded similarities alone told all rows when it was asked."""
    use = StepUse(f"daskfc.{step}", "client", frozenset(), {})
    given = {"noise": None}
    assert Protocol.of(method).refusal(use, {**given, parameter: allowed}) is None
    assert Protocol.of(method).refusal(use, {**given, parameter: refused_}) is not None


def test_assignments_of_new_samples_are_told_without_noise_alone():
    step = "daskfc.protocols.esfmc.party.new_assignments"
    for told, noise, goes in (((), CLAIM, True), (("client → server",), None, True),
                              (("client → server",), CLAIM, False)):  # fmt: skip
        said = Protocol.of("ESFMC").refusal(
            StepUse(step, "client", frozenset(told), {}), {"noise": noise}
        )
        assert (said is None) == goes
