"""A site's policy and memory within a run, as the guard and the steps ask for them."""

import contextlib
import hashlib
import json
import logging
import secrets
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from packaging.utils import canonicalize_name

from daskfc.errors import ENDS_A_RUN, PolicyRefused, PrivacyError, ResourceRefused
from daskfc.federation.party.once import OnceOnly
from daskfc.federation.party.options import PartyOptions
from daskfc.federation.party.process_memory import PROCESS_BYTES, fits
from daskfc.federation.steps.rules import Announced, broken_rule, odd_numbers
from daskfc.privacy import Accountant, GaussianEvent
from daskfc.site import ANY_PART, BETWEEN_SITES, Policy, Refusal, SiteState, Smallest
from daskfc.site.approved import Protocol, StepUse
from daskfc.site.request import TASKS

if TYPE_CHECKING:
    from daskfc.stores import ClientStore

UNNAMED = "steps"
"""The method of a run whose driver does not say what it is for."""

FAILURES = 4  # ours: steps of a start that may fail at a site: each failure tells of its data
_PREPARED = 16  # ours: ways in which a start may have a site prepare its samples
_REFUSING = ("log", "tf-idf")  # steps of a preparation that some values fail
_OWN = "daskfc"
_ROUNDED = 1.0 + 1e-6  # ours: tolerance for composing the same releases again
logger = logging.getLogger("daskfc.party")


_WORDS = "words that enough samples share"


def _named(content: str) -> tuple[frozenset[str], int]:
    """Return the clients of an earlier sum, and how many of them may have left."""
    told = json.loads(content)
    names, left = told if told and isinstance(told[0], list) else (told, 0)
    return frozenset(names), left


def _word(so_far: Sequence[Mapping[str, Any]], column: str, word: str) -> str:
    return json.dumps([list(so_far), column, word], sort_keys=True, default=str)


class SiteRules:
    """No rules, for steps that run outside of a party."""

    def once(self) -> OnceOnly:
        """Return the check that a tag is used for one content only."""
        return OnceOnly()

    def check_maskers(self, n_maskers: int, threshold: int | None = None) -> None:
        """Refuse a masked sum of too few clients; see `Policy.check_maskers`."""

    def check_members(self, members: Iterable[str], may_leave: int = 0) -> None:
        """Refuse a masked sum of nearly the same clients as one before."""

    def check_one_set(self, members: Iterable[str]) -> None:
        """Refuse masked sums over other clients than before in a start."""

    def check_all(self, clients: Iterable[str]) -> None:
        """Refuse shares of other clients than the run's."""

    def check_some(self, clients: Iterable[str]) -> None:
        """Refuse keys of clients that the run did not announce."""

    def check_segments(self) -> None:
        """Refuse distances of single segments, unless the run announced them."""

    def check_store(self, url: str) -> None:
        """Refuse a store besides the party's own; see `Policy.check_store`."""

    def check_memory(self, n_bytes: int, what: str) -> None:
        """Refuse (ResourceRefused) what takes more memory than there is beside the process."""

    def release(self, multiplier: float, label: str) -> None:
        """Count noise where it is made: messages with its multiplier then count no more."""

    def hidden_among(self, n_clients: int) -> int:
        """Return how many of so many clients do not collude, by what the run announced; one is."""
        return n_clients

    def check_model(self, *arrays: np.ndarray) -> None:
        """Refuse a second model of the submitter's that new samples are labelled by."""

    def share_word(self, so_far: Sequence[Mapping[str, Any]], column: str, word: str) -> None:
        """Note a word that enough samples share, of samples that are prepared so."""

    def check_labels(self, store: "ClientStore", labels: np.ndarray, use: str) -> None:
        """Refuse labels of more clusters than announced, or a second labelling of a store."""

    def hold_one(self, use: str, tag: str, content: bytes) -> None:
        """Refuse another content of a tag in a start than before, where a method's steps run."""

    @property
    def smallest(self) -> Smallest:
        """The smallest groups, words and columns whose sums the run opens."""
        return ANY_PART

    def check_groups(self, groups: np.ndarray) -> None:
        """Refuse groups, (n_samples,) with -1 for none, of too few of this party's samples."""

    @property
    def tells_words(self) -> bool:
        """Whether the caller may learn which words the party's samples have."""
        return True

    def check_words(self) -> None:
        """Refuse to reveal which words the party's samples have."""


FREE = SiteRules()


def _announced(options: PartyOptions) -> tuple[str, Mapping[str, Any], bool]:
    """Return method and parameters of the run under way, and whether it is one of daskfc's own."""
    told = {} if options.run is None else options.run.request
    method = told.get("method", UNNAMED)
    # Tasks are ours, whatever package is named; and one name has many spellings.
    own = method in TASKS or canonicalize_name(told.get("package", _OWN)) == _OWN
    return method, told.get("parameters", {}), own


class PartyRules(SiteRules):
    """The rules of one party in one start of a run; `open_store` opens its store, calling `opened`.

    With `composes` the driver may compose steps at will: on the loopback address, or for a method
    of another package that the policy allows.
    """

    def __init__(
        self, options: PartyOptions, open_store: Callable[[], object] | None = None
    ) -> None:
        self._options = options
        self._open_store, self._data_set = open_store, ""
        self.policy = options.policy
        run = options.run
        self._run_id, self._start = ("", "") if run is None else (run.run_id, run.start)
        self._state = None if options.state is None else SiteState(options.state, new=False)
        name = hashlib.sha256(f"{self._run_id} {self._start} {options.nonce.hex()}".encode())
        once = Path(options.scratch) / f"once-{name.hexdigest()[:16]}"
        self._method, self._parameters, own = _announced(options)
        self._pseudonyms = {} if run is None else run.pseudonyms
        clients = () if run is None else tuple(run.builds)
        self._announced = Announced(self._parameters, clients, self._pseudonyms)
        told = {} if run is None else run.request
        self._smallest = Smallest(*told.get("smallest", BETWEEN_SITES))
        self._released: dict[str, float] = {}
        self._read: set[str] = set()  # preparations whose clips and words were looked at
        self._made: set[float] = set()
        self._free = self.policy == Policy.default(loopback=True)
        self.composes = self._free or not own
        # beside noise a refusal would tell more of samples than the sum does
        noised = self._method == "preparation" and self._parameters.get("noised") is True
        self._looks = not (self.composes or noised)
        self._once = OnceOnly(once if once.parent.is_dir() else None)

    def once(self) -> OnceOnly:
        """Return the party's own memory of tags, which survives a restart of its process."""
        return self._once

    @contextlib.contextmanager
    def counting_failures(self) -> Iterator[None]:
        """Count a step of the run that fails, and refuse (PrivacyError) those after a few.

        A caller that chooses a step's numbers learns of the data by what is refused.
        """
        use, told = "failed steps", f"{FAILURES} steps of this start failed at {self._options.name}"
        counts = not self._free and self._options.store is not None
        if counts and self._once.is_full(use, FAILURES):
            raise PrivacyError(
                f"{told}, which takes no more: failures tell of its data. Mend what failed, as "
                "its party.log says, and start the run again."
            )
        try:
            yield
        except Exception as error:
            if counts and not isinstance(error, ENDS_A_RUN):
                with contextlib.suppress(PrivacyError):
                    self._once.hold_few(use, secrets.token_bytes(16), FAILURES)
                if self._state is not None and self._once.is_full(use, FAILURES):
                    refusal = Refusal("steps", f"{told}; it takes no more of the run.")
                    self._state.refused(refusal, run_id=self._run_id, start=self._start)
            raise

    def hidden_among(self, n_clients: int) -> int:
        """See `SiteRules`; PrivacyError where what was announced is no number."""
        return max(1, n_clients - self._announced.n_colluding)

    def check_clips(self, store: "ClientStore", steps: Sequence[Mapping[str, Any]]) -> None:
        """Refuse a ``clip`` that leaves too few of a column's samples, by ``groups``."""
        if not self._looks or not any(step["step"] == "clip" for step in steps):
            return
        from daskfc.stores.store.prepared import PreparedStore  # no time of the server's for zarr

        asked = json.dumps(steps, sort_keys=True, default=str)
        if asked not in self._read and PreparedStore.of(store, steps).leaves_few(
            least := max(self.smallest.samples, self.policy.groups.samples)
        ):
            told = f"'clip' would leave fewer than {least} samples of a column as they are."
            self.refuse(Refusal("groups.samples", told))
        self._read.add(asked)

    def share_word(self, so_far: Sequence[Mapping[str, Any]], column: str, word: str) -> None:
        """See `SiteRules`."""
        self._once.hold(_WORDS, _word(so_far, column, word), b"")

    def check_listed(self, store: "ClientStore", steps: Sequence[Mapping[str, Any]]) -> None:
        """Refuse words of the submitter's own: a column of one sample's word has its sums alone."""
        at = next((i for i, step in enumerate(steps) if step["step"] == "categories"), None)
        if not self._looks or at is None:
            return
        from daskfc.stores.store.prepared import PreparedStore  # as above

        before, asked = steps[:at], f"words {json.dumps(steps[: at + 1], default=str)}"
        if asked not in self._read:
            listed = steps[at]["words"]
            for column, word in PreparedStore.of(store, before).words_there():
                shared = self._once.has(_WORDS, _word(before, column, word))
                if word in listed.get(column, ()) and not shared:
                    told = f"a word of column {column!r} was not found to be of enough samples."
                    self.refuse(Refusal("groups.samples", told))
        self._read.add(asked)

    def check_model(self, *arrays: np.ndarray) -> None:
        """Refuse a second model in a start: labels by many models tell where samples lie."""
        if not self.composes:
            told = b"".join(np.ascontiguousarray(one).tobytes() for one in arrays)
            self._once.hold_few("models for labels", told, 1)

    def check_labels(self, store: "ClientStore", labels: np.ndarray, use: str) -> None:
        """See `SiteRules`; many labellings tell who is near whom."""
        if self.composes:
            return
        most, asked = self._parameters.get("n_clusters"), 1 + int(labels.max(initial=-1))
        if isinstance(most, int) and asked > most:
            told = f"labels of {asked} clusters; {self._method} was announced with {most}."
            self.refuse(Refusal("steps", told))
        self._once.hold_one(use, store.digest, labels.tobytes())

    def hold_one(self, use: str, tag: str, content: bytes) -> None:
        """See `SiteRules`; whoever may compose steps may also fit several times in a start."""
        if not self.composes:
            self._once.hold_one(use, tag, content)

    def refuse(self, refusal: Refusal) -> NoReturn:
        """Raise PolicyRefused: the site sees the whole sentence, others the rule's name only."""
        if self._state is not None:
            self._state.refused(refusal, run_id=self._run_id, start=self._start)
        logger.warning("refused by %s: %s", refusal.rule, refusal.sentence)
        raise refusal.error(self._options.name)

    def _ask(self, check: Callable[[], None]) -> None:
        try:
            check()
        except PolicyRefused as error:
            refusal = Refusal(error.rule, error.sentence)
        else:
            return
        self.refuse(refusal)

    def check_maskers(self, n_maskers: int, threshold: int | None = None) -> None:
        """Refuse a masked sum of fewer clients than the policy's ``maskers``."""
        self._ask(lambda: self.policy.check_maskers(n_maskers, threshold))

    def check_all(self, clients: Iterable[str]) -> None:
        """Refuse shares of other clients than those that the run announced, or of some of them."""
        self._hold_to(set(clients) == set(self._announced.clients), "takes shares of all clients")

    def check_some(self, clients: Iterable[str]) -> None:
        """See `SiteRules`; the others that were announced are prepared alike, and no more."""
        self._hold_to(set(clients) <= set(self._announced.clients), "takes keys of its clients")

    def check_segments(self) -> None:
        """See `SiteRules`; a segment may be the columns of one client."""
        self._hold_to(self._parameters.get("hide_segments") is False, "announced no open segments")

    def _hold_to(self, announced: bool, told: str) -> None:
        if not announced and not self.composes:
            self.refuse(Refusal("steps", f"{self._method} {told}."))

    def check_members(self, members: Iterable[str], may_leave: int = 0) -> None:
        """Refuse a sum whose clients differ from an earlier one's by under ``differ_by``.

        Of those that were named so many may leave, who are known to others alone.
        """
        now, least = frozenset(members), self.policy.maskers.differ_by

        def refusal(before: tuple[str, ...]) -> Refusal | None:
            for named, left in map(_named, before):
                apart = now ^ named
                if apart and len(apart) - left - may_leave < least > 1:
                    told = f"a sum would differ from one before by {', '.join(sorted(apart))} alone"
                    told += ", or less where clients leave" * (left + may_leave > 0)
                    return Refusal("maskers.differ_by", f"{told}; the policy asks for {least}.")
            return None

        # Sets are remembered whatever the policy says, so that a stricter one later knows them.
        if self._options.store is not None and self._remembers:
            content: list[Any] = sorted(now)
            content = [content, may_leave] if may_leave else content
            self._hold("members", self.data_set, json.dumps(content), refusal)

    def check_one_set(self, members: Iterable[str]) -> None:
        """See `SiteRules`; counts over some clients say nothing of sums over others.

        Methods that announce it sum over others in each round, or over pairs, and a preparation
        over clients with the same columns.
        """
        told = self._parameters
        several = told.get("participation", 1) != 1 or told.get("variant") == "tree"
        if not several and self._method != "preparation":
            self.hold_one("set of clients in masked sums", "", json.dumps(sorted(members)).encode())

    def opened(self, store: "ClientStore", data_set: str) -> None:
        """Bind the pseudonyms' label to submitter and data, or refuse by the rule ``pseudonyms``.

        It is called before ids are read, so that a change of the data is noticed.
        """
        self._data_set, label = data_set, str(self._pseudonyms.get("label", ""))
        told = f"the label {label!r} of pseudonyms is another submitter's, or of other data."
        if self._pseudonyms and self._remembers:
            content = json.dumps([self._options.submitter, store.build_id, store.digest])
            refusal = Refusal("pseudonyms", told)
            self._hold("pseudonyms", label, content, lambda before: refusal if before else None)

    @property
    def data_set(self) -> str:
        """The digest of the party's data, under which budgets and sets of clients are kept."""
        if not self._data_set and self._open_store is not None:
            self._open_store()
        return self._data_set

    def check_store(self, url: str) -> None:
        """Refuse a store that the policy's ``stores`` do not name."""
        self._ask(lambda: self.policy.check_store(url, self._options.store))

    def check_memory(self, n_bytes: int, what: str) -> None:
        """See `SiteRules`; the limit is that of the party's process."""
        limit, needed = self._options.memory, PROCESS_BYTES + n_bytes
        if limit is not None and not fits(needed, limit):
            raise ResourceRefused(
                f"{what} would take {needed / 1e9:.2f} GB of memory at {self._options.name!r}, "
                f"more than its limit of {limit / 1e9:.2f} GB less a tenth. Nothing was sent; "
                "raise its memory limit, or lower the number of samples."
            )

    @property
    def smallest(self) -> Smallest:
        """The smallest groups, words and columns that the run announced."""
        return self._smallest

    def check_groups(self, groups: np.ndarray) -> None:
        """Refuse groups of too few own samples, and one grouping too many, by ``groups``."""
        least, most = self.smallest.samples, self.policy.groups.groupings
        numbers, first, place, sizes = np.unique(
            groups, return_index=True, return_inverse=True, return_counts=True
        )
        few = sizes[numbers >= 0].min(initial=least)
        if few < least:
            told = f"a group would have {few} samples of this site, below {least}."
            self.refuse(Refusal("groups.samples", told))
        if most == "any" or not (numbers >= 0).any():
            return

        def refusal(before: tuple[str, ...]) -> Refusal | None:
            told = f"the samples were grouped otherwise before; the policy lets {most} groupings."
            return Refusal("groups.groupings", told) if len(before) >= most else None

        # by the first sample of each group, whatever number the group has
        same = np.where(groups < 0, -1, first[place]).astype(np.int64)
        content = hashlib.sha256(same.tobytes()).hexdigest()
        self._hold("groups", self.data_set, content, refusal)

    @property
    def tells_words(self) -> bool:
        """Whether the policy says ``words: allow``."""
        return self.policy.words == "allow"

    def check_words(self) -> None:
        """Refuse to reveal which words the party's samples have, by the policy's ``words``."""
        if not self.tells_words:
            self.refuse(
                Refusal(
                    "words", "the caller asks who has which word; the policy says words: never."
                )
            )

    def check_step(self, use: StepUse) -> None:
        """Refuse a step of daskfc in a use that is not approved for the run's method."""
        if use.step.partition(".")[0] != _OWN:  # left to the policy, which names their packages
            return
        refusal = Protocol.of(self._method).refusal(use, self._parameters)
        if refusal is None and use.function is not None:
            broken = broken_rule(use.function, use.given, self._announced, use.at)
            if broken is not None:
                told = f"{self._method} is asked for step {use.step}, whose {broken}."
                refusal = Refusal("steps", told)
        if refusal is not None:
            self.refuse(refusal)
        if so_far := use.given.get("so_far"):
            self._check_prepared(so_far)

    def _check_prepared(self, steps: Sequence[Mapping[str, Any]]) -> None:
        """Refuse samples that are prepared in many ways: what fails tells where they lie."""
        for told in [] if self.composes else odd_numbers(steps):
            self.refuse(Refusal("preparation", told))
        self._once.hold_few("ways to prepare samples", repr(steps).encode(), _PREPARED)
        for place, step in enumerate(steps):
            if step["step"] in _REFUSING:
                until = repr(steps[: place + 1]).encode()
                self._once.hold_few("ways to prepare samples for a log", until, FAILURES)

    def check_raw(self, kind: str) -> None:
        """Refuse a message with raw data, by the policy's ``raw``."""
        if self.policy.raw == "never":
            self.refuse(Refusal("raw", f"{kind} is raw data; the policy says raw: never."))

    def check_ids(self, kind: str) -> None:
        """Refuse a message with clear sample ids for the caller, by the policy's ``ids``."""
        if self.policy.ids == "never":
            told = f"{kind} would tell clear sample ids; the policy says ids: never."
            self.refuse(Refusal("ids", told))

    def check_upload(self, bytes_so_far: int) -> None:
        """Refuse a message with which the run exceeds the policy's ``upload``."""
        self._ask(lambda: self.policy.check_upload(bytes_so_far))

    def release(self, multiplier: float, label: str) -> None:
        """See `SiteRules`; a method counts all of its noise so, or none."""
        self._charge(self.data_set, multiplier, label)
        self._made.add(multiplier)

    def charge(self, dataset: str, multiplier: float, label: str) -> None:
        """Charge a noisy release to the data set's budget before it is made, or refuse it."""
        if multiplier not in self._made:
            self._charge(dataset, multiplier, label)

    def _charge(self, dataset: str, multiplier: float, label: str) -> None:
        self._hold_to_announced(multiplier, label)
        self._remember(
            lambda state: state.charge(
                *(dataset, multiplier, self.policy.budget),
                run_id=self._run_id,
                start=self._start,
                label=label,
            )
        )

    @property
    def _remembers(self) -> bool:
        return self._state is not None and not self._free

    def _hold(
        self, use: str, name: str, content: str, check: Callable[[tuple[str, ...]], Refusal | None]
    ) -> None:
        where = {"run_id": self._run_id, "start": self._start}
        self._remember(lambda state: state.hold(use, name, content, check, **where))

    def _remember(self, write: Callable[[SiteState], object]) -> None:
        """Write into the site's memory, where there is one."""
        if self._state is None:
            return
        try:
            write(self._state)
        except PolicyRefused as error:  # recorded in the memory
            refusal = Refusal(error.rule, error.sentence)
        else:
            return
        logger.warning("refused by %s: %s", refusal.rule, refusal.sentence)
        raise refusal.error(self._options.name)

    def _hold_to_announced(self, multiplier: float, label: str) -> None:
        """Refuse a release by which the run exceeds the (ε, δ) that it announced."""
        noise = self._parameters.get("noise")
        if not isinstance(noise, Mapping) or noise.get("formula") == "published":
            return  # the published formula is not exact
        if noise.get("epsilon") is None or noise.get("delta") is None:
            return
        released = {**self._released, label: multiplier}
        events = (GaussianEvent(one, count) for one, count in Counter(released.values()).items())
        spent = Accountant(tuple(events)).epsilon(noise["delta"])
        if spent > noise["epsilon"] * _ROUNDED:
            self.refuse(
                Refusal(
                    "noise",
                    f"{self._method} was announced with an epsilon of {noise['epsilon']:g}, and "
                    f"would come to {spent:.4g} with this release.",
                )
            )
        self._released = released
