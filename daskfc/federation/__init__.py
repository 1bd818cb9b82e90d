"""Parties, the messages between them, the guard at their doors and the ledger of what left.

Privacy: the guard stops mistakes of trusted code: raw data that is gathered by the driver or pulled
by a peer, a message of another shape, a value in the text of an exception. It does not stop hostile
code that runs inside a party's process; that takes a network sandbox of the operating system.
Whoever may submit steps is trusted with what steps may do.
"""

from daskfc.federation.checkpoints import Checkpoints
from daskfc.federation.estimator import FederatedClusterer, labels_array
from daskfc.federation.federation import Federation
from daskfc.federation.handles import Handle, Inline, Local, PerClient, Sent
from daskfc.federation.ledger import Ledger, LedgerRow
from daskfc.federation.messages import (
    CALLER,
    SERVER,
    Message,
    NoiseMultiplier,
    array,
    check_message,
    payload_bytes,
    text,
)
from daskfc.federation.parameters import param
from daskfc.federation.samples import (
    ClientLabels,
    LabelledSamples,
    SampleDigests,
    canonical_positions,
    labelled_samples,
    labels_of_client,
    own_labels,
    sample_digests,
)
from daskfc.federation.serve import serve_party
from daskfc.federation.serve_scheduler import serve_scheduler

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
