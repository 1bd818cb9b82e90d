"""Add up a ledger: messages, bytes, numbers uploaded."""

import json
import math
from collections.abc import Iterator, Sequence
from typing import Any

import pandas as pd

from daskfc.federation import Ledger, Message
from daskfc.federation.messages.declaration import route_of
from daskfc.privacy import Accountant, GaussianEvent


def _message_classes(base: type[Message] = Message) -> Iterator[type[Message]]:
    for kind in base.__subclasses__():
        yield kind
        yield from _message_classes(kind)


def ledger_frame(ledger: Ledger) -> pd.DataFrame:
    """Return a ledger as the table that a run keeps; shapes and dtypes are JSON."""
    frame = ledger.to_frame()
    # a class whose declaration was refused is none, until it is forgotten
    known = [kind for kind in _message_classes() if hasattr(kind, "reveals")]
    reveals = {kind.__name__: kind.reveals for kind in known}
    routes = [
        route_of(sender, receiver)
        for sender, receiver in zip(frame["sender"], frame["receiver"], strict=True)
    ]
    return frame.assign(
        route=pd.Series(routes, index=frame.index, dtype=object),
        reveals=[reveals.get(name, "") for name in frame["message"]],
        numbers=[sum(map(math.prod, shapes.values())) for shapes in frame["shapes"]],
        shapes=[json.dumps(shapes) for shapes in frame["shapes"]],
        dtypes=[json.dumps(dtypes) for dtypes in frame["dtypes"]],
    )


def communication_of(ledger: pd.DataFrame) -> dict[str, Any]:
    """Add up the messages of one fit's `ledger_frame`, in all and by kind of message."""
    by_message: dict[str, dict[str, Any]] = {}
    for name, rows in ledger.groupby("message", sort=False) if len(ledger) else ():
        uploads = rows[rows["route"] == "client → server"]
        by_message[str(name)] = {
            "messages": len(rows),
            "payload_bytes": int(rows["payload_bytes"].sum()),
            "wire_bytes": int(rows["wire_bytes"].sum()),
            "uploaded_floats": int(uploads["numbers"].sum()),
            "route": ", ".join(dict.fromkeys(rows["route"])),
            "protection": ", ".join(dict.fromkeys(rows["protection"])),
            "reveals": str(rows["reveals"].iloc[0]),
        }
    totals = ("messages", "payload_bytes", "wire_bytes", "uploaded_floats")
    sums = {key: sum(row[key] for row in by_message.values()) for key in totals}
    return {**sums, "by_message": by_message}


def releases_of(ledger: pd.DataFrame) -> dict[str, tuple[GaussianEvent, ...]]:
    """Return each client's noisy releases, those of one step once."""
    noised = ledger[ledger["noise_multiplier"].notna()].drop_duplicates(["sender", "task"])
    return {
        str(name): tuple(GaussianEvent(z) for z in own["noise_multiplier"])
        for name, own in noised.groupby("sender")
    }


def costliest_client(ledgers: Sequence[pd.DataFrame], earlier: Sequence[float] = ()) -> Accountant:
    """Return the noisy releases of the client with the largest privacy loss over several fits."""
    before = tuple(GaussianEvent(z) for z in earlier)
    spent = [Accountant((*before, *own)) for own in releases_of(pd.concat(ledgers)).values()]
    return max(spent, key=lambda accountant: accountant.mu, default=Accountant())
