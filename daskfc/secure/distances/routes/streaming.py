"""A stream that requests blocks from the evaluators, in a window, and decodes their answers.

The first 2l + 2t - 1 answers suffice. The stream waits a little for further ones, which check the
others; it excludes an evaluator that is often late or answers wrongly.
"""

import logging
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from daskfc.coding import LagrangeCode
from daskfc.errors import DeadlineError, DecodingError
from daskfc.federation import Federation, PerClient, Sent

logger = logging.getLogger("daskfc.distances")

Task = TypeVar("Task")
STRIKES = 3  # ours: an evaluator late this often is excluded for the rest of the run
SHORTEST_GRACE = 0.5  # seconds to wait for spare answers, at least


@dataclass
class AnswerStream(Generic[Task]):
    """Ask the evaluators for block after block and have the server decode them."""

    federation: Federation
    code: LagrangeCode
    evaluators: Sequence[str]
    ask: Callable[[Task, Sequence[str]], PerClient[Sent]]
    decode: Callable[[Task, PerClient[Sent]], Sent]
    window: int = 3  # tasks in progress at most, which bounds the memory of all parties
    grace: float = 1.0  # patience with late answers, over the time that the first ones took
    deadline_s: float | None = None
    dropped: dict[str, str] = field(default_factory=dict)
    _strikes: Counter[str] = field(default_factory=Counter)

    @property
    def active(self) -> tuple[str, ...]:
        """The evaluators that are not excluded."""
        return tuple(name for name in self.evaluators if name not in self.dropped)

    def run(self, tasks: Sequence[Task]) -> Iterator[Task]:
        """Compute all tasks; yield each when the server has it.

        Raises DecodingError where evaluators contradict each other beyond what the code corrects,
        DeadlineError where too few answer in time.
        """
        waiting = deque(tasks)
        asked: deque[tuple[Task, PerClient[Sent], float]] = deque()
        decoding: deque[tuple[Task, Sent]] = deque()
        while waiting or asked or decoding:
            while waiting and len(asked) + len(decoding) < self.window:
                task = waiting.popleft()
                asked.append((task, self.ask(task, self.active), time.monotonic()))
            if asked:
                task, answers, since = asked.popleft()
                decoding.append((task, self.decode(task, self._enough(answers, since))))
            if len(decoding) >= self.window or not asked:
                task, decoded = decoding.popleft()
                self._settle(decoded)
                yield task

    def _enough(self, answers: PerClient[Sent], since: float) -> PerClient[Sent]:
        """Wait for enough answers; return those that the server uses."""
        needed = self.code.threshold
        if len(answers) == needed:
            return answers  # every answer is needed, so decoding waits for them
        handles = list(answers.values())
        done, late = self.federation.wait(handles, count=needed, timeout=self.deadline_s)
        if len(done) < needed:
            names = ", ".join(repr(handle.party) for handle in late)
            raise DeadlineError(
                f"at least {needed} evaluators must answer within {self.deadline_s} s; {names} did "
                "not. Bring them back and resume the run, or lower n_segments or n_colluding."
            )
        if late:
            patience = max(SHORTEST_GRACE, self.grace * (time.monotonic() - since))
            _, late = self.federation.wait(handles, timeout=patience, needed=False)
        for handle in late:
            self._strike(handle.party)
        if late:
            self.federation.cancel(late)
        behind = {handle.party for handle in late}
        return PerClient({name: sent for name, sent in answers.items() if name not in behind})

    def _strike(self, name: str) -> None:
        self._strikes[name] += 1
        if self._strikes[name] >= STRIKES:
            self._drop(name, f"was late {STRIKES} times")

    def _settle(self, decoded: Sent) -> None:
        message = decoded.result(self.deadline_s)
        for index in message.wrong.tolist():
            self._drop(self.evaluators[index], "contradicted the other evaluators")

    def _drop(self, name: str, why: str) -> None:
        if name in self.dropped:
            return
        if len(self.active) <= self.code.threshold:
            if "late" in why:
                return  # a late answer is better than none
            raise DecodingError(
                f"evaluator {name!r} {why}, and the code needs all of the {self.code.threshold} "
                "that are left. Mend it and resume the run, or lower n_segments or n_colluding."
            )
        self.dropped[name] = why
        logger.warning("evaluator %r %s; it is not asked any more", name, why)
