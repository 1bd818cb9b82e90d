"""What a scheduler makes of graphs that others compose, in a process of its own."""

import importlib
import os
import pickle
import subprocess
import sys

import pytest
from dask._task_spec import Task, TaskRef
from dask.highlevelgraph import HighLevelGraph, MaterializedLayer
from distributed.protocol.serialize import ToPickle

from daskfc.deploy.config.dask_insides import HLGExpr
from daskfc.federation.worker.guard import hand_over, run_step

pytestmark = pytest.mark.slow

READ = """
import sys
import distributed.protocol.pickle as protocol
from daskfc.federation.scheduler.graphs_sent import GRAPH_NAMES
from daskfc.federation.worker import guard
from daskfc.federation.worker.ingress import restrict_process
restrict_process(GRAPH_NAMES)
for sent in protocol.loads(sys.stdin.buffer.read()):
    made = protocol.loads(sent)
    try:
        if hasattr(made, "data"):
            layers = {name: layer.annotations for name, layer in made.data.layers.items()}
            print(sorted(made.data), layers)
            continue
        pinned = made.__dask_annotations__() if hasattr(made, "hlg") else None
        print(sorted(made.__dask_graph__()), {k: sorted(v.items()) for k, v in pinned.items()})
    except Exception as error:
        print(type(error).__name__, error)
"""


class Evil:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)

    def __call__(self, *args):
        raise AssertionError


def graph_of(*tasks, **annotations):
    mapping = {task.key: task for task in tasks}
    made = MaterializedLayer(mapping, annotations=annotations or {"resources": {"a": 1}})
    return HighLevelGraph({"a": made}, {"a": set()})


def read(*graphs):
    """Return a line for what a scheduler makes of each."""
    done = subprocess.run(
        [sys.executable, "-c", READ],
        input=pickle.dumps([pickle.dumps(one) for one in graphs]),
        capture_output=True,
        check=True,
    )
    return done.stdout.decode().splitlines()


def test_graphs_of_older_versions_are_looked_at_as_well(tmp_path):
    step, evil = Task("s|1", run_step, b"x"), Evil(tmp_path / "x")
    bad = [graph_of(Task("s|1", len, b"x")), graph_of(Task("s|1", run_step, evil)), evil]
    told = read(ToPickle(graph_of(step, workers=["tcp://b"])), *map(ToPickle, bad))
    assert told[0] == "['s|1'] {'a': {'resources': {'a': 1}}}"
    assert [line.split()[0] for line in told[1:]] == ["PrivacyError"] * 3
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(HLGExpr is None, reason="this Dask sends graphs as they are")
def test_steps_pass_pinned_to_their_layer_and_nothing_else_does(tmp_path):
    LLGExpr = importlib.import_module("dask._expr").LLGExpr
    step = Task("s|1", run_step, b"x")
    steps, evil = (step, Task("h|1", hand_over, "server", TaskRef("s|1"))), Evil(tmp_path / "x")
    elsewhere = {"workers": ["tcp://b"], "resources": {"b": 1}, "priority": 9}
    good = [HLGExpr(graph_of(*steps)), HLGExpr(graph_of(*steps, **elsewhere))]
    bad = [
        HLGExpr(graph_of(Task("s|1", len, b"x"))),
        HLGExpr(graph_of(Task("s|1", run_step, evil))),
        HLGExpr(graph_of(Task("s|1", run_step, b"x", more=1))),
        HLGExpr(graph_of(Task(("s", 1), run_step, b"x"))),
        LLGExpr({"s|1": step}),
        HLGExpr(graph_of(step), low_level_optimizer=evil),
    ]
    told = read(*good, *bad)
    pinned = [("h|1", {"a": 1}), ("s|1", {"a": 1})]
    assert told[:2] == [f"['h|1', 's|1'] {{'resources': {pinned}}}"] * 2
    assert len(told) == len(good) + len(bad)
    for line in told[2:]:
        assert line.startswith("PrivacyError a task graph that came in holds what is no step")
    assert list(tmp_path.iterdir()) == []
