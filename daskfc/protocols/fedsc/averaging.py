"""FedSC, Stage I: rounds of local steps and averaging (Algorithm 1), which can be resumed."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from daskfc import seeds
from daskfc.federation import Federation, Local, PerClient, Sent
from daskfc.protocols.fedsc import party, server
from daskfc.protocols.fedsc.journal import Releases
from daskfc.protocols.fedsc.messages import DictionaryChange, KernelPlan, Resumed
from daskfc.protocols.fedsc.privacy.noise import FactorNoise, Noise
from daskfc.secure.sums import Aggregation, open_sum

Summaries: TypeAlias = tuple[PerClient[Local], PerClient[Sent]]


@dataclass(frozen=True)
class AveragingSettings:
    """The parameters of FedSC that the rounds use."""

    rounds: int
    local_steps: int
    ridge: float
    participation: float
    weighting: str
    averaging: str
    aggregators: Sequence[str] | None
    tolerance: float
    n_colluding: int
    allow_few: bool
    patience_s: float
    random_state: int

    def n_active(self, n_clients: int) -> int:
        """Return the number of clients in a round."""
        return max(1, math.ceil(self.participation * n_clients - 1e-9))


@dataclass(frozen=True)
class Planned:
    """The plan before the first round: `plan` for the server, `plan_sent` for the clients."""

    samples: PerClient[Local]
    sizes: PerClient[Sent]
    plan: KernelPlan
    plan_sent: Sent[KernelPlan]
    journal: Local
    releases: Releases
    noise: Noise | None


def secure_sums(
    federation: Federation, clients: tuple[str, ...], settings: AveragingSettings
) -> Aggregation:
    """Return the aggregation by which the server learns sums over some clients."""
    return open_sum(
        federation,
        settings.averaging,
        clients=clients,
        n_colluding=settings.n_colluding,
        allow_few=settings.allow_few,
        patience_s=settings.patience_s,
        aggregators=settings.aggregators,
    )


def summaries(
    federation: Federation, kernel_width: float | None, n_atoms: int | None, noise: Noise | None
) -> Summaries:
    """Have clients open their samples, and send the server what the kernel's plan needs."""
    samples = federation.on_clients(party.samples_of, noise)
    return samples, federation.ask(party.summarise, samples, kernel_width, n_atoms, noise)


def agree(
    federation: Federation,
    sizes: PerClient[Sent],
    kernel_width: float | None,
    n_atoms: int | None,
    neighbors: int | None,
) -> tuple[KernelPlan, Sent[KernelPlan]]:
    """Have the server choose the kernel's width and the number of atoms, and send them to all."""
    at_server = federation.on_server(server.plan_of, sizes, kernel_width, n_atoms, neighbors)
    return federation.publish(at_server), federation.tell(at_server)


def active_clients(
    federation: Federation, settings: AveragingSettings, number: int
) -> tuple[str, ...]:
    """Draw the clients of a round."""
    everybody = federation.clients
    count = settings.n_active(len(everybody))
    if count == len(everybody):
        return everybody
    random = seeds.generator(settings.random_state, "FedSC", "participation", number)
    return tuple(everybody[i] for i in sorted(random.permutation(len(everybody))[:count]))


@dataclass
class Averaging:
    """The rounds; `on_round` gets each one's number and the dictionary's relative change."""

    federation: Federation
    settings: AveragingSettings
    planned: Planned
    sums: Aggregation
    on_round: Callable[[int, float], None] = field(default=lambda number, change: None)

    def run(self, start: Local, done: Resumed) -> tuple[Local, Local]:
        """Run the remaining rounds; return the last dictionary and the one before it."""
        journal = self.planned.journal
        before = self.federation.on_server(server.first, journal, max(done.round - 1, 0), start)
        dictionary = self.federation.on_server(server.first, journal, done.round, start)
        if done.round:
            self.on_round(done.round, done.change)
        if done.change < self.settings.tolerance:
            return dictionary, before
        reports: list[tuple[int, Sent[DictionaryChange]]] = []
        for number in range(done.round + 1, self.settings.rounds + 1):
            self.federation.next_round()
            before, dictionary = dictionary, self._round(dictionary, number)
            report = self.federation.publish(server.progress, dictionary, before, wait=False)
            reports.append((number, report))
            if self._hangs_on_reports and self._told(reports) < self.settings.tolerance:
                break
        self._told(reports)
        return dictionary, before

    @property
    def _hangs_on_reports(self) -> bool:
        """Whether rounds wait for the last one's report, which may end the fit or releases."""
        return self.settings.tolerance > 0 or isinstance(self.planned.noise, FactorNoise)

    def _told(self, reports: list[tuple[int, Sent[DictionaryChange]]]) -> float:
        """Report rounds as their messages arrive; return the last change."""
        change = math.inf
        while reports:
            number, report = reports.pop(0)
            change = report.result().change
            self.federation.report_progress("averaging", number, self.settings.rounds, "rounds")
            self.on_round(number, change)
        return change

    def _round(self, dictionary: Local, number: int) -> Local:
        """Run local steps, and average their results (Algorithm 1, lines 4 to 19)."""
        federation, settings, planned = self.federation, self.settings, self.planned
        clients = active_clients(federation, settings, number)
        everybody = clients == federation.clients
        sums = self.sums if everybody else secure_sums(federation, clients, settings)
        dictionary_sent = federation.tell(dictionary, clients=clients)
        journal = self._expected()
        uniform = settings.weighting == "uniform"
        parts = federation.inline(
            party.weighted_update,
            planned.samples.only(clients),
            dictionary_sent,
            planned.plan_sent,
            ridge=settings.ridge,
            steps=settings.local_steps,
            uniform=uniform,
            noise=planned.noise,
            number=number,
            clients=clients,
        )
        total = sums.sum(parts, max_abs=party.largest_entry(planned.plan, planned.noise))
        return federation.on_server(
            server.mean_dictionary,
            total,
            dictionary,
            planned.sizes,
            planned.plan,
            journal,
            uniform=uniform,
            changes=isinstance(planned.noise, FactorNoise),
            number=number,
            rounds=settings.rounds,
        )

    def _expected(self) -> Local:
        """Have the server record the round's release before it requests it."""
        planned = self.planned
        if not isinstance(planned.noise, FactorNoise):
            return planned.journal
        multiplier = planned.noise.dictionary_multiplier
        return planned.releases.expect(self.federation, planned.journal, multiplier)
