"""A federation of the tests of sums where every step ends at once."""

import copy

from daskfc.federation import PerClient

NAMES = tuple(f"client-{i}" for i in range(1, 6))


class Answer:
    """A handle: `None` while it is under way, else whether it failed."""

    def __init__(self, failed=False):
        self._failed = failed

    def done(self):
        return self._failed is not None

    def failed(self):
        return bool(self._failed)


class Answering:
    """A federation where every step ends at once, and that keeps what it was asked."""

    clients = NAMES

    def __init__(self, refused=None):
        self.refused = refused  # raised where somebody is waited for a while
        self.asked, self.exchanged, self.waited, self.cancelled = [], [], [], []

    def on_clients(self, step, *arguments, clients, **given):
        return PerClient({name: Answer() for name in clients})

    def on_client(self, client, step, *arguments):
        return Answer()

    def on_server(self, step, *arguments):
        return Answer()

    def ask(self, step, *arguments, clients):
        self.asked.append((step, arguments))
        return PerClient({name: Answer() for name in clients})

    def tell(self, step, *arguments, clients):
        self.asked.append((step, arguments))
        return Answer()

    def exchange(self, step, *arguments, clients, receivers, **given):
        self.exchanged.append((step, copy.deepcopy(arguments)))
        return PerClient({r: PerClient({s: Answer() for s in clients}) for r in receivers})

    def wait(self, handles, *, count=None, timeout=None, needed=True):
        self.waited.append((len(handles), count, timeout, needed))
        if count is None and self.refused is not None:
            raise self.refused

    def cancel(self, handles):
        self.cancelled += handles
