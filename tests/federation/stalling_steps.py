"""Steps of parties that keep others waiting, and of those that they keep."""

import struct

import numpy as np
from distributed import Worker
from distributed.core import Status

from tests.federation.steps import Vector, own_worker


def sums_kept():
    """Tell how many sums of others this worker still has."""
    return sum("row_sum" in str(key) for key in own_worker().data)


def counted(number) -> Vector:
    return Vector(np.array([float(number)]))


_answers = Worker.get_data
# The beginning of a message: the length of its first part; and a first part that tells of others.
HALVES = {
    "a part of a length": struct.pack("Q", 1000)[:3],
    "a part of a message": struct.pack("Q", 1000) + b"x",
    "a message of a petabyte": struct.pack("Q", 10**15),
    "a message with a part of a petabyte": struct.pack("4Q", 24, 2, 0, 10**15),
}


def answers_peers_with(what):
    """Give peers something else in place of sums from now on; for "message" the sums again."""

    async def get_data(self, comm, keys, who=None, **more):
        if what == "message" or who is None or not any("row_sum" in str(key) for key in keys):
            return await _answers(self, comm, keys, who=who, **more)
        if what == "an error":
            raise ValueError("no")
        if what == "an error of the network":
            raise OSError("no")
        if what == "nothing":
            await comm._comm.write({"status": "OK", "data": {}})
            await comm._comm.read()
        elif what in HALVES:
            await comm._comm.stream.write(HALVES[what])
            await comm._comm.read()  # until the other end hangs up
        else:
            comm._comm.abort()
        return Status.dont_reply

    Worker.get_data = get_data
