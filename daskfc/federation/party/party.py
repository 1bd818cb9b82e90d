"""A party inside its own worker process: its store, secret, folder, and the steps it performs."""

import functools
import hashlib
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from daskfc import seeds
from daskfc.deploy.certificates.revocation import Revoked
from daskfc.errors import (
    ENDS_A_RUN,
    ClusterError,
    DaskfcError,
    EgressRefused,
    InvalidInput,
    LedgerError,
    PrivacyError,
    StoreError,
)
from daskfc.federation.identity.durable_secret import durable_secret
from daskfc.federation.identity.pseudonyms import has_ids, pseudonyms_of, under_pseudonyms
from daskfc.federation.identity.session_key import content_of_signed
from daskfc.federation.ledger.counts import Counts
from daskfc.federation.ledger.key import LedgerKey
from daskfc.federation.ledger.narration import Narration
from daskfc.federation.ledger.receipts import Receipts
from daskfc.federation.ledger.rows import LedgerFile
from daskfc.federation.messages.declaration import (
    CALLER,
    SERVER,
    Message,
    as_declared,
    check_message,
    multiplier_of,
    route_of,
    routes_of,
)
from daskfc.federation.messages.digests import content_digest, new_salt, salted
from daskfc.federation.messages.envelopes import Outgoing
from daskfc.federation.messages.signed import check_signed, signed_by
from daskfc.federation.messages.wire_format import Reader, opened
from daskfc.federation.party.crossing import as_code, reason, without_values
from daskfc.federation.party.gate import signed_content
from daskfc.federation.party.kept import Kept, came_as, check_arrived, content_of_value, maker_of
from daskfc.federation.party.options import PartyOptions, RunSettings
from daskfc.federation.party.site_rules import PartyRules
from daskfc.federation.party.slow_line import SlowLine
from daskfc.federation.party.workspaces import (
    LEDGER,
    LOG,
    empty,
    enter,
    folders_of_client,
    remove_old_runs,
)
from daskfc.federation.steps.calls import (
    StepCall,
    Unreadable,
    call_of,
    call_step,
    declared_message,
    read_step,
    step_name,
)
from daskfc.federation.steps.handles import InnerCall, fill_slots
from daskfc.federation.steps.told import told_by
from daskfc.federation.steps.uses import identity, uses_of
from daskfc.folders import PrivateLog, make_private
from daskfc.site import Refusal
from daskfc.site.request import COUNTED, TASKS

if TYPE_CHECKING:
    from daskfc.stores import ClientStore

logger = logging.getLogger("daskfc.party")


_SO_FAR = "so_far"  # the argument of steps that prepare: the submitter's, of what comes before


def _prepared(store: "ClientStore", steps: Sequence[Mapping[str, Any]]) -> "ClientStore":
    if not steps:
        return store
    from daskfc.stores.store.prepared import PreparedStore

    return PreparedStore.of(store, steps)


class Party:
    """The state of one party in its worker process."""

    def __init__(self, options: PartyOptions) -> None:
        self.options = options
        self.name = options.name
        self.refusal: DaskfcError | None = None
        self._issued: WeakSet[Outgoing] = WeakSet()
        self._revoked = None if options.ca is None else Revoked(options.ca)
        self._packages = options.policy.modules()
        self._store: ClientStore | None = None
        self.narration = Narration(self.name, told=options.narrates)
        self.counts = Counts()
        self.line = SlowLine(options.latency, options.bandwidth)
        self._enter_folder()

    @property
    def run(self) -> RunSettings | None:
        """The run under way."""
        return self.options.run

    def start_run(self, run: RunSettings, nonce: bytes = b"", submitter: str | None = None) -> None:
        """Begin a run: forget refusals, move into its folder."""
        begins = run != self.run
        if begins:
            self.ledger.end()
        self.options = replace(self.options, run=run, nonce=nonce, submitter=submitter)
        self.refusal = None
        self._store = None  # it may have been written again since the last run
        self._enter_folder()
        if begins:
            self._sweep_earlier_runs()
        self.narration.begins(run.run_id, run.name)
        self.counts.begins()

    def _enter_folder(self) -> None:
        self.folder = self.options.run_folder()
        self._settings = b"" if self.run is None else signed_content(self.run)
        self.ledger = LedgerFile(self.folder / LEDGER)
        try:
            if self.run is None or self.options.folder is None:
                make_private(self.folder)
            else:
                enter(self.folder)
            if self.run is not None:
                key = LedgerKey.of_folder(self.options.durable_folder())
                self.ledger = LedgerFile(self.ledger.path, key)
                self.ledger.start(self.name, asdict(self.run))
        except OSError as error:  # the party starts all the same, to report this
            self.refusal = self.unrecorded(error)
        self._receipts = Receipts(self.name, self.ledger)
        self.rules = PartyRules(self.options, self.store)
        self._uploaded: int | None = None
        handler = PrivateLog(self.folder / LOG, delay=True)
        # The full text of an error stays at the party: it may hold values.
        for name in _LOGGERS:
            target = logging.getLogger(name)
            for old in target.handlers:
                old.close()
            target.handlers = [handler]
            target.propagate = False
        logging.captureWarnings(True)

    def _sweep_earlier_runs(self) -> None:
        """Remove files of earlier runs, except ledgers and logs, and old runs with these."""
        base = self.options.folder
        if base is not None and self.options.role == "client":
            empty(folder for folder in folders_of_client(base) if folder != self.folder)
        asked = None if self.run is None else self.run.request.get("method")
        counted = asked not in TASKS or asked in COUNTED  # of others anyone may begin many
        if base is not None and self.options.keep is not None and counted:
            remove_old_runs(base, self.options.keep, self.folder)

    def store(self) -> "ClientStore":
        """Return this client's store; StoreError when it is another's, or was rewritten."""
        if self._store is None:
            if self.options.store is None:
                raise InvalidInput(
                    f"party {self.name!r} has no store, so that no step of it may have a parameter "
                    "'data'. Run the step at a client."
                )
            # Imported here to save the server, which has no store, a second for zarr.
            from daskfc.stores import ClientStore
            from daskfc.stores.layout.layout import data_set_of
            from daskfc.stores.store.together import check_owner

            store = ClientStore.open(self.options.store)
            check_owner(store.name, self.name, store.url)
            if self.run is not None and self.run.builds.get(self.name, store.build_id) != (
                store.build_id
            ):
                raise StoreError(
                    f"the store of client {self.name!r} was written again since the federation "
                    "opened. Open the federation again."
                )
            self.rules.opened(store, data_set_of(store.attributes))
            steps = [] if self.run is None else self.run.prepared(self.name)
            self.rules.check_clips(store, steps)
            self._store = _prepared(store, steps)
        return self._store

    def as_prepared(self, store: "ClientStore") -> "ClientStore":
        """Return a store of new samples as the run's methods read the party's own."""
        own = self.store()
        columns = tuple(own.attributes["feature_names"])  # of which the policy was asked
        if not self.rules.composes and store.feature_names != columns:
            told = "a store of new samples has other columns than this site's own."
            self.rules.refuse(Refusal("columns", told))
        steps = getattr(own, "steps", ())  # with the values that are the own store's
        if any("lengths" in step for step in steps):
            raise StoreError(
                f"client {self.name!r}: a sample's length over the columns of all clients, by "
                "which 'normalise' divides, is known of the samples of the fit alone. Fit again "
                "with the new ones."
            )
        words = own.attributes.get("words")
        if steps and words and "words" not in store.attributes:
            steps = ({"step": "words", "words": words}, *steps)
        return _prepared(store, steps)

    def perform_sent(self, data: bytes, values: tuple[Any, ...]) -> Any:
        """Perform a step as it was sent; see `perform`."""
        keys = [] if self.options.driver_key is None else [self.options.driver_key]
        try:
            if self.run is not None and self.run.session:
                content, trusted = content_of_signed(self.run.session, data), False
            else:
                content, trusted = opened(keys, data)
            call = call_of(content, Reader(self._packages, trusted=trusted))
        except Exception as error:
            logger.exception("a call could not be read")
            crossing = self._crossing(error, "?")
        else:
            return self.perform(call, values)
        raise crossing

    def perform(self, call: StepCall, values: tuple[Any, ...]) -> Any:
        """Perform a step, with its slots' values still in envelopes; return what the worker keeps.

        An error that ends the run keeps its class, such as EgressRefused for an undeclared message;
        any other is raised as a PartyError without values.
        """
        name = step_name(call.step)
        try:
            self._check_call(call, name)
            self._check_arrived(call, values)
            self._check_protocol(call, values)
            self.narration.asked(name)
            self.counts.asked(call.round)
            try:
                self._receipts.note(value for value in values if isinstance(value, Outgoing))
            except OSError as error:
                raise self.unrecorded(error) from error
            inner = functools.partial(self._inner, reader=call.reader)
            told = self._told(call, values)
            with self.rules.counting_failures():
                arguments = fill_slots(call.arguments, tuple(map(content_of_value, values)), inner)
                result = self._call(call.step, arguments, call.round, told)
                return self._address(call, name, result, told)
        except Exception as error:
            logger.exception("step %s of round %d failed", name, call.round)
            crossing = self._crossing(error, name)
            # A late step of a run that broke off ends no other run.
            if isinstance(error, ENDS_A_RUN) and self.run and self.run.run_id == call.run_id:
                self.refusal = crossing
        # Outside of the except clause: the first exception must not travel as its context.
        raise crossing

    def _crossing(self, error: Exception, step: str) -> DaskfcError:
        """Return what is reported to the submitter of an error."""
        crossing = without_values(error, self.name, step)
        return as_code(crossing) if self.options.policy.errors == "codes" else crossing

    def _check_call(self, call: StepCall, name: str) -> None:
        self.check_open()
        self._check_run(f"step {name!r}", call.run_id)
        if call.party != self.name:
            raise ClusterError(f"step {name!r} was meant for party {call.party!r}. Report it.")

    def _check_arrived(self, call: StepCall, values: tuple[Any, ...]) -> None:
        assert self.run is not None
        check_arrived(call.arguments, values, self.name, call.run_id)
        for one in values:
            check_signed(self.options.ca, self._revoked, one, self.run.start, self.name)

    def _check_protocol(self, call: StepCall, values: tuple[Any, ...]) -> None:
        """Refuse a step in a use that is not approved for the run's method."""
        if self.rules.composes or isinstance(call.step, Unreadable):  # which raises when called
            return
        routes = [route_of(self.name, receiver) for receiver in call.receivers]
        for use in uses_of(
            call.step,
            call.arguments,
            [maker_of(value) for value in values],
            at=self.options.role,
            sends=routes,
            each=call.each,
            made_for_each=[maker_of(value, to_each=True) for value in values],
            read=self._reading(call.reader),
        ):
            self.rules.check_step(use)

    @staticmethod
    def _reading(reader: Reader) -> Callable[[InnerCall], Callable[..., Any]]:
        return lambda inner: read_step(inner.name, inner.code, reader)

    def _told(self, call: StepCall, values: tuple[Any, ...]) -> bytes:
        """Return the digest of a step's inputs that are the same for all clients."""
        if self.options.role != "client":
            return b""
        came = [came_as(value) for value in values]
        told = told_by(call.step, call.arguments, call.each, came, self._reading(call.reader))
        return hashlib.sha256(self._settings + told).digest()

    def _check_run(self, what: str, run_id: str) -> None:
        if self.run is None:
            raise ClusterError(
                f"party {self.name!r} was started again while run {run_id!r} was under way, and "
                "its secret is lost. Resume the run; it then has new ones."
            )
        if run_id != self.run.run_id:
            raise ClusterError(
                f"{what} belongs to another run than party {self.name!r} is in by now "
                f"({run_id!r}, {self.run.run_id!r}). Resume it when the other has ended."
            )

    def _inner(self, inner: InnerCall, arguments: dict[str, Any], *, reader: Reader) -> Any:
        """Perform a step within another; errors name the inner step."""
        try:
            step = read_step(inner.name, inner.code, reader)
            return self._call(step, arguments, inner.round, b"")  # it sends nothing
        except Exception as error:
            logger.exception("step %s of round %d failed", inner.name, inner.round)
            crossing = self._crossing(error, inner.name)
        raise crossing

    def _call(
        self, step: Callable[..., Any], arguments: dict[str, Any], round: int, told: bytes
    ) -> Any:
        name = step_name(step)
        if _SO_FAR in arguments and self.options.role == "client":
            self.rules.check_clips(self.store(), arguments[_SO_FAR])
            self.rules.check_listed(self.store(), arguments[_SO_FAR])
        return call_step(step, arguments, lambda what: self._fill(what, round, name, told))

    def _fill(self, what: str, round: int, name: str, told: bytes) -> Any:
        assert self.run is not None
        if what == "told_alike":
            return told
        if what == "data":
            return self.store()
        if what == "secret":
            nonce = self.options.nonce.hex()
            return self.options.secret.derive(self.run.run_id, self.run.start, nonce)
        if what == "site":
            return self.rules
        if what == "durable_secret":
            return durable_secret(self.options.durable_folder())
        if what == "lasting_secret":
            return durable_secret(self.options.lasting_folder())
        if what == "random":
            return seeds.generator(self.run.random_state, self.name, round, name)
        if what == "as_prepared":
            return self.as_prepared
        if what == "last_result":
            if self.options.role != SERVER:
                raise PrivacyError(f"step {name!r} asks for what the server alone keeps.")
            return self.options.last_result()
        return str(self.folder) if what == "workspace" else self.name

    def _address(self, call: StepCall, name: str, result: Any, told: bytes) -> Any:
        """Check the messages of a step and put them into envelopes."""
        if call.verb == "keep":
            return Kept(result, identity(call.step), told)
        declared, by_receiver = declared_message(call.step)
        messages = result if by_receiver else dict.fromkeys(call.receivers, result)
        if set(messages) != set(call.receivers):
            raise InvalidInput(
                f"step {name!r} must return one message for each of {', '.join(call.receivers)}; "
                f"got messages for {', '.join(map(str, messages)) or 'nobody'}."
            )
        envelopes = {}
        digests: dict[int, str] = {}  # a message to many receivers is digested once
        for receiver in call.receivers:
            message = messages[receiver]
            if isinstance(message, Message) and type(message) is not declared:
                raise EgressRefused(
                    f"party {self.name!r} tried to send {type(message).__name__}; step {name!r} "
                    f"declares {declared.__name__}. Nothing was sent."
                )
            plain = as_declared(message, call.axes, party=self.name)
            if receiver == CALLER and self.options.store is not None:
                plain = self._without_ids(plain)
            if id(message) not in digests:
                digests[id(message)] = content_digest(plain)
                self._charge(plain, name, call.round, digests[id(message)])
            salt = new_salt()
            envelope = Outgoing(
                plain,
                self.name,
                receiver,
                name,
                call.run_id,
                call.round,
                call.axes,
                key=self.options.driver_key,
                id=self.ledger.new_id(),
                salt=salt,
                digest=salted(digests[id(message)], salt),
            )
            envelope = signed_by(self.options.files, envelope, self.run.start if self.run else "")
            self._issued.add(envelope)
            self.check(envelope)
            envelopes[receiver] = envelope
        return envelopes[call.receivers[0]] if call.verb == "send" else envelopes

    def _charge(self, message: Message, step: str, round: int, digest: str) -> None:
        """Count a noisy message against the budget of this client's data."""
        multiplier = multiplier_of(message)
        if multiplier is not None and self.options.store is not None:
            self.rules.charge(self.rules.data_set, multiplier, f"{step}|{round}|{digest}")

    def count_upload(self, n_bytes: int) -> None:
        """Count bytes about to leave in this run; PolicyRefused beyond the policy's ``upload``."""
        if self.rules.policy.upload is None or self.run is None:
            return
        if self._uploaded is None:  # another process of this party may have sent some
            rows = self.ledger.read(self.run.run_id)
            self._uploaded = sum(row["payload_bytes"] for row in rows)
        self.rules.check_upload(self._uploaded + n_bytes)
        self._uploaded += n_bytes

    def _without_ids(self, message: Message) -> Message:
        """Return a message as the caller gets it: under pseudonyms, where the run has them."""
        pseudonyms = pseudonyms_of(self.run.pseudonyms if self.run else None)
        if pseudonyms is None:
            if has_ids(message):
                self.rules.check_ids(type(message).__name__)
            return message
        key = pseudonyms.key
        return under_pseudonyms(message, pseudonyms, lambda: key(self.name, self.store().id_key()))

    def check_open(self) -> None:
        """Raise an earlier refusal of this run again, and PolicyRefused when its time is over."""
        if self.refusal is not None:
            raise type(self.refusal)(str(self.refusal))
        self.options.check_time()

    def unrecorded(self, error: OSError) -> LedgerError:
        """Return the error about messages that could not be recorded."""
        # A site's own folder is not named to others; the run's folder is the driver's.
        own = self.options.folder is not None
        file = f"{self.ledger.path.name} of its workspace" if own else f"{self.ledger.path}"
        return LedgerError(
            f"party {self.name!r} cannot write its ledger {file} ({reason(error)}), and nothing "
            "leaves it unrecorded. Free space there or restore the folder, and resume the run."
        )

    def check(self, envelope: Outgoing) -> None:
        """Raise EgressRefused for what may not be sent, ClusterError for another run's message."""
        message = envelope.message
        kind = type(message).__name__
        if envelope not in self._issued:
            raise EgressRefused(
                f"party {self.name!r} was asked for {kind} in an envelope that it did not make. "
                "Nothing was sent."
            )
        check_message(message, envelope.axes, party=self.name)
        self._check_run(kind, envelope.run_id)  # a run that broke off may still be asking
        if envelope.sender != self.name:
            raise EgressRefused(
                f"party {self.name!r} was asked for {kind} of party {envelope.sender!r}. "
                "Nothing was sent."
            )
        assert self.run is not None
        if message.protection == "raw" and not self.run.allow_raw:
            raise EgressRefused(
                f"party {self.name!r} tried to send {kind}, which is raw data. Nothing was sent; "
                "only a federation opened with allow_raw=True lets it pass."
            )
        if message.protection == "raw" and self.options.role == "client":
            self.rules.check_raw(kind)
        route = route_of(self.name, envelope.receiver)
        if route not in routes_of(type(message)):
            raise EgressRefused(
                f"party {self.name!r} tried to send {kind} to {envelope.receiver!r} "
                f"({route}); its routes are {', '.join(routes_of(type(message)))}. "
                "Nothing was sent."
            )


_LOGGERS = (
    "asyncio",
    "daskfc",
    "distributed",
    "distributed.client",
    "distributed.gc",
    "py.warnings",
    "tornado",
    "tornado.application",
)
