"""Ports for what tests start, told before it listens."""

import itertools
import os
import socket
import threading

__all__ = ["free_port", "free_ports"]

# Below those that the system gives to connections: one of these would be taken by somebody else's
# connection between now and then. Another process of tests begins somewhere else.
_FIRST, _COUNT = 21_000, 9_000
_steps = itertools.count(os.getpid() * 101)
_lock = threading.Lock()


def free_ports(number):
    """Return ports of this machine that nobody listens on, each once in a process."""
    found = []
    with _lock:
        while len(found) < number:
            port = _FIRST + next(_steps) % _COUNT
            with socket.socket() as one:
                try:
                    one.bind(("127.0.0.1", port))
                except OSError:
                    continue
            found.append(port)
    return found


def free_port():
    """Return one port that nobody listens on."""
    return free_ports(1)[0]
