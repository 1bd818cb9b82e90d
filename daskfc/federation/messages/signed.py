"""Messages that their senders sign by their certificates: public keys, whose owner must be sure.

An attacker that replaced another's key by its own could read what the key hides (Bonawitz et al.
2017, Section 6.2, against an active server).
"""

import json
from dataclasses import replace
from typing import Any

from daskfc.deploy.certificates.revocation import Revoked
from daskfc.deploy.certificates.signatures import sign, signer_of
from daskfc.deploy.config.config import SecurityFiles
from daskfc.errors import PrivacyError
from daskfc.federation.messages.digests import content_digest
from daskfc.federation.messages.envelopes import Outgoing


def _content(envelope: Outgoing, start: str) -> bytes:
    """Return what is signed: digest, run, start, step, sender and receiver of a message."""
    place = [envelope.run_id, start, envelope.step, envelope.sender, envelope.receiver]
    return json.dumps(["message", *place, content_digest(envelope.message)]).encode()


def signed_by(files: SecurityFiles | None, envelope: Outgoing, start: str) -> Outgoing:
    """Return an envelope with its sender's signature, if its class is signed and there is TLS."""
    if files is None or not envelope.message.signed:
        return envelope
    return replace(envelope, **sign(files, _content(envelope, start)))


def check_signed(
    ca: str | None, revoked: Revoked | None, envelope: Any, start: str, party: str
) -> None:
    """Refuse (PrivacyError) a message of a signed class not signed by its sender for this start."""
    if ca is None or not isinstance(envelope, Outgoing) or not envelope.message.signed:
        return
    proof = {"certificate": envelope.certificate, "signature": envelope.signature}
    try:
        peer = signer_of(ca, _content(envelope, start), proof, revoked)
        held = peer.is_party and peer.name == envelope.sender
    except PrivacyError:
        held = False
    if not held:
        raise PrivacyError(
            f"party {party!r} was given {type(envelope.message).__name__} of party "
            f"{envelope.sender!r}, which is not signed by its certificate for this start. It was "
            "not used; start the run again."
        )
