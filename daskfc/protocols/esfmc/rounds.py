"""The rounds of ESFMC, Algorithm 1: clients train and share features, the server clusters."""

from dataclasses import dataclass

from daskfc.federation import Federation, Local, PerClient, Sent
from daskfc.federation.methods.linking import Linked
from daskfc.federation.steps.handles import results
from daskfc.protocols.esfmc import party, server
from daskfc.protocols.esfmc.messages import (
    LinkedSamples,
    RoundReport,
    SharedAssignments,
    TrainingLosses,
)
from daskfc.protocols.esfmc.noise import FeatureNoise


@dataclass(frozen=True)
class RoundHistory:
    """A round's report to the caller, and losses by client, empty with noise on the features."""

    report: RoundReport
    losses: PerClient[TrainingLosses]


@dataclass
class Rounds:
    """The rounds of Algorithm 1 up to the last labels; every round is appended to `history`."""

    federation: Federation
    clients: party.ClientSettings
    at_server: server.ServerSettings
    found: Local[Linked]
    links: PerClient[Sent[LinkedSamples]]
    complete: bool
    aligned: bool
    noise: FeatureNoise | None
    history: list[RoundHistory]

    def run(
        self, rounds: int, tolerance: float
    ) -> tuple[PerClient[Local[party.Trained]], Local[server.Grouping], Local]:
        """Run the rounds; return the clients' models, the last grouping and the data of a map."""
        federation = self.federation
        trained: PerClient[Local[party.Trained]] | None = None
        grouping: Local[server.Grouping] | None = None
        labels: PerClient = federation.on_clients(party.first_labels, self.clients)
        confidences = labels
        shared: Sent[SharedAssignments] | None = None
        told: list[PerClient[Sent[TrainingLosses]]] = []
        for number in range(1, rounds + 1):
            federation.next_round()
            trained = federation.on_clients(
                party.train, trained, labels, shared, self.links, self.clients, number
            )
            self._watch(trained, number, rounds)
            filled = self._filled(number)
            features = federation.ask(
                party.tell_features,
                trained,
                confidences,
                self.links,
                shared if filled else None,
                self.clients,
                self.noise,
                number,
            )
            assignments = None
            if self._shares_assignments(number):
                assignments = federation.ask(party.tell_assignments, trained, self.clients)
            grouping = federation.on_server(
                server.cluster,
                self.found,
                features,
                assignments,
                grouping,
                self.at_server,
                filled=filled,
            )
            report = federation.publish(server.report, self.found, grouping)
            self.history.append(RoundHistory(report, PerClient({})))
            told.append(self._losses(trained))
            if self._may_end(number) and report.change < tolerance:
                break
            labels = federation.tell(server.labels_after, self.found, grouping)
            if assignments is not None:
                shared = federation.tell(server.shared_assignments, grouping)
        assert trained is not None
        assert grouping is not None
        for number, losses in enumerate(told):  # no round waited for them
            self.history[number] = RoundHistory(self.history[number].report, results(losses))
        seed = self.at_server.random_state  # now, as the round's features are dropped afterwards
        seen = federation.on_server(server.seen_by_map, self.found, features, grouping, seed)
        return trained, grouping, seen

    def _shares_assignments(self, number: int) -> bool:
        # in the first round each client numbers clusters by itself, so a mean is meaningless
        return self.aligned and (number > 1 or self.at_server.recipe == "paper")

    def _may_end(self, number: int) -> bool:
        """Whether unchanged labels may end the rounds.

        In the first round heads learn their clients' own labels. Where heads label samples, two
        rounds on the server's labels must follow.
        """
        return number > (1 if self.complete else 2)

    def _filled(self, number: int) -> bool:
        return self.aligned and self.at_server.recipe == "paper" and number > 1

    def _watch(self, trained: PerClient[Local[party.Trained]], number: int, rounds: int) -> None:
        """Report how many clients have trained, over all rounds."""
        M = len(trained)
        for done in range(1, M + 1):
            self.federation.wait(trained, count=done)
            so_far = (number - 1) * M + done
            self.federation.report_progress("training", so_far, rounds * M, "rounds of clients")

    def _losses(self, trained: PerClient[Local[party.Trained]]) -> PerClient[Sent[TrainingLosses]]:
        if self.noise is not None:
            return PerClient({})
        return self.federation.publish(party.tell_losses, trained, party="clients", wait=False)
