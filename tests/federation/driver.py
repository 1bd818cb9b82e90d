"""A driver's half by itself: a federation whose Dask client is the test's."""

from contextlib import ExitStack
from types import SimpleNamespace

from dask._task_spec import Alias, TaskRef

from daskfc.federation import Federation
from daskfc.federation.driver.opening import Opened
from daskfc.federation.party.options import RunSettings

CLIENTS = ("a", "b")


class Future:
    """A step that has ended well."""

    status = "finished"

    def __init__(self, key):
        self.key = key

    def done(self):
        return True


class DaskClient:
    """Keeps what it is asked for."""

    id = "me"

    def __init__(self):
        self.scheduler = SimpleNamespace(address="tcp://10.0.0.1:8786")
        self.loop = SimpleNamespace(asyncio_loop="loop")
        self.topics, self.graphs, self.tasks, self.gathered = {}, [], [], []

    def subscribe_topic(self, topic, handler):
        self.topics[topic] = handler

    def get(self, graph, keys, *, sync, fifo_timeout):
        assert (sync, fifo_timeout) == (False, 0)
        tasks = {}
        for layer in graph.layers.values():
            at = layer.annotations["resources"]
            for key, task in layer.items():
                given = [a for a in task.args if not isinstance(a, Alias | TaskRef)]
                tasks[key] = SimpleNamespace(
                    function=task.func,
                    args=given,
                    inputs=sorted(task.dependencies),
                    key=key,
                    at=at,
                )
        self.graphs.append((list(tasks), keys))
        self.tasks += sorted(tasks.values(), key=lambda task: int(task.key.split("-")[-1]))
        return [Future(key) for key in keys]

    def gather(self, futures, **options):
        self.gathered.append((futures, options))
        return "gathering"


def opened(**options):
    given = {"deadline": 9.0, "limits": {"a": 5}, "closing": ExitStack(), **options}
    return Opened(DaskClient(), CLIENTS, **given)


def in_a_run():
    """Return a federation in a run that no party was told of."""
    federation = Federation(opened())
    federation._run = RunSettings("r", 0)
    return federation
