"""The first dictionary of FedSC: by moments, the published one, or the last fit's."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from daskfc.errors import InvalidInput
from daskfc.federation import Federation, Local
from daskfc.federation.party.last_result import LastResult, StartFound
from daskfc.protocols.fedsc import party, server
from daskfc.protocols.fedsc.averaging import Planned
from daskfc.protocols.fedsc.messages import Dictionary, KernelPlan
from daskfc.secure.sums import Aggregation

_NAME = "dictionary"


@dataclass(frozen=True)
class Start:
    """A fit's first dictionary: "moments", "normal" or "last"; `n_atoms` is None if not chosen."""

    kind: str
    n_atoms: int | None

    @classmethod
    def found(cls, federation: Federation, kind: str, n_atoms: int | None) -> Self:
        """Return the start; for "last" ask the server, and take "moments" if it kept none."""
        if kind != "last":
            return cls(kind, n_atoms)
        kept = federation.publish(find).n_rows
        return cls("last", kept) if kept else cls("moments", n_atoms)

    def dictionary(
        self, federation: Federation, sums: Aggregation, planned: Planned, seed: int
    ) -> Local[Dictionary]:
        """Have the server compute the first dictionary."""
        plan = planned.plan
        if self.kind == "last":
            return federation.on_server(last_dictionary, plan)
        if self.kind == "normal":
            return federation.on_server(server.normal_start, plan, len(federation.clients), seed)
        inputs = planned.samples, planned.plan_sent, planned.noise
        total = sums.sum(federation.inline(party.moments, *inputs), max_abs=plan.largest_client)
        return federation.on_server(server.start, total, planned.sizes, plan, seed)


def find(last_result: LastResult) -> StartFound:
    """Return whether there is a dictionary of the last fit, and its size, for the caller."""
    return StartFound.of(last_result, _NAME)


def last_dictionary(plan: KernelPlan, last_result: LastResult) -> Dictionary:
    """Return the last fit's dictionary found by `find`; refuse another number of features."""
    found = last_result.start()
    assert found is not None
    atoms = found[_NAME]
    if atoms.shape[1] != plan.n_features:
        raise InvalidInput(
            f"the last fit of FedSC was of samples with {atoms.shape[1]} features, and these have "
            f"{plan.n_features}. Begin anew with start='moments', or with another random_state."
        )
    return Dictionary(atoms)


def keep(dictionary: Dictionary, last_result: LastResult) -> bool:
    """Keep the last dictionary as the next fit's start."""
    last_result.keep({_NAME: np.asarray(dictionary.atoms)})
    return True
