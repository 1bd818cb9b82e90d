"""All that is taken from inside of Dask is named in one module, and looked for when it starts."""

import ast
import asyncio
import importlib
import importlib.util
import inspect
import pkgutil
import textwrap
from pathlib import Path

import dask.config
import distributed
import pytest

import daskfc
from daskfc.deploy.config import dask_insides
from daskfc.deploy.config.dask_insides import (
    ATTRIBUTES,
    CALLED,
    LOOKED_UP,
    NAMES,
    OVERRIDDEN,
    REQUESTS,
)
from daskfc.errors import ClusterError

PACKAGE = Path(daskfc.__file__).parent
INSIDES = Path(dask_insides.__file__)
SOURCES = {path: ast.parse(path.read_text()) for path in PACKAGE.rglob("*.py")}
OTHERS = {path: tree for path, tree in SOURCES.items() if path != INSIDES}
# What Dask's documentation has, or its docstrings by example, may be taken from Dask itself.
DOCUMENTED = {
    "dask": {"config"},
    "dask.array": {"Array", "dask.array"},
    "dask.config": {"dask.config"},
    "dask.highlevelgraph": {"HighLevelGraph"},
    "dask.utils": {"format_time", "parse_bytes", "parse_timedelta"},
    "distributed": {
        "Client", "Future", "KilledWorker", "Nanny", "Scheduler", "Security", "Status", "Worker",
        "get_worker", "rpc",
    },
}  # fmt: skip
OF_PYTHON = {"_asdict", "_exit", "_replace"}  # of named tuples, and `os._exit`
OF_OTHERS = {"_in_memory"}  # Zarr's


def of_dask(module):
    return (module or "").partition(".")[0] in ("dask", "distributed")


# -- nothing is taken elsewhere ---------------------------------------------------------------


def taken_in(tree):
    """Yield modules and what is imported of them, be it by a call."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.module, alias.name) for alias in node.names)
        elif isinstance(node, ast.Call) and "import_module" in ast.dump(node.func):
            yield from ((one.value, "?") for one in node.args if isinstance(one, ast.Constant))


def test_others_take_what_is_documented_alone():
    for path, tree in OTHERS.items():
        taken = {(module, name) for module, name in taken_in(tree) if of_dask(module)}
        strange = {one for one in taken if one[1] not in DOCUMENTED.get(one[0], ())}
        assert not strange, path


def test_private_names_are_daskfcs_own():
    """Or Python's, or of a package that is not Dask: another file would name Dask's."""
    own = set()
    for tree in SOURCES.values():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                own.add(node.name)
            elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
                own.add(node.id if isinstance(node, ast.Name) else node.attr)
    for path, tree in OTHERS.items():
        used = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        private = {name for name in used if name[0] == "_" and not name.endswith("__")}
        assert private <= own | OF_PYTHON | OF_OTHERS, path


def words(rows):
    return {name for row in rows for name in row.split()}


def daskfcs(kind):
    return [one for one in kind.__mro__ if str(one.__module__).startswith("daskfc.")]


def dasks(kind):
    return [one for one in kind.__mro__ if of_dask(str(one.__module__))]


def of_dasks_classes():
    for found in pkgutil.walk_packages([str(PACKAGE)], "daskfc."):
        if not found.name.endswith("__main__"):
            importlib.import_module(found.name)
    kinds, left = set(), [distributed.core.Server, distributed.Client]
    while left:
        kinds.update(more := left.pop().__subclasses__())
        left += more
    own = (one for one in kinds if str(one.__module__).startswith("daskfc."))  # no test's
    return sorted(own, key=lambda one: one.__name__)


KINDS = of_dasks_classes()


def rows_of(table, kind):
    """Return the rows of a table for a class and its bases."""
    paths = {path for path in table if pkgutil.resolve_name(path) in dasks(kind)}
    return {name: row for path in paths for name, row in table[path].items()}


def test_these_classes_are_known():
    assert [kind.__name__ for kind in KINDS] == [
        "GuardedScheduler", "PartyNanny", "PartyWorker", "_Client"
    ]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_whatever_a_class_overrides_is_listed(kind):
    own = {name for one in daskfcs(kind) for name in vars(one)}
    shadows = {name for name in own if any(name in vars(one) for one in dasks(kind))}
    shadows -= {"__abstractmethods__", "__dict__", "__doc__", "__init__", "__module__",
                "__weakref__", "_abc_impl"}  # fmt: skip
    assert shadows == set(rows_of(OVERRIDDEN, kind))


@pytest.mark.parametrize("kind", KINDS)
def test_overridden_methods_take_whatever_dask_gives_them(kind):
    for name in rows_of(OVERRIDDEN, kind):
        (theirs, *_) = [vars(one)[name] for one in dasks(kind) if name in vars(one)]
        ours = inspect.signature(getattr(kind, name)).parameters.values()
        kinds = {one.kind for one in ours}
        if inspect.Parameter.VAR_KEYWORD not in kinds:
            given = set(inspect.signature(theirs).parameters)
            assert given <= {one.name for one in ours}, name


@pytest.mark.parametrize("kind", KINDS)
def test_whatever_a_class_reads_of_its_base_is_listed(kind):
    trees = [ast.parse(textwrap.dedent(inspect.getsource(one))) for one in daskfcs(kind)]
    own = {name for one in daskfcs(kind) for name in vars(one)}
    read = set()
    for node in [node for tree in trees for node in ast.walk(tree)]:
        if isinstance(node, ast.Attribute):
            of = node.value.func if isinstance(node.value, ast.Call) else node.value
            if isinstance(of, ast.Name) and of.id in ("self", "super"):
                own |= {node.attr} if isinstance(node.ctx, ast.Store) else set()
                read.add(node.attr)
    listed = words(rows_of(ATTRIBUTES, kind))
    listed |= set(rows_of(OVERRIDDEN, kind)) | {path.rpartition(".")[2] for path in CALLED}
    assert read - own <= listed


# -- nothing is listed in vain ----------------------------------------------------------------


def test_whatever_is_listed_is_used():
    nodes = [node for tree in OTHERS.values() for node in ast.walk(tree)]
    used = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    used |= {node.id for node in nodes if isinstance(node, ast.Name)}
    used |= {node.arg for node in nodes if isinstance(node, ast.keyword | ast.arg)}
    used |= {node.name for node in nodes if isinstance(node, ast.AsyncFunctionDef)}
    used |= {"_comms", "_loop_runner", "tcp_server"}  # see connections_of, stop_loop, stream_server
    used |= {"extra_info"}  # asked for as a word
    for rows in ATTRIBUTES.values():
        assert words(rows) <= used
    for parameters, _ in CALLED.values():
        assert {*parameters.split()} <= used
    taken = set()
    for node in ast.parse(INSIDES.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef):
            taken.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            taken |= {target.id for target in targets}
    taken = {name for name in taken if not name.startswith("_")}
    own = {"ATTRIBUTES", "CALLED", "KNOWN", "NAMES", "OVERRIDDEN", "LOOKED_UP", "REQUESTS"}
    assert taken <= used | own


def test_every_row_says_why():
    rows = [*NAMES.values(), *(why for _, why in (*CALLED.values(), *LOOKED_UP.values()))]
    rows += [why for methods in OVERRIDDEN.values() for _, why in methods.values()]
    rows += [why for names in ATTRIBUTES.values() for why in names.values()]
    rows += [why for *_, why in REQUESTS.values()]
    assert [why for why in rows if len(why.split()) < 2] == []


# -- what a release lacks ---------------------------------------------------------------------


def started_again():
    """Run the module anew, beside the one that others have."""
    spec = importlib.util.spec_from_file_location("started_again", INSIDES)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def take_away(monkeypatch, path):
    of, _, name = path.rpartition(".")
    monkeypatch.delattr(pkgutil.resolve_name(of), name)


def sentence():
    with pytest.raises(ClusterError) as refused:
        started_again()
    return str(refused.value)


@pytest.mark.parametrize("path", [path for path in NAMES if path not in dask_insides._SPARED])
def test_a_name_that_is_gone_is_told(monkeypatch, path):
    take_away(monkeypatch, path)
    told = sentence()
    assert told.startswith(
        "daskfc relies on the inside of Dask, of which "
        f"dask {dask.__version__} and distributed {distributed.__version__} lack "
    )
    assert path in told
    assert told.endswith(
        ". Install one release of both from 2025.1.0 to 2026.8.0, which were tried."
    )


@pytest.mark.parametrize("path", sorted(dask_insides._SPARED))
def test_without_some_names_there_is_another_way(monkeypatch, path):
    if path != "dask._expr.HLGExpr":  # which is there or not
        take_away(monkeypatch, path)
    assert started_again().lacking() == []


@pytest.mark.parametrize("kind", OVERRIDDEN)
def test_a_method_that_is_gone_is_told(monkeypatch, kind):
    for method in OVERRIDDEN[kind]:
        with monkeypatch.context() as patch:
            for one in pkgutil.resolve_name(kind).__mro__:
                if method in vars(one):
                    patch.delattr(one, method)
            assert f"{kind}.{method}" in dask_insides.lacking()


def test_a_parameter_that_is_gone_is_told(monkeypatch):
    monkeypatch.setattr(distributed.Worker, "execute", lambda self, key: None)
    assert dask_insides.lacking() == ["distributed.Worker.execute(stimulus_id=)"]


def test_an_attribute_that_is_gone_is_told(monkeypatch):
    for method in (distributed.Nanny.__init__, distributed.Nanny.instantiate):
        code = method.__code__
        names = tuple("other" if one == "worker_kwargs" else one for one in code.co_names)
        monkeypatch.setattr(method, "__code__", code.replace(co_names=names))
    assert dask_insides.lacking() == ["distributed.Nanny.worker_kwargs"]


def test_a_request_of_another_name_is_told(monkeypatch):
    kind, names, why = REQUESTS["worker"]
    monkeypatch.setitem(REQUESTS, "worker", (kind, f"{names} get_all", why))
    assert dask_insides.lacking() == ["distributed.Worker's request get_all"]


def test_a_replaced_function_that_nobody_calls_is_told(monkeypatch):
    module = importlib.import_module("distributed.protocol.serialize")
    monkeypatch.setattr(module, "pickle_loads", lambda header, frames: None)
    assert dask_insides.lacking() == ["loads in distributed.protocol.serialize.pickle_loads"]


def test_a_setting_that_is_gone_is_told():
    with dask.config.set({"distributed.worker.memory": {"target": False, "terminate": 0.95}}):
        assert dask_insides.lacking() == [
            "the setting distributed.worker.memory.spill",
            "the setting distributed.worker.memory.pause",
        ]


def test_what_is_read_in_code_is_true_of_objects(tmp_path):
    async def made():
        local = {"local_directory": str(tmp_path)}
        scheduler = distributed.Scheduler(dashboard=False, dashboard_address="127.0.0.1:0", **local)
        scheduler.http_server.stop()
        others = (distributed.Worker, distributed.Nanny)
        return [scheduler, *(kind("tcp://127.0.0.1:1", **local) for kind in others)]

    for one in asyncio.run(made()):
        for path, names, _ in REQUESTS.values():
            if type(one) is pkgutil.resolve_name(path):
                answered = {*one.handlers, *one.stream_handlers, "close-stream"}
                assert set(names.split()) <= answered
        assert all(hasattr(one, name) for name in words(rows_of(ATTRIBUTES, type(one))))
