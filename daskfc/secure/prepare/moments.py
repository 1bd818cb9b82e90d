"""Means of columns over clients, and sums about them, from masked sums in units of magnitudes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from daskfc.federation import Federation, Local, Sent
from daskfc.secure.prepare import steps
from daskfc.secure.prepare.messages import CommonMagnitudes, FittedMeans
from daskfc.secure.sums import Aggregation, Total
from daskfc.stores.store.fitted_steps import FittedStep


@dataclass(frozen=True)
class ColumnMoments:
    """Moments of columns, as steps so far prepare them, of the clients whose samples count."""

    federation: Federation
    sums: Aggregation
    so_far: Sequence[FittedStep]
    clients: tuple[str, ...]

    def means(self) -> tuple[Local[FittedMeans], Self]:
        """Return the means, at the server, and the moments of those that were there in time."""
        total, largest, there = self._summed(steps.sums)
        return self.federation.on_server(steps.means_of, total, largest), there

    def about(
        self, means: Local[FittedMeans], step: Callable[..., Any]
    ) -> tuple[Local[Total], Local[CommonMagnitudes], Self]:
        """Return the sum of a step about the means and its units, at the server, and as `means`."""
        return self._summed(step, self.federation.tell(means, clients=self.clients))

    def _summed(
        self, step: Callable[..., Any], *means: Sent[FittedMeans]
    ) -> tuple[Local[Total], Local[CommonMagnitudes], Self]:
        largest, told, those = magnitudes(
            self.federation, self.sums, self.so_far, self.clients, *means
        )
        parts = self.federation.on_clients(step, self.so_far, *means, told, clients=those)
        return self.sums.sum(parts), largest, replace(self, clients=those)


def magnitudes(
    federation: Federation,
    summing: Aggregation,
    so_far: Sequence[FittedStep],
    clients: tuple[str, ...],
    *means: Sent[FittedMeans],
) -> tuple[Local[CommonMagnitudes], Sent[CommonMagnitudes], tuple[str, ...]]:
    """Return columns' magnitudes, at the server and as told, and the clients there in time."""
    asked = federation.ask(steps.column_magnitudes, so_far, *(means or (None,)), clients=clients)
    arrived = summing.arrived(asked)
    largest, those = federation.on_server(steps.common_magnitudes, arrived), tuple(arrived)
    return largest, federation.tell(largest, clients=those), those
