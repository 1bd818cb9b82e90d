"""One fit of each method, on two groups of samples that nobody can miss; all that left is noted.

Short enough for every release of Dask, see `tests.dask_releases`.
"""

import json
import math
from collections import defaultdict

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import adjusted_rand_score

from daskfc.federation import Federation
from tests.test_every_method import CLIENTS, METHODS, model_of, split_of, write

pytestmark = pytest.mark.slow

N = 12  # samples, of which `write` puts every second one far from the others


@pytest.fixture(scope="module", params=sorted({*map(split_of, METHODS)}))
def opened(request, tmp_path_factory):
    """A federation, and the methods of its split."""
    split, folder = request.param, tmp_path_factory.mktemp(request.param)
    same_group = sp.csr_array(np.subtract.outer(range(N), range(N)) % 2 == 0, dtype=np.float64)
    same_group.setdiag(0)
    same_group.eliminate_zeros()
    graph = {} if split == "samples" else {"graph": same_group}  # AGC and GCC need one
    urls = {client: write(folder, split, client, **graph) for client in CLIENTS}
    with Federation.local(urls, allow_raw=True) as federation:
        yield federation, [method for method in METHODS if split_of(method) == split]


def account_for_all_that_left(folder):
    """Hold what arrived against what its senders wrote down before, and bytes against shapes."""
    lines = defaultdict(list)
    for path in folder.rglob("ledger.jsonl"):
        for line in map(json.loads, path.read_text().splitlines()):
            lines[line["kind"]].append(line)
    messages = {line["id"]: line for line in lines["message"]}
    sizes = {line["mark"]: line["wire_bytes"] for line in lines["sent"]}
    assert not lines["refusal"]
    assert lines["receipt"]
    for receipt in lines["receipt"]:
        sent = messages[receipt["id"]]
        for name in ("run", "round", "step", "sender", "message", "digest"):
            assert receipt[name] == sent[name], name
    for sent in lines["message"]:
        arrays = [
            np.dtype(sent["dtypes"][name]).itemsize * math.prod(shape)
            for name, shape in sent["shapes"].items()
            if not sent["dtypes"][name].startswith("str")
        ]
        assert sent["payload_bytes"] >= sum(arrays), sent  # beside which numbers and text go
        assert sizes[sent["mark"]] > sent["payload_bytes"], sent


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_fit_of_each_method(opened, tmp_path):
    federation, methods = opened
    assert methods
    for method in methods:
        place = tmp_path / method
        federation.workspace = str(place)
        labels = model_of(method).fit(federation).labels_.values
        account_for_all_that_left(place)
        assert len(labels) == (N * len(CLIENTS) if split_of(method) == "samples" else N)
        for own in labels.reshape(-1, N):  # two in twelve may be wrong: some draw at random
            assert adjusted_rand_score(np.arange(N) % 2, own) > 0.3, method
