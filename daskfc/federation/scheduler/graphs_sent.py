"""Reading, at the scheduler, the task graphs that submitters send: steps, and nothing else.

A pickle of a graph names Dask's classes. Each is replaced by a class of this module, which takes
the tasks of `daskfc.federation.driver.graph` and refuses the rest, so that no method of Dask runs
on what somebody else composed.
"""

from collections.abc import Mapping
from typing import Any

from dask.highlevelgraph import HighLevelGraph

from daskfc.deploy.config.dask_insides import HLGExpr, MaterializedLayer, Task
from daskfc.errors import PrivacyError
from daskfc.federation.worker.ingress import is_admitted


class _Wrapped:
    """The wrapper of a graph in older versions of Dask; its attribute ``data`` is the graph."""


class _SentLayer:
    """A layer as it came in; the graph checks its state."""


class _SentGraph(HighLevelGraph):
    """A graph of steps alone, each pinned to the party of its layer."""

    def __init__(self) -> None:
        super().__init__({}, {})

    def __setstate__(self, state: Any) -> None:
        layers = state["layers"]
        made = {str(party): _checked_layer(str(party), layer) for party, layer in layers.items()}
        super().__init__(made, {party: set() for party in made})


def _checked_layer(party: str, layer: Any) -> Any:
    if type(layer) is not _SentLayer:
        raise PrivacyError("a task graph that came in has a layer that is no table of tasks.")
    tasks = {key: _checked_task(key, task) for key, task in layer.__dict__["mapping"].items()}
    return MaterializedLayer(tasks, annotations={"resources": {party: 1}})


def _checked_task(key: Any, task: Any) -> Any:
    """Return a task made anew of a step's key, admitted function, bytes and inputs."""
    if type(key) is not str or not is_admitted(task):
        raise PrivacyError(
            "a task graph that came in holds a task that is no step of daskfc. Nothing was run."
        )
    return Task(key, task.func, *task.args)


def _expression(kind: Any, graph: Any, *_: Any) -> Any:
    """Return the expression in which newer versions of Dask wrap a graph."""
    if kind != "HLGExpr" or type(graph) is not _SentGraph:
        raise PrivacyError("a task graph that came in is none that a Federation sends.")
    return HLGExpr(graph)


def _names() -> dict[tuple[str, str], Any]:
    names: dict[tuple[str, str], Any] = {
        ("dask.highlevelgraph", "HighLevelGraph"): _SentGraph,
        ("dask.highlevelgraph", "MaterializedLayer"): _SentLayer,
        ("distributed.protocol.serialize", "ToPickle"): _Wrapped,
    }
    if HLGExpr is not None:
        names["dask._expr", "HLGExpr"] = "HLGExpr"  # text, so that no sender gets a class to call
        names["dask._expr", "Expr._reconstruct"] = _expression
    return names


GRAPH_NAMES: Mapping[tuple[str, str], Any] = _names()
"""What a scheduler may unpickle beside the list of parties: what is made of each name."""
