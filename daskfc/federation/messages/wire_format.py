"""How calls and messages are written as bytes, and read again without running what they hold.

What is read is data: numbers, text, arrays, containers, and dataclasses of installed packages, made
by their own constructors. A function is named, never sent. What the schema lacks, such as a step
that a script defines, travels as a pickle. A party opens pickles only of the driver that started
it, which seals them with a key that it gave its parties then.
"""

import dataclasses
import functools
import hashlib
import hmac
import importlib
import inspect
import math
import pickle
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

import cloudpickle
import msgpack
import numpy as np

from daskfc.coding.residues.streams import SecretKey
from daskfc.errors import DaskfcError, InvalidInput, PrivacyError

_TUPLE, _ARRAY, _NUMBER, _INTEGER, _COMPLEX, _RECORD, _NAMED, _PICKLED = range(1, 9)
_Decode = Callable[[bytes], Any]
_KINDS = "biufcUS"  # of arrays: nothing that could be an object
_DIGEST = hashlib.sha256().digest_size
_MAIN = "__main__"
_DEEPEST = 32  # extensions within extensions; msgpack takes 32 KiB of the stack for each


def encode(value: Any, *, other: Callable[[Any], bytes] = cloudpickle.dumps) -> bytes:
    """Return a value as bytes for `Reader.decode`; `other` writes what the schema lacks."""
    extended = functools.partial(_extended, write=functools.partial(encode, other=other))
    packed: bytes = msgpack.packb(
        value,
        default=lambda part: extended(part) or msgpack.ExtType(_PICKLED, other(part)),
        strict_types=True,
        use_bin_type=True,
    )
    return packed


def name_of(value: Any) -> tuple[str, str] | None:
    """Return module and name of a function or class that any process can import, or None."""
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", "")
    if not isinstance(module, str) or module == _MAIN or not name.isidentifier():
        return None
    if _by_value(module) or getattr(inspect.getmodule(value), name, None) is not value:
        return None
    return module, name


def _by_value(module: str) -> bool:
    return module in cloudpickle.list_registry_pickle_by_value()


def _extended(value: Any, write: Callable[[Any], bytes]) -> msgpack.ExtType | None:
    kind = type(value)
    if kind is tuple:
        return msgpack.ExtType(_TUPLE, write(list(value)))
    if kind is int:
        return msgpack.ExtType(_INTEGER, str(value).encode())
    if kind is complex:
        return msgpack.ExtType(_COMPLEX, write([value.real, value.imag]))
    if kind is np.ndarray and value.dtype.kind in _KINDS:
        plain = np.ascontiguousarray(value)
        return msgpack.ExtType(_ARRAY, write([plain.dtype.str, list(value.shape), plain.tobytes()]))
    if isinstance(value, np.generic) and value.dtype.kind in _KINDS:
        return msgpack.ExtType(_NUMBER, write([value.dtype.str, value.tobytes()]))
    if inspect.isroutine(value) or isinstance(value, type):
        if (named := name_of(value)) is not None:
            return msgpack.ExtType(_NAMED, write(list(named)))
    elif dataclasses.is_dataclass(value) and (named := name_of(kind)) is not None:
        fields = dataclasses.fields(value)
        if all(field.init for field in fields):
            parts = {field.name: getattr(value, field.name) for field in fields}
            return msgpack.ExtType(_RECORD, write([*named, parts]))
    return None


class Reader:
    """Reads what `encode` wrote, with dataclasses and functions of `packages` only.

    With `trusted`, for the driver that started this process, any package counts, and pickles open.
    """

    def __init__(self, packages: Iterable[str] = ("daskfc",), *, trusted: bool = False) -> None:
        self.packages = frozenset(packages)
        self.trusted = trusted

    def decode(self, data: bytes) -> Any:
        """Return the value; PrivacyError for what may not be read, InvalidInput for bad form."""
        try:
            return self._decode(data, 0)
        except (DaskfcError, ImportError, MemoryError):
            raise
        except Exception as error:  # of msgpack, NumPy, and the constructors of dataclasses
            raise InvalidInput(
                f"what was sent is not in the form of daskfc's wire ({type(error).__name__}). "
                "Nothing was run; use one version of daskfc everywhere."
            ) from error

    def _decode(self, data: bytes, depth: int) -> Any:
        if depth > _DEEPEST:
            raise InvalidInput(
                f"what was sent has values within values, {_DEEPEST} deep at most are read."
            )
        inner = functools.partial(self._decode, depth=depth + 1)

        def of_extension(code: int, content: bytes) -> Any:
            made = self._makers.get(code)
            if made is None:
                raise ValueError(f"no value has the code {code}")
            return made(self, content, inner)

        return msgpack.unpackb(
            data, ext_hook=of_extension, strict_map_key=False, raw=False, use_list=True
        )

    def _tuple(self, data: bytes, inner: _Decode) -> tuple[Any, ...]:
        return tuple(inner(data))

    def _integer(self, data: bytes, inner: _Decode) -> int:
        return int(data)

    def _complex(self, data: bytes, inner: _Decode) -> complex:
        return complex(*inner(data))

    def _array(self, data: bytes, inner: _Decode) -> np.ndarray:
        dtype, shape, content = inner(data)
        return array_of(plain_dtype(dtype), shape, bytearray(content))

    def _number(self, data: bytes, inner: _Decode) -> Any:
        dtype, content = inner(data)
        return array_of(plain_dtype(dtype), [], content)[()]

    def _record(self, data: bytes, inner: _Decode) -> Any:
        module, name, content = inner(data)
        kind = self.named(module, name)
        if not (isinstance(kind, type) and dataclasses.is_dataclass(kind)):
            raise _may_not(f"{module}.{name}")
        return kind(**content)

    def _name(self, data: bytes, inner: _Decode) -> Any:
        return self.named(*inner(data))

    def _pickle(self, data: bytes, inner: _Decode) -> Any:
        if not self.trusted:
            raise PrivacyError(
                "what was sent holds code, or an object of a kind that only the driver which "
                "started a party may send. Use steps of an installed package that the site allows."
            )
        return pickle.loads(data)

    _makers: ClassVar[dict[int, Callable[["Reader", bytes, _Decode], Any]]] = {
        _TUPLE: _tuple,
        _INTEGER: _integer,
        _COMPLEX: _complex,
        _ARRAY: _array,
        _NUMBER: _number,
        _RECORD: _record,
        _NAMED: _name,
        _PICKLED: _pickle,
    }

    def named(self, module: str, name: str) -> Any:
        """Return what a module defines under a name; PrivacyError for what may not be named."""
        if not (isinstance(module, str) and isinstance(name, str)):
            raise TypeError("a name is text")
        parts = module.split(".")
        if not name.isidentifier() or _MAIN in parts or not all(p.isidentifier() for p in parts):
            raise _may_not(f"{module}.{name}")
        if not self.trusted and parts[0] not in self.packages:
            raise _may_not(f"{module}.{name}")
        found = getattr(importlib.import_module(module), name, None)
        if found is None:
            raise ImportError(f"no {name} in {module}", name=module)
        if getattr(found, "__module__", None) != module or not callable(found):
            raise _may_not(f"{module}.{name}")
        return found


def _may_not(name: str) -> PrivacyError:
    return PrivacyError(
        f"{name!r} may not be named in what is sent to this party. Use steps of daskfc, or have "
        "the site allow the package."
    )


def plain_dtype(name: str) -> np.dtype[Any]:
    """Return the dtype of a ``numpy.dtype.str`` of numbers or text; ValueError for all others."""
    dtype = np.dtype(name)
    if dtype.kind not in _KINDS or dtype.itemsize == 0:
        raise ValueError("no dtype of plain numbers or text")
    return dtype


def array_of(dtype: np.dtype[Any], shape: list[int], content: Any) -> np.ndarray:
    """Return an array over a buffer's memory, in C order; raise unless the bytes fill its shape."""
    held = memoryview(content).cast("B")
    if any(size < 0 for size in shape) or math.prod(shape) * dtype.itemsize != len(held):
        raise ValueError("an array's bytes must fill its shape")
    return np.frombuffer(held, dtype).reshape(shape)


def sealed(key: SecretKey | None, content: bytes) -> bytes:
    """Return content behind its MAC under a key that the reader has, or behind zeros."""
    return (bytes(_DIGEST) if key is None else _seal(key, content)) + content


def opened(keys: Iterable[SecretKey], data: bytes) -> tuple[bytes, bool]:
    """Return the content that `sealed` wrote, and whether one of the keys sealed it."""
    seal, content = data[:_DIGEST], data[_DIGEST:]
    return content, any(hmac.compare_digest(seal, _seal(key, content)) for key in keys)


def _seal(key: SecretKey, content: bytes) -> bytes:
    return hmac.digest(key.to_bytes(), content, "sha256")
