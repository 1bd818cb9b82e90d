"""Task graphs: all that a verb starts goes to the scheduler at once, each task at its party."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from dask.highlevelgraph import HighLevelGraph
from distributed import Client, Future

from daskfc.deploy.config.dask_insides import MaterializedLayer, Task, TaskRef


@dataclass(frozen=True)
class PinnedTask:
    """A call at one party of `function` with `args`, followed by the results of `inputs`."""

    key: str
    party: str
    function: Callable[..., Any]
    args: tuple[Any, ...]
    inputs: "tuple[PinnedTask | Future, ...]" = ()

    def spec(self) -> Any:
        """Return the task as Dask's graphs have it."""
        results = (TaskRef(one.key) for one in self.inputs)
        return Task(self.key, self.function, *self.args, *results)


def start(
    client: Client, tasks: Sequence[PinnedTask], wanted: Sequence[PinnedTask] | None = None
) -> list[Future]:
    """Send tasks in one graph, 2 to 3 times cheaper than one by one; return futures of `wanted`."""
    layers: dict[str, dict[str, Any]] = {}
    for task in tasks:
        layers.setdefault(task.party, {})[task.key] = task.spec()
    # The resource survives a restart of the worker; its name and address do not.
    pinned = {
        party: MaterializedLayer(specs, annotations={"resources": {party: 1}})
        for party, specs in layers.items()
    }
    graph = HighLevelGraph(pinned, {party: set() for party in pinned})
    keys = [task.key for task in (tasks if wanted is None else wanted)]
    # In the order sent: by default, a graph sent up to a minute later could overtake this one.
    futures: list[Future] = client.get(graph, keys, sync=False, fifo_timeout=0)
    return futures
