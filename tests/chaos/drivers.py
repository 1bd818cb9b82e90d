"""Two drivers on one cluster of sites that are running already."""

import signal
import time

import numpy as np

from tests.chaos.cases import DEADLINE, Run, labels_of
from tests.deploy.test_sites import Site, cluster_of


class TwoDrivers:
    """A second driver begins while the first computes."""


def outcome(case, folder, rng):
    """Return outcome, seconds, whether a run was resumed, with the same labels, and what is bad."""
    site = Site(folder)
    try:
        address = site.scheduler("127.0.0.1")
        for name, url in case.urls.items():
            site.party(name, address, store=url)
        site.party("server", address)
        cluster = cluster_of(address, startup="200s", deadline=DEADLINE)
        first = Run(case, folder / "1", cluster=cluster)
        held = first.wait_until_fitting(after=float(rng.uniform(0, 1)))
        began = time.monotonic()
        if held:  # or it might end before the other has begun
            first.process.send_signal(signal.SIGSTOP)
        second = Run(case, folder / "2", cluster=cluster)
        code = second.wait()
        if held:
            first.process.send_signal(signal.SIGCONT)
        codes = first.wait(), code
        seconds = time.monotonic() - began
        said = second.said().splitlines()[-1:] or [""]
        if None in codes:
            return f"exit codes {codes}", seconds, "-", "-", "hang"
        same = codes[0] == 0 and np.array_equal(labels_of(first.folder), case.labels)
        refused = "of another driver" in said[0]
        resumed = "-"
        if refused:
            begun = (second.folder / "run.json").exists()  # else it was refused at the door
            if begun:
                second.resume()
            else:
                second = Run(case, folder / "3", cluster=cluster)
            again = second.wait()
            resumed = ("yes" if begun else "anew") if again == 0 else "refused"
            same = same and again == 0 and np.array_equal(labels_of(second.folder), case.labels)
        elif codes[1] or held:
            same = False
        bad = "" if same else "the first is disturbed, or the second not refused"
        return said[0], seconds, resumed, "yes" if same else "NO", bad
    finally:
        site.end()
