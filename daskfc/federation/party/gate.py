"""Admission of runs by a party's nanny, which checks the submitter, the request and the start."""

import hmac
import json
import os
import time
from collections.abc import Mapping
from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import Any, NamedTuple

from daskfc.coding.residues.streams import SecretKey
from daskfc.deploy.certificates.revocation import Revoked
from daskfc.deploy.certificates.signatures import signer_of
from daskfc.errors import PolicyRefused, PrivacyError
from daskfc.federation.identity.session_key import content_of_signed
from daskfc.federation.party.options import PartyOptions, RunSettings
from daskfc.federation.party.site_rules import UNNAMED
from daskfc.federation.steps.rules import odd_numbers
from daskfc.site import Policy, Refusal, RunRequest, SiteState
from daskfc.site.request import COUNTED
from daskfc.stores import ClientStore

_SHIFT, _LARGEST_SHARE = {"step", "share", "seed"}, 0.1
"""What a `jitter` says, and how far it may move samples, in deviations of a column."""

_NO_SUMS = frozenset({"kCAGC", "AGC", "GCC", "labels", "opening", "pseudonyms"})
"""Methods of columns alone, and tasks, which open no sum over samples."""

_OF_COLUMNS = _NO_SUMS | {"ESFMC", "joined-views", "one-view"}
"""Methods of clients that each have columns of their own, prepared by values of their own."""


def signed_content(settings: RunSettings) -> bytes:
    """Return the bytes that a submitter signs to start a run: all of its settings."""
    return json.dumps(asdict(settings), sort_keys=True, ensure_ascii=False).encode()


def content_of_end(settings: RunSettings) -> bytes:
    """Return what a submitter signs to end a run; a signature of a start cannot pass for it."""
    return b"the end of " + signed_content(settings)


def content_of_reading(run_id: str) -> bytes:
    """Return what a session key signs to read a run's ledger; it cannot pass for a step's call."""
    return b"the ledger of " + run_id.encode()


def may_read(run: RunSettings | None, run_id: str, proof: bytes) -> bool:
    """Return whether the driver of the given run asks for its ledger; only TLS needs a proof."""
    if run is None or not run.session:
        return run is not None and run.run_id == run_id
    try:
        return content_of_signed(run.session, proof) == content_of_reading(run.run_id)
    except PrivacyError:
        return False


class Admitted(NamedTuple):
    """The terms on which a party admits a run; its secrets depend on the fresh `nonce`.

    `submitter` is the name in the certificate that signed the start, None without TLS; `until` is
    when the party leaves the run, in seconds since 1970, None for no limit.
    """

    nonce: bytes
    submitter: str | None
    until: float | None = None


def seal_of_start(secret: SecretKey, settings: RunSettings, begun: Admitted) -> bytes:
    """Return the MAC by which a worker process knows that its own nanny admitted a run."""
    key = secret.derive("seal of a start").to_bytes()
    about = json.dumps([begun.nonce.hex(), *begun[1:]]).encode()
    return hmac.digest(key, about + signed_content(settings), "sha256")


class _Facts(NamedTuple):
    """The samples and columns of a client, for its policy."""

    n_samples: int | None = None
    columns: tuple[str, ...] | None = None


class Gate:
    """Admits the runs that a party's policy allows, each start once."""

    def __init__(self, options: PartyOptions) -> None:
        self._options = options
        self._free = options.policy == Policy.default(loopback=True)
        self._state = None if options.state is None else SiteState(options.state)
        self._revoked = None if options.ca is None else Revoked(options.ca)
        self._used: set[tuple[str, str]] = set()
        self._hold: tuple[str, float | None] = ("", None)  # the driver, and the time of the end

    def admit(self, settings: RunSettings, proof: Mapping[str, Any] | None) -> Admitted:
        """Admit a run, or raise PolicyRefused by a rule, PrivacyError for a bad signature."""
        submitter = self.submitter(settings, proof)
        request = self._request(settings, submitter)
        if not self._free:
            self._judge(settings, request)
        start = (settings.run_id, settings.start)
        if start in self._used:
            said = f"start {start[1]!r} of run {start[0]!r} was used before."
            self._refuse(Refusal("start", said), settings, submitter)
        nonce = os.urandom(32)
        if self._state is not None:
            try:
                nonce = self._state.begin(*start, request)
            except PolicyRefused as error:
                raise Refusal(error.rule, error.sentence).error(self._options.name) from None
        self._used.add(start)
        runs = self._options.policy.runs
        if runs is not None and runs.longest is not None:
            # Runs that are not counted could be begun again and again to hold the party longer.
            if request.is_counted or settings.driver != self._hold[0]:
                self._hold = (settings.driver, time.time() + runs.longest)
        return Admitted(nonce, submitter, self._hold[1])

    def check_end(
        self,
        settings: RunSettings,
        proof: Mapping[str, Any] | None,
        held: RunSettings | None,
        submitter: str | None,
    ) -> None:
        """Refuse (PrivacyError) the end of a run by anybody but the submitter who began it."""
        own = True
        if self._options.ca is not None:
            try:
                peer = signer_of(self._options.ca, content_of_end(settings), proof, self._revoked)
                own = (peer.role, peer.name) == ("submitter", submitter)
            except PrivacyError:
                own = False
        # One sentence for a run that does not exist and for somebody else's.
        if not own or settings != held:
            raise PrivacyError(
                f"party {self._options.name!r} takes the end of the run that it is in from whoever "
                "began that, and from nobody else. Let who began the run end it."
            )

    def submitter(self, settings: RunSettings, proof: Mapping[str, Any] | None) -> str | None:
        """Return who signed a run's start, None without TLS; PrivacyError when no submitter did."""
        if self._options.ca is None:
            return None
        peer = signer_of(self._options.ca, signed_content(settings), proof, self._revoked)
        if peer.role != "submitter":
            raise PrivacyError(
                f"the start of a run is signed by {peer}, whose role begins no runs. Use a "
                "certificate of the role submitter."
            )
        if not settings.session:
            raise PrivacyError(
                "the start of a run has no key for its calls, which TLS needs. Start it by the "
                "daskfc that the parties run."
            )
        return peer.name

    def _request(self, settings: RunSettings, submitter: str | None) -> RunRequest:
        """Return the driver's request, with the fields that the party determines itself."""
        told = RunRequest.of_json(json.dumps({"method": UNNAMED, **settings.request}))
        return replace(
            told,
            submitter=submitter,
            columns=None,  # all that the store has: no step knows of a narrower choice
            clear_ids=not told.is_task and not settings.pseudonyms,
            n_clients=len(settings.builds) or None,
            trusted=told.trusted or self._options.trusted,
        )

    def _judge(self, settings: RunSettings, request: RunRequest) -> None:
        policy, facts = self._options.policy, self._facts()
        refusals = [
            *self._about_clients(settings, request),
            *self._about_preparation(settings, request),
            *policy.refusals(
                request,
                now=datetime.now(UTC),
                runs_before=self._runs_before(policy),
                n_samples=facts.n_samples,
                columns=facts.columns,
                own_store=self._options.store,
            ),
        ]
        if refusals:
            for other in refusals[1:]:
                self._note(other, settings, request.submitter)
            self._refuse(refusals[0], settings, request.submitter)

    def _about_clients(self, settings: RunSettings, request: RunRequest) -> list[Refusal]:
        """Return the refusal of a run without this client: what others are promised counts it."""
        away = self._options.role == "client" and self._options.name not in settings.builds
        told = f"{request.method} is announced with clients among whom this one is not."
        return [Refusal("start", told)] if away and request.method != "opening" else []

    def _about_preparation(self, settings: RunSettings, request: RunRequest) -> list[Refusal]:
        """Return refusals of steps that read samples in a run with noise, or that weigh samples."""
        steps, said = settings.prepared(self._options.name), list[str]()
        # a neighbour's features are in those of every sample that `smooth` averages, and all
        # samples' spread is in the shift of each by `jitter`
        read = ("smooth", "jitter")
        own = [one["step"] for one in steps if one.get("own") or one["step"] in read]
        if own and not request.is_task and request.parameters.get("noise") is not None:
            noise = f"{request.method} adds noise"
            said.append(f"{noise}, and {own[0]!r} reads this site's samples without any.")
        # numbers of the submitter's own would make a sum over samples one sample's
        split = request.parameters.get("split") if request.method == "OmniFC" else None
        if any("lengths" in one for one in steps) and not (
            request.method in _NO_SUMS or split == "columns"
        ):
            said.append(f"{request.method} sums over samples, and 'normalise' would weigh them.")
        if steps and request.method in COUNTED:
            said.append(f"the task {request.method!r} reads samples as they are in the store.")
        shifts = [one for one in steps if one["step"] == "jitter"]
        if any(set(one) != _SHIFT or not 0 <= one["share"] <= _LARGEST_SHARE for one in shifts):
            said.append("'jitter' would move samples by more than a tenth of a column's deviation.")
        said += odd_numbers(steps)
        # a client that is prepared as no other is would be told apart in a sum over all
        if (
            not settings.is_prepared_alike
            and split not in ("columns", "grid")
            and request.method not in _OF_COLUMNS
        ):
            said.append(f"{request.method} sums over clients, which are prepared differently.")
        return [Refusal("preparation", one) for one in said]

    def _facts(self) -> _Facts:
        if self._options.store is None:
            return _Facts()
        store = ClientStore.open(self._options.store)
        return _Facts(store.n_samples, store.feature_names)

    def _runs_before(self, policy: Policy) -> int | None:
        if policy.runs is None or self._state is None:
            return None
        return self._state.runs_since(time.time() - policy.runs.seconds)

    def _note(self, refusal: Refusal, settings: RunSettings, submitter: str | None) -> None:
        if self._state is not None:
            where = {"run_id": settings.run_id, "start": settings.start}
            self._state.refused(refusal, submitter=submitter, **where)

    def _refuse(self, refusal: Refusal, settings: RunSettings, submitter: str | None) -> None:
        self._note(refusal, settings, submitter)
        raise refusal.error(self._options.name)
