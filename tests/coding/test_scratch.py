"""Work memory: kept by a thread, never shared between threads, purposes or types."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from daskfc.coding.residues.scratch import scratch


def test_a_thread_keeps_its_own():
    def twice(_):
        one, other = (scratch("kept", (3, 4), np.int64) for _ in range(2))
        assert np.shares_memory(one, other)
        return one

    own = twice(None)
    with ThreadPoolExecutor(1) as threads:
        theirs = threads.submit(twice, None).result()
    assert not np.shares_memory(own, theirs)


def test_purposes_and_types_are_apart():
    one = scratch("one", (5,), np.int32)
    assert (one.shape, one.dtype, one.flags.c_contiguous) == ((5,), np.int32, True)
    for purpose, dtype in (("other", np.int32), ("one", np.uint32), ("one", np.int64)):
        assert not np.shares_memory(one, scratch(purpose, (5,), dtype))


def test_it_grows_and_does_not_shrink():
    small = scratch("grows", (2, 3), np.float64)
    large = scratch("grows", (50, 3), np.float64)
    assert large.shape == (50, 3)
    assert not np.shares_memory(small, large)
    again = scratch("grows", (3, 2), np.float64)
    assert again.shape == (3, 2)
    assert np.shares_memory(again, large)
