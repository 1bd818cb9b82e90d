"""Read pickles of numbers without calling anything that they name.

A pickle is a program: it names functions, and its reader calls them. Some graphs are distributed as
pickles of Python 2 nevertheless. Here each name that such a file needs maps to a stub of this
module that only keeps its arguments; any other name is refused. Arrays are made from their bytes
afterwards, so that not even NumPy's own reading of pickles is trusted.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import numpy as np
from scipy import sparse

from daskfc.errors import StoreError

_TYPES = {"b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8"}


class _Record:
    """An object of a pickle, which keeps its state and does nothing."""

    def __setstate__(self, state: Any) -> None:
        self.state = state


class _Type(_Record):
    """Stub for numpy.dtype; its state is (version, byte order, ...)."""

    def __init__(self, name: Any, *_: Any) -> None:
        if name not in _TYPES:
            raise ValueError("a type other than integers and floats")
        self.name = str(name)
        self.state = (3, "=")

    def dtype(self) -> np.dtype[Any]:
        orders: dict[Any, Literal["<", ">"]] = {"<": "<", ">": ">"}
        return np.dtype(self.name).newbyteorder(orders.get(self.state[1], "="))


class _Array(_Record):
    """Stub for numpy.ndarray; its state is (version, shape, type, whether columns first, raw)."""

    def array(self) -> np.ndarray:
        _, shape, kind, columns_first, raw = self.state
        if not isinstance(kind, _Type) or any(type(size) is not int or size < 0 for size in shape):
            raise ValueError("no array of numbers")
        values = np.frombuffer(_raw(raw), kind.dtype()).reshape(
            shape, order="F" if columns_first else "C"
        )
        return np.array(values, dtype=values.dtype.newbyteorder("="))


class _Rows(_Record):
    """Stub for scipy.sparse.csr_matrix; its state is its attributes."""

    def matrix(self) -> sparse.csr_array:
        parts = [self.state[name] for name in ("data", "indices", "indptr")]
        rows, columns = self.state["_shape"]
        if any(type(size) is not int for size in (rows, columns)):
            raise ValueError("no shape")
        arrays = tuple(part.array() for part in parts)
        matrix = sparse.csr_array(arrays, shape=(rows, columns))
        matrix.check_format()
        return matrix


def _raw(value: Any) -> bytes:
    # the strings of Python 2 arrive as text, a character a byte
    return value.encode("latin1") if isinstance(value, str) else bytes(memoryview(value))


def _scalar(kind: _Type, raw: Any) -> Any:
    (value,) = np.frombuffer(_raw(raw), kind.dtype())
    return value.item()


def _record(kind: type[_Record], *_: Any) -> _Record:
    if not issubclass(kind, _Record):
        raise ValueError("no record")
    return kind()


def _dictionary(*_: Any) -> dict[Any, Any]:
    return {}  # without the factory of a defaultdict, which nothing here needs


def _encode(text: str, encoding: str) -> bytes:
    if encoding != "latin1":
        raise ValueError("an encoding of something else than bytes")
    return text.encode("latin1")


_BUILTINS: dict[str, Any] = {"list": list, "dict": dict, "object": object}
_MULTIARRAY: dict[str, Any] = {"_reconstruct": lambda kind, *_: kind(), "scalar": _scalar}
_KNOWN: dict[str, dict[str, Any]] = {
    "__builtin__": _BUILTINS,
    "builtins": _BUILTINS,
    "copy_reg": {"_reconstructor": _record},
    "copyreg": {"_reconstructor": _record},
    "_codecs": {"encode": _encode},
    "collections": {"defaultdict": _dictionary},
    "numpy": {"ndarray": _Array, "dtype": _Type},
    "numpy.core.multiarray": _MULTIARRAY,
    "numpy._core.multiarray": _MULTIARRAY,
    "scipy.sparse.csr": {"csr_matrix": _Rows},
    "scipy.sparse._csr": {"csr_matrix": _Rows},
}


class _Unpickler(pickle._Unpickler):  # pickle's C version allocates as much as a file says
    """An unpickler that resolves the names of `_KNOWN` and no others."""

    def __init__(self, data: bytes, where: str) -> None:
        super().__init__(io.BytesIO(data), encoding="latin1")
        self._where = where

    def find_class(self, module_name: str, global_name: str, /) -> Any:
        found = _KNOWN.get(module_name, {}).get(global_name)
        if found is None:
            name = f"{module_name}.{global_name}"[:80]
            raise StoreError(
                f"{self._where}: a pickle may name only arrays, sparse rows, lists and "
                f"dictionaries; got {name!r}, which was not called. Do not trust the file; get it "
                "from its origin."
            )
        # a pickle may set attributes of what it names, and so gets a copy
        if not isinstance(found, type):
            return partial(found)
        return type(found.__name__, (found,), {}) if issubclass(found, _Record) else found

    def get_extension(self, code: int) -> None:
        # numbers that stand for names in this process may bypass find_class
        raise pickle.UnpicklingError("a name by its number")


def load_numbers(data: bytes, where: str) -> Any:
    """Return the content of a pickle of numbers, without calling anything that it names.

    Allowed are arrays of integers or floats, csr matrices (checked), lists, dictionaries, numbers
    and text, of Python 2 or 3; anything else, or a damaged pickle, raises StoreError.
    """
    try:
        return _finished(_Unpickler(data, where).load())
    except StoreError:
        raise
    except Exception as error:  # a damaged pickle can raise anything
        raise StoreError(
            f"{where}: the source cannot be read as a pickle of numbers ({type(error).__name__}); "
            "see that the file is whole, or get it again."
        ) from error


def _finished(value: Any) -> Any:
    steps: dict[type, Callable[[Any], Any]] = {_Array: _Array.array, _Rows: _Rows.matrix}
    for kind, finish in steps.items():
        if isinstance(value, kind):
            return finish(value)
    return value
