"""An exact list of what Dask may unpickle in a party's processes.

Dask opens pickles as they come in, before it looks at the request, and a pickle can run any code.
In the processes of parties it may make only the objects of this list: Dask's classes for a task,
the two functions by which a party performs a step or hands a message over, the envelope of a
message, and refusals. All else travels as bytes of `daskfc.federation.messages.wire_format`.

Input that is not on the list, or broken, becomes `Forbidden`: an error while a party reads would
end its connection to the scheduler, and with it every run. Input that there was no memory to read,
or to write, becomes `Unread`.
"""

import contextlib
import contextvars
import io
import logging
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, ClassVar, NoReturn

from daskfc import errors
from daskfc.deploy.config.dask_insides import (
    INPUT,
    Task,
    TaskRef,
    dask_deserialize,
    dask_loads,
    dask_merge,
    read_by,
)
from daskfc.errors import DaskfcError, PrivacyError
from daskfc.federation.messages.envelopes import Outgoing, Unread

logger = logging.getLogger("daskfc.party")
_restricted: contextvars.ContextVar[bool] = contextvars.ContextVar("restricted", default=False)


class Forbidden:
    """Replaces, as a class, input that may not be unpickled or could not be read."""

    @staticmethod
    def __dask_graph__() -> NoReturn:
        """Refuse (PrivacyError) to be a task graph: a scheduler treats what it is sent as one."""
        raise PrivacyError(
            "a task graph that came in holds what is no step of daskfc. Nothing was run; use the "
            "verbs of a Federation, and one version of daskfc everywhere."
        )


@dask_deserialize.register(Forbidden)  # type: ignore[untyped-decorator]
def _stays_forbidden(header: Any, frames: Any) -> type[Forbidden]:
    return Forbidden


@dask_deserialize.register(Unread)  # type: ignore[untyped-decorator]
def _stays_unread(header: Any, frames: Any) -> type[Unread]:
    return Unread


def _name(value: Any) -> tuple[str, str]:
    return value.__module__, value.__qualname__


_refusals = [
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, DaskfcError)
]
_allowed: dict[tuple[str, str], Any] = {
    _name(value): value for value in (Task, TaskRef, INPUT, Outgoing, *_refusals)
}


class _State:
    whole_process = False
    functions: tuple[Callable[..., Any], ...] = ()


def allowed_names() -> tuple[str, ...]:
    """Return what Dask may unpickle at a party, as sorted ``module.name``."""
    return tuple(sorted(".".join(name) for name in _allowed))


class _Unpickler(pickle._Unpickler):
    # In Python: the one in C allocates as many places as a pickle announces before it reads them:
    # five bytes take 32 GiB. So does the opcode of bytearrays, which no task holds.
    dispatch: ClassVar = {
        code: load
        for code, load in pickle._Unpickler.dispatch.items()
        if code != pickle.BYTEARRAY8[0]
    }

    def get_extension(self, code: int) -> NoReturn:
        """Refuse numbers in place of classes, which others may have registered."""
        raise PrivacyError("a pickle that came in names a class by a number. Nothing was run.")

    def find_class(self, module: str, name: str) -> Any:
        """Return an object of the list; never imports anything."""
        try:
            return _allowed[module, name]
        except KeyError:
            raise PrivacyError(
                f"a pickle that came in names {module}.{name}, which a party does not make of what "
                "comes in. Nothing was run; 'daskfc policy show --ingress' has the list."
            ) from None

    def persistent_load(self, pid: Any) -> Any:
        """Refuse references to objects outside of the pickle."""
        raise PrivacyError("a pickle that came in refers to something kept elsewhere.")


def _is_restricted() -> bool:
    return _State.whole_process or _restricted.get()


def _loads(data: Any, *, buffers: Iterable[Any] = ()) -> Any:
    if not _is_restricted():
        return dask_loads(data, buffers=buffers)
    try:
        # A header may hold any number in place of a pickle: `bytes` would make so many zeros of it.
        return _Unpickler(io.BytesIO(memoryview(data)), buffers=buffers).load()
    except MemoryError:
        return Unread
    except Exception as error:
        logger.warning("%s", error if isinstance(error, PrivacyError) else "a broken pickle")
        return Forbidden


def _deserialize(header: Any, frames: Any, deserializers: Any = None) -> Any:
    if not _is_restricted():
        return dask_merge(header, frames, deserializers=deserializers)
    try:
        return dask_merge(header, frames, deserializers=deserializers)
    except MemoryError:
        return Unread
    except Exception as error:
        logger.warning("what came in could not be read: %s", type(error).__name__)
        return Forbidden


def admit(functions: Iterable[Callable[..., Any]], others: Iterable[Any] = ()) -> None:
    """Allow functions as tasks, and others in what parties send; it is called only once."""
    _State.functions = tuple(functions)
    _allowed.update({_name(value): value for value in (*_State.functions, *others)})
    read_by(_loads, _deserialize)


def restrict_process(also: Mapping[tuple[str, str], Any] | None = None) -> None:
    """Restrict, for good, what Dask unpickles in this process to the list and to `also`."""
    _allowed.update(also or {})
    _State.whole_process = True


@contextlib.contextmanager
def restricted() -> Iterator[None]:
    """Restrict what Dask unpickles within to the list, for a nanny in the driver's process."""
    token = _restricted.set(True)
    try:
        yield
    finally:
        _restricted.reset(token)


def is_admitted(spec: Any) -> bool:
    """Return whether a task is a step or hands over its message, and nothing more."""
    return (
        type(spec) is Task
        and any(spec.func is function for function in _State.functions)
        and not spec.kwargs
        and len(spec.args) > 0
        and type(spec.args[0]) in (bytes, str)
        and all(type(argument) is INPUT for argument in spec.args[1:])
    )
