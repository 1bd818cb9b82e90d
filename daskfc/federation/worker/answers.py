"""Checks, by certificates, that other parties answer with messages of their own."""

from typing import Any

from daskfc.deploy.config.peers import Peer, peer_of
from daskfc.errors import PrivacyError
from daskfc.federation.messages.declaration import role_of
from daskfc.federation.messages.envelopes import Outgoing
from daskfc.federation.worker.door import Refused


def only_own(comm: Any, party: str) -> Any:
    """Have a connection return poison in place of messages that its certified peer did not send.

    The scheduler says whom to ask, and only a certificate proves who answers.
    """
    peer = peer_of(comm)
    if peer is None or hasattr(comm, "reads_any"):
        return comm
    comm.reads_any = comm.read

    async def read(**kwargs: Any) -> Any:
        answer = await comm.reads_any(**kwargs)
        data = answer.get("data") if isinstance(answer, dict) else None
        if not isinstance(data, dict):
            return answer
        for key, value in data.items():
            if isinstance(value, Outgoing) and not _is_of(value.sender, peer):
                data[key] = Refused(_forged(value, peer, party), raises=False)
        return answer

    comm.read = read
    return comm


def _is_of(sender: str, peer: Peer) -> bool:
    return peer.name == sender and (peer.role == "client") == (role_of(sender) == "client")


def _forged(value: Outgoing, peer: Peer, party: str) -> PrivacyError:
    return PrivacyError(
        f"party {party!r} was sent {type(value.message).__name__} of party {value.sender!r} by "
        f"{peer}, as its certificate says. It was not used; have that certificate revoked, and "
        "start the run again."
    )
