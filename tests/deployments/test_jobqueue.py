"""docs/deploy/dask.md with dask-jobqueue, whose jobs are processes here."""

import sys

import numpy as np
import pytest

from daskfc import OmniFC
from daskfc.federation import Federation
from daskfc.testing.federation import stores_of

jobs = pytest.importorskip("dask_jobqueue.local", reason="dask-jobqueue: make test-deploy")

pytestmark = [
    pytest.mark.deploy,
    pytest.mark.slow,
    # of dask-jobqueue, which does not wait for its jobs
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


def test_jobs_are_asked_for_as_many_parties_and_ended(tmp_path):
    random = np.random.default_rng(0)
    rows = {
        name: np.concatenate([random.normal(at, 1.0, (20, 3)) for at in (0.0, 9.0)])
        for name in "abc"
    }
    urls = stores_of(tmp_path / "stores", rows)
    with jobs.LocalCluster(
        cores=1, memory="2GB", processes=1, python=sys.executable,
        log_directory=str(tmp_path / "logs"), scheduler_options={"dashboard_address": None},
    ) as cluster:  # fmt: skip
        with Federation.connect(cluster, trusted=True, stores=urls) as federation:
            assert len(cluster.worker_spec) == 4
            labels = OmniFC(2, random_state=0).fit(federation).labels_.values
        assert len(cluster.worker_spec) == 0
    own = np.repeat([0, 1], 20)
    for found in np.split(labels, 3):
        assert len(set(zip(own, found, strict=True))) == 2
