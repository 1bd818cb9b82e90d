"""A party's memory of all runs: starts, budgets, and refusals.

Each entry is written before what it allows is done, and is on the disk when the call returns: a
start or a charge counts as used even if its process ends right after.
"""

import hashlib
import math
import os
import sqlite3
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from daskfc.errors import InvalidInput
from daskfc.privacy import Accountant, GaussianEvent
from daskfc.site.amounts import Budget
from daskfc.site.database import create, inspect, transaction
from daskfc.site.request import Refusal, RunRequest

_LEAST_NOISE, _MOST_NOISE = 1e-6, 1e8  # ours: releases with less or more count as with this
_LAST_BITS = 1 + 1e-9  # ours: sums of a budget's parts differ from the whole by less
_LONGEST = 1000  # ours: characters of a text in the audit log


@dataclass(frozen=True)
class AuditRow:
    """One line of a site's own audit log.

    Parameters
    ----------
    time : float
        Seconds since 1970.
    what : {"began", "refused", "granted"}
        What happened.
    run_id, start : str
        Of which start; empty for a grant.
    submitter : str or None
        Who asked, where it is known.
    rule : str
        The rule that refused; empty for others.
    text : str
        The site's sentence, the method that began, or why epsilon was granted.
    """

    time: float
    what: str
    run_id: str
    start: str
    submitter: str | None
    rule: str
    text: str


@dataclass(frozen=True)
class Grant:
    """Epsilon that a site added to the budget.

    Parameters
    ----------
    dataset : str or None
        Digest of the data set that it is for; None for all.
    epsilon : float
        Nats.
    why : str
        The site's reason.
    time : float
        Seconds since 1970.
    """

    dataset: str | None
    epsilon: float
    why: str
    time: float


class SiteState:
    """The memory of one party, in one SQLite file.

    Parameters
    ----------
    path : path
        The file, on a disk of the machine itself. Only its owner may open it.
    new : bool
        Whether to make it where there is none.
    clock : callable
        Gives seconds since 1970.

    Raises
    ------
    InvalidInput
        When it cannot be made, is missing, damaged, of another version, or open to other users.

    Notes
    -----
    Privacy: whoever removes the file, or puts an older copy in its place, makes the party forget
    what was spent. Several processes may use one file; each transaction waits for the others.

    All methods that write raise `LedgerError` when the file fails; what they were to allow may then
    not be done.

    Examples
    --------
    >>> import tempfile
    >>> from daskfc.site import Budget, RunRequest, SiteState
    >>> state = SiteState(f"{tempfile.mkdtemp()}/state.sqlite")
    >>> nonce = state.begin("run-1", "start-1", RunRequest("FedSC"))
    >>> budget = Budget(epsilon=1, delta=1e-5)
    >>> spent = state.charge(
    ...     "digest", 8.0, budget, run_id="run-1", start="start-1", label="factors"
    ... )
    >>> round(spent.epsilon(1e-5), 4)
    0.4344
    >>> state.begin("run-1", "start-1", RunRequest("FedSC"))
    Traceback (most recent call last):
    ...
    daskfc.errors.PolicyRefused: a site refuses this by its rule 'start'. Ask that site, or change \
what is asked.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        new: bool = True,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.path = Path(path).absolute()  # a process may change its folder
        self._clock = clock
        if new and not self.path.exists():
            create(self.path)
        inspect(self.path)

    def root_secret(self) -> bytes:
        """Return 32 secret bytes, drawn when the file was made; InvalidInput for changed ones."""
        with transaction(self.path, writes=False) as db:
            secret, digest = db.execute("SELECT secret, digest FROM root").fetchone()
        if hashlib.sha256(secret).digest() != digest:
            raise InvalidInput(
                "the root secret in the site's state is damaged. Restore the file from a copy."
            )
        return bytes(secret)

    # -- starts -------------------------------------------------------------------------------

    def begin(self, run_id: str, start: str, request: RunRequest) -> bytes:
        """Remember a start, and return 32 fresh bytes, on which its secrets depend.

        Raises
        ------
        PolicyRefused
            When the start was used; its rule is "start".
        """
        now, who = self._clock(), request.submitter
        with transaction(self.path, writes=True) as db:
            used = db.execute(
                "SELECT time FROM starts WHERE run_id = ? AND (start = ? OR submitter IS NOT ?)",
                (run_id, start, who),  # one's id of a run is no other's: by it a ledger is read
            ).fetchone()
            refusal = None
            if used is None:
                db.execute(
                    "INSERT INTO starts VALUES (?, ?, ?, ?, ?, ?)",
                    (run_id, start, now, who, request.as_json(), not request.is_counted),
                )
                _audit(db, now, "began", run_id, start, who, "", request.method)
            else:
                said = f"start {start!r} of run {run_id!r} was used before, at {_day(used[0])}."
                refusal = Refusal("start", said)
                _audit(db, now, "refused", run_id, start, who, refusal.rule, refusal.sentence)
        if refusal is not None:
            raise refusal.error()
        return os.urandom(32)

    def runs_since(self, moment: float) -> int:
        """Return how many starts that ``runs`` limits began from a moment on, since 1970 in s."""
        with transaction(self.path, writes=False) as db:
            (n,) = db.execute(
                "SELECT COUNT(*) FROM starts WHERE time >= ? AND NOT task", (moment,)
            ).fetchone()
        return int(n)

    # -- budgets ------------------------------------------------------------------------------

    def charge(
        self,
        dataset: str,
        multiplier: float,
        budget: Budget | None,
        *,
        run_id: str,
        start: str,
        label: str,
        count: int = 1,
    ) -> Accountant:
        """Count releases with Gaussian noise, before they are made; return all of the data set.

        Parameters
        ----------
        dataset : str
            Digest of the data that the releases are of.
        multiplier : float
            Standard deviation of the noise over the sensitivity, above 0.
        budget : Budget, optional
            What all releases of the data set may cost, to which grants are added; None counts and
            refuses nothing.
        run_id, start, label : str
            What is released. The same again counts once: it bears the same noise.
        count : int
            How many releases it is.

        Raises
        ------
        InvalidInput
            For an invalid multiplier or count.
        PolicyRefused
            When the budget has less left, and when the label has another multiplier or count than
            before; its rule is "budget". Nothing is counted then.
        """
        GaussianEvent(multiplier, count)  # checks both
        multiplier, count = float(multiplier), int(count)  # SQLite knows none of NumPy's types
        now, key = self._clock(), (dataset, run_id, start, label)
        with transaction(self.path, writes=True) as db:
            before = db.execute(
                "SELECT multiplier, count FROM charges"
                " WHERE dataset = ? AND run_id = ? AND start = ? AND label = ?",
                key,
            ).fetchone()
            spent, refusal = _spent(db, dataset), None
            if before is None:
                then = spent.compose(_event(multiplier, count))
                refusal = _over(then, budget, _granted(db, dataset), label)
            elif before != (multiplier, count):
                said = f"the release {label!r} was counted with other noise before."
                refusal = Refusal("budget", said)
            if refusal is not None:
                _refused(db, now, run_id, start, refusal)
            elif before is None:
                db.execute(
                    "INSERT INTO charges VALUES (?, ?, ?, ?, ?, ?, ?)",
                    (*key, multiplier, count, now),
                )
                spent = _spent(db, dataset)
        if refusal is not None:
            raise refusal.error()
        return spent

    def spent(self, dataset: str) -> Accountant:
        """Return all releases of a data set so far; releases with equal noise are one event."""
        with transaction(self.path, writes=False) as db:
            return _spent(db, dataset)

    def datasets(self) -> tuple[str, ...]:
        """Return the digests of all data sets of which anything was released."""
        with transaction(self.path, writes=False) as db:
            found = db.execute("SELECT DISTINCT dataset FROM charges ORDER BY dataset").fetchall()
        return tuple(dataset for (dataset,) in found)

    def grant(self, dataset: str | None, epsilon: float, why: str) -> None:
        """Add ε > 0, in nats at the budget's δ, to a data set's budget, or for None to all."""
        if not 0 < epsilon < math.inf:
            raise InvalidInput(f"a grant must be an epsilon above 0; got {epsilon!r}. Correct it.")
        if not why.strip():
            raise InvalidInput("a grant needs a reason, which stays in the audit log. Give one.")
        now, why = self._clock(), " ".join(why.split())[:_LONGEST]
        with transaction(self.path, writes=True) as db:
            db.execute(
                "INSERT INTO grants (dataset, epsilon, why, time) VALUES (?, ?, ?, ?)",
                (dataset, epsilon, why, now),
            )
            whom = "all data sets" if dataset is None else dataset
            _audit(db, now, "granted", "", "", None, "", f"epsilon {epsilon:g} to {whom}: {why}")

    def grants(self) -> tuple[Grant, ...]:
        """Return what was granted, oldest first."""
        with transaction(self.path, writes=False) as db:
            found = db.execute("SELECT dataset, epsilon, why, time FROM grants ORDER BY id")
            return tuple(Grant(*row) for row in found.fetchall())

    def granted(self, dataset: str) -> float:
        """Return the epsilon that was granted to a data set, by itself and with all others."""
        with transaction(self.path, writes=False) as db:
            return _granted(db, dataset)

    # -- what was used for what -----------------------------------------------------------------

    def hold(
        self,
        use: str,
        name: str,
        content: str,
        check: Callable[[tuple[str, ...]], Refusal | None],
        *,
        run_id: str,
        start: str,
    ) -> None:
        """Record what something is used for, unless its earlier uses forbid that.

        Parameters
        ----------
        use, name : str
            How it is used, and what: such as "groups" of a data set.
        content : str
            What it is used for; a content recorded before is not checked again.
        check : callable
            Takes all earlier contents, and returns the refusal of this one, or None.
        run_id, start : str
            Of which start.

        Raises
        ------
        PolicyRefused
            With the refusal of `check`.

        Examples
        --------
        >>> import tempfile
        >>> from daskfc.site import Refusal, SiteState
        >>> state = SiteState(f"{tempfile.mkdtemp()}/state.sqlite")
        >>> def once(before):
        ...     return Refusal("groups", "it was grouped before.") if before else None
        >>> state.hold("groups", "wine", "by k-means", once, run_id="run-1", start="start-1")
        >>> state.hold("groups", "wine", "by k-means", once, run_id="run-2", start="start-1")
        >>> state.hold("groups", "wine", "by age", once, run_id="run-3", start="start-1")
        Traceback (most recent call last):
        ...
        daskfc.errors.PolicyRefused: a site refuses this by its rule 'groups'. Ask that site, or \
change what is asked.
        """
        now, refusal = self._clock(), None
        with transaction(self.path, writes=True) as db:
            found = db.execute(
                "SELECT content FROM uses WHERE use = ? AND name = ? ORDER BY time, content",
                (use, name),
            ).fetchall()
            before = tuple(one for (one,) in found)
            if content not in before:
                refusal = check(before)
                if refusal is None:
                    db.execute("INSERT INTO uses VALUES (?, ?, ?, ?)", (use, name, content, now))
                else:
                    _refused(db, now, run_id, start, refusal)
        if refusal is not None:
            raise refusal.error()

    # -- the audit log ------------------------------------------------------------------------

    def refused(
        self, refusal: Refusal, *, run_id: str, start: str, submitter: str | None = None
    ) -> None:
        """Record a refusal of a start, by default asked for by who began it."""
        with transaction(self.path, writes=True) as db:
            _refused(db, self._clock(), run_id, start, refusal, submitter)

    def audit(self) -> tuple[AuditRow, ...]:
        """Return what began, was refused and was granted, oldest first."""
        columns = "time, what, run_id, start, submitter, rule, text"
        with transaction(self.path, writes=False) as db:
            found = db.execute(f"SELECT {columns} FROM audit ORDER BY id").fetchall()
        return tuple(AuditRow(*row) for row in found)


def _event(multiplier: float, count: int) -> GaussianEvent:
    return GaussianEvent(min(max(multiplier, _LEAST_NOISE), _MOST_NOISE), count)


def _spent(db: sqlite3.Connection, dataset: str) -> Accountant:
    # What Gaussian releases cost together follows from Σ count / multiplier², in any order.
    found = db.execute(
        "SELECT multiplier, SUM(count) FROM charges WHERE dataset = ?"
        " GROUP BY multiplier ORDER BY multiplier",
        (dataset,),
    )
    return Accountant(tuple(_event(multiplier, count) for multiplier, count in found))


def _granted(db: sqlite3.Connection, dataset: str) -> float:
    found = db.execute(
        "SELECT epsilon FROM grants WHERE dataset = ? OR dataset IS NULL", (dataset,)
    )
    return math.fsum(epsilon for (epsilon,) in found)


def _over(spent: Accountant, budget: Budget | None, granted: float, label: str) -> Refusal | None:
    if budget is None:
        return None
    limit = budget.epsilon + granted
    try:
        epsilon = spent.epsilon(budget.delta)
    except InvalidInput:  # beyond the range of numbers
        epsilon = math.inf
    if epsilon <= limit * _LAST_BITS:
        return None
    return Refusal(
        "budget",
        f"with the release {label!r} the data set would have spent epsilon {epsilon:.4g} of "
        f"{limit:.4g} at delta {budget.delta:g}.",
    )


def _refused(
    db: sqlite3.Connection,
    now: float,
    run_id: str,
    start: str,
    refusal: Refusal,
    submitter: str | None = None,
) -> None:
    if submitter is None:
        found = db.execute(
            "SELECT submitter FROM starts WHERE run_id = ? AND start = ?", (run_id, start)
        ).fetchone()
        submitter = None if found is None else found[0]
    _audit(db, now, "refused", run_id, start, submitter, refusal.rule, refusal.sentence)


def _audit(
    db: sqlite3.Connection,
    now: float,
    what: str,
    run_id: str,
    start: str,
    submitter: str | None,
    rule: str,
    text: str,
) -> None:
    db.execute(
        "INSERT INTO audit (time, what, run_id, start, submitter, rule, text)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        (now, what, run_id, start, submitter, rule, text[:_LONGEST]),
    )


def _day(moment: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(moment))
