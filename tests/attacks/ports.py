"""What a stranger sends to the ports of parties: pickles that leave a trace, and plain rubbish."""

import asyncio
import os
import socket

from distributed.comm import connect
from distributed.core import rpc

DEADLINE_S = 30.0  # an answer that takes longer is a hang, whatever else the machine does


class Canary:
    """Makes a folder wherever somebody opens its pickle."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return os.mkdir, (self.path,)


async def sent(address, message, *, raw=None):
    """Send a message, or bytes in its place, and then a plain question; return all answers.

    Requests of one connection are answered in turn: whatever the first does has been done when the
    question is answered, or the other end has hung up.
    """
    comm = await connect(address, deserialize=False)
    answers = []
    try:
        if raw is None:
            await comm.write(message)
        else:
            await comm.stream.write(raw)
        await comm.write({"op": "identity", "reply": True})
        line = comm.stream.socket  # none where the other end has hung up already
        if raw is not None and line is not None:  # it may wait for bytes that nobody sends
            line.shutdown(socket.SHUT_WR)
        while len(answers) < 2:
            answers.append(await asyncio.wait_for(comm.read(), DEADLINE_S))
    except TimeoutError as error:
        raise AssertionError(f"{address} neither answers nor hangs up") from error
    except (OSError, EOFError):
        pass
    finally:
        comm.abort()
    return answers


def send(address, message, **options):
    """Do what `sent` does, from a test that has no loop."""
    return asyncio.run(sent(address, message, **options))


async def _identity(address):
    async with rpc(address) as there:
        return await asyncio.wait_for(there.identity(), DEADLINE_S)


def identity(address):
    """Return what a process says of itself: it answers."""
    return asyncio.run(_identity(address))


def push(address, data):
    """Write bytes to a port as they are, hang up, and wait until the other end has, too."""
    host, _, port = address.rpartition("//")[2].rpartition(":")
    with socket.create_connection((host, int(port)), timeout=DEADLINE_S) as line:
        try:
            line.sendall(data)
            line.shutdown(socket.SHUT_WR)
            while line.recv(65536):
                pass
        except TimeoutError as error:
            raise AssertionError(f"{address} does not hang up") from error
        except OSError:  # it hung up before
            pass
