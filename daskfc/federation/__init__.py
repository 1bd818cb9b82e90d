"""Parties, the messages between them, the guard at their doors and the ledger of what left.

Privacy: only declared messages leave a party, each for its receivers alone, whatever a submitter
requests and whoever reaches a port. Hostile code that a site installed and that runs inside a
party's process is not stopped; that takes a network sandbox of the operating system.
"""

from daskfc.federation.driver.federation import Federation
from daskfc.federation.ledger.ledger import Ledger, LedgerRow
from daskfc.federation.messages.declaration import (
    CALLER,
    SERVER,
    Message,
    NoiseMultiplier,
    array,
    check_message,
    payload_bytes,
    text,
)
from daskfc.federation.methods.estimator import FederatedClusterer, labels_array
from daskfc.federation.methods.parameters import param
from daskfc.federation.methods.samples import (
    ClientLabels,
    LabelledSamples,
    SampleDigests,
    canonical_positions,
    labelled_samples,
    labels_of_client,
    own_labels,
    sample_digests,
)
from daskfc.federation.party.checkpoints import Checkpoints
from daskfc.federation.scheduler.serve import serve_scheduler
from daskfc.federation.steps.handles import Handle, Inline, Local, PerClient, Sent
from daskfc.federation.worker.serve import serve_party

__all__ = [
    "CALLER",
    "SERVER",
    "Checkpoints",
    "ClientLabels",
    "FederatedClusterer",
    "Federation",
    "Handle",
    "Inline",
    "LabelledSamples",
    "Ledger",
    "LedgerRow",
    "Local",
    "Message",
    "NoiseMultiplier",
    "PerClient",
    "SampleDigests",
    "Sent",
    "array",
    "canonical_positions",
    "check_message",
    "labelled_samples",
    "labels_array",
    "labels_of_client",
    "own_labels",
    "param",
    "payload_bytes",
    "sample_digests",
    "serve_party",
    "serve_scheduler",
    "text",
]
