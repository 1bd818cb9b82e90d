"""Lines of a wide area for real: each site a network namespace, and packets between them late.

    python -m tests.benchmarks.lines SITES

makes so many namespaces, says on standard output how each is entered and which address it has, and
passes IP packets between them until its standard input ends. A line of JSON there sets the lines:
``latency`` in seconds one way between two sites, ``bandwidth`` in bytes a second of each site's
line, each way, or null; then packets are large, so that passing them on takes little;
``slow_start``, whether connections that were idle begin slowly again, as Linux has it. It does what
netem does where a kernel has it, and needs /dev/net/tun, the programs ip and nsenter, and the right
to make namespaces (CAP_NET_ADMIN, CAP_SYS_ADMIN).
"""

import contextlib
import ctypes
import fcntl
import json
import os
import select
import struct
import subprocess
import sys
import time
from collections import deque

_NEW_NETWORK = 0x40000000  # CLONE_NEWNET
_TUNSETIFF, _TUN, _NO_PI = 0x400454CA, 0x0001, 0x1000
_SLOW_START = "/proc/sys/net/ipv4/tcp_slow_start_after_idle"
_MTU, _LARGE_MTU = 1500, 65_000
_QUEUE = 1000 * _MTU  # bytes that wait before a line; more is dropped, as netem does


class Relay:
    """Passes packets on when they would have arrived.

    Parameters
    ----------
    n_sites : int
        Whose addresses end in 1, 2, ...
    clock : callable
        Seconds; another one for tests.
    """

    def __init__(self, n_sites, clock=time.monotonic):
        self.latency, self.bandwidth = 0.0, None
        self.dropped = 0
        self.waiting = [deque() for _ in range(n_sites)]  # by whom they are for
        self._clock = clock
        self._out, self._in = [0.0] * n_sites, [0.0] * n_sites  # when each line is free

    def take(self, sender, packet):
        """Put a packet where it waits; one that finds a full queue is dropped."""
        receiver = packet[19] - 1  # the last byte of where an IPv4 packet goes
        if packet[0] >> 4 != 4 or not 0 <= receiver < len(self.waiting):
            return
        now = self._clock()
        arrives = self._through(self._out, sender, now, len(packet))
        if arrives is not None:
            arrives = self._through(self._in, receiver, arrives + self.latency, len(packet))
        if arrives is None:
            self.dropped += 1
        else:
            self.waiting[receiver].append((arrives, packet))

    def _through(self, lines, which, comes, n_bytes):
        if self.bandwidth is None:
            return comes
        starts = max(comes, lines[which])
        if (starts - comes) * self.bandwidth > _QUEUE:
            return None
        lines[which] = starts + n_bytes / self.bandwidth
        return lines[which]

    def due(self):
        """Yield the packets that have arrived, and for whom."""
        now = self._clock()
        for receiver, waiting in enumerate(self.waiting):
            while waiting and waiting[0][0] <= now:
                yield receiver, waiting.popleft()[1]

    def next_s(self):
        """Return in how many seconds the next packet arrives, None when none is on its way."""
        first = min((waiting[0][0] for waiting in self.waiting if waiting), default=None)
        return None if first is None else max(first - self._clock(), 0.0)


def new_namespace(address):
    """Enter a new network namespace; return its device and the namespace, as open files."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_NEW_NETWORK):
        raise OSError(ctypes.get_errno(), "no network namespace")
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, _TUNSETIFF, struct.pack("16sH14x", b"wide0", _TUN | _NO_PI))
    for words in (
        f"address add {address}/24 dev wide0",
        f"link set wide0 up mtu {_LARGE_MTU} txqueuelen 10000",
        "link set lo up",
    ):
        subprocess.run(["ip", *words.split()], check=True)
    return device, os.open("/proc/self/ns/net", os.O_RDONLY)


def serve(n_sites):
    """Make the namespaces and pass packets on until standard input ends."""
    addresses = [f"10.77.0.{one + 1}" for one in range(n_sites)]
    made = [new_namespace(address) for address in addresses]
    with contextlib.suppress(PermissionError):
        os.nice(-15)  # a packet must not wait for a party's computing
    devices = [device for device, _ in made]
    enter = [f"/proc/{os.getpid()}/fd/{namespace}" for _, namespace in made]
    print(json.dumps({"addresses": addresses, "namespaces": enter}), flush=True)
    relay, site_of = Relay(n_sites), {device: one for one, device in enumerate(devices)}
    polling = select.epoll()
    for device in devices:
        polling.register(device, select.EPOLLIN)
    polling.register(0, select.EPOLLIN)
    while True:
        soon = relay.next_s()
        for ready, _ in polling.poll(-1 if soon is None else soon):
            if ready == 0:
                line = sys.stdin.readline()
                if not line:
                    return
                settings = json.loads(line)
                relay.latency, relay.bandwidth = settings["latency"], settings["bandwidth"]
                mtu = _LARGE_MTU if relay.bandwidth is None else _MTU
                for namespace in enter:
                    words = ("nsenter", f"--net={namespace}", "ip", "link", "set", "wide0", "mtu")
                    subprocess.run([*words, str(mtu)], check=True)
                    words = ("nsenter", f"--net={namespace}", "sh", "-c")
                    value = int(settings["slow_start"])
                    subprocess.run([*words, f"echo {value} > {_SLOW_START}"], check=True)
                print(json.dumps({**settings, "dropped": relay.dropped}), flush=True)
                continue
            with contextlib.suppress(BlockingIOError):
                for _ in range(64):  # then the others have their turn
                    relay.take(site_of[ready], os.read(ready, 65536))
        for receiver, packet in relay.due():
            with contextlib.suppress(BlockingIOError, OSError):
                os.write(devices[receiver], packet)


if __name__ == "__main__":
    serve(int(sys.argv[1]))
