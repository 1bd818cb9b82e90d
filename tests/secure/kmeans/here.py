"""A federation whose steps run here, at once: whole protocols on plain arrays."""

import inspect
from types import SimpleNamespace

from daskfc.coding import SecretKey
from daskfc.federation import Message, PerClient, check_message, payload_bytes
from daskfc.federation.messages.declaration import multiplier_of
from daskfc.site import ANY_PART
from tests.secure.announced import Announced


class Here:
    """Handles are the values themselves; what is sent is checked and noted."""

    def __init__(self, clients, smallest=ANY_PART):
        self.smallest = smallest
        self.clients = tuple(clients)
        self.rules = {}  # by party, of those that have rules of their own
        self.ledger = []
        self.round = 0
        self.secrets = {name: SecretKey(bytes([i]) * 32) for i, name in enumerate(clients)}

    def next_round(self):
        self.round += 1

    def _run(self, party, step, args):
        if isinstance(step, Message):
            return step
        own = [one[party] if isinstance(one, PerClient) and party != "server" else one
               for one in args]  # fmt: skip
        asked = inspect.signature(step).parameters
        given = {
            "party": party,
            "secret": self.secrets.get(party),
            "site": self.rules.get(party) or Announced(self.smallest),
        }
        return step(*own, **{name: given[name] for name in given if name in asked})

    def _send(self, sender, receiver, message):
        assert isinstance(message, Message)
        check_message(message)
        kind = type(message)
        self.ledger.append(
            SimpleNamespace(
                sender=sender,
                receiver=receiver,
                message=kind.__name__,
                protection=kind.protection,
                payload_bytes=payload_bytes(message),
                noise_multiplier=multiplier_of(message),
                content=message,
            )
        )
        return message

    def on_clients(self, step, *args, clients=None):
        names = self.clients if clients is None else clients
        return PerClient({name: self._run(name, step, args) for name in names})

    inline = on_clients  # what a step within another gives is the same

    def on_server(self, step, *args):
        return self._run("server", step, args)

    def ask(self, step, *args, clients=None):
        names = self.clients if clients is None else clients
        return PerClient(
            {name: self._send(name, "server", self._run(name, step, args)) for name in names}
        )

    def tell(self, step, *args, clients=None):
        names = self.clients if clients is None else clients
        message = self._run("server", step, args)
        if isinstance(message, dict):
            return PerClient({n: self._send("server", n, message[n]) for n in names})
        for name in names:
            self._send("server", name, message)
        return message

    def publish(self, step, *args):
        if isinstance(step, PerClient):
            return {name: self._send(name, "caller", one) for name, one in step.items()}
        return self._send("server", "caller", self._run("server", step, args))
