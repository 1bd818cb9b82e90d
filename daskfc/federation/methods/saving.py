"""Fitted methods as folders of plain files: ``model.json`` and ``arrays.npz``, and no pickle.

They hold what a pickle holds: parameters, results, and the model where the caller has it. Where the
parties have the model, `predict` needs another fit.
"""

import dataclasses
import hashlib
import importlib
import io
import json
from collections.abc import Mapping
from importlib.metadata import version
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from daskfc.errors import InvalidInput
from daskfc.federation.ledger.ledger import Ledger
from daskfc.folders import make_private, whole_folder

_FORMAT = "daskfc-model"
_KIND = "$kind"  # marks what JSON has no form for


class _Writer:
    """Turns values into JSON, and arrays into entries of a file beside it."""

    def __init__(self, packages: set[str]) -> None:
        self.arrays: dict[str, np.ndarray] = {}
        self._packages = packages

    def plain(self, value: Any) -> Any:
        if value is None or type(value) in (bool, int, str):
            return value
        if type(value) is float:
            return value if value - value == 0 else {_KIND: "float", "value": repr(value)}
        if isinstance(value, list):
            return [self.plain(one) for one in value]
        if isinstance(value, tuple):
            return {_KIND: "tuple", "items": [self.plain(one) for one in value]}
        if isinstance(value, np.ndarray | np.generic):
            return self._array(np.asarray(value))
        if isinstance(value, xr.DataArray):
            coords = {
                str(name): [list(map(str, one.dims)), self._array(one.to_numpy())]
                for name, one in value.coords.items()
            }
            dims, data = list(map(str, value.dims)), self._array(value.to_numpy())
            return {_KIND: "labelled", "name": value.name, "dims": dims, "data": data,
                    "coords": coords}  # fmt: skip
        if isinstance(value, Ledger):
            rows = [self.plain(vars(row)) for row in value]
            return {_KIND: "ledger", "rows": rows, "trusted": value.trusted}
        if isinstance(value, Mapping):
            return {_KIND: "mapping", "items": [self.plain([k, v]) for k, v in value.items()]}
        kind = type(value)
        if dataclasses.is_dataclass(kind) and kind.__module__.split(".")[0] in self._packages:
            fields = {one.name: self.plain(getattr(value, one.name)) for one in
                      dataclasses.fields(kind) if one.init}  # fmt: skip
            name = f"{kind.__module__}:{kind.__qualname__}"
            return {_KIND: "dataclass", "class": name, "fields": fields}
        raise TypeError(kind.__name__)

    def _array(self, value: np.ndarray) -> Any:
        if value.dtype.kind == "O":
            value = value.astype(str)
        if value.dtype.kind not in "biufcU":
            raise TypeError(f"array of {value.dtype.name}")
        name = f"a{len(self.arrays)}"
        self.arrays[name] = value
        return {_KIND: "array", "name": name}


class _Reader:
    """The inverse of `_Writer`."""

    def __init__(self, arrays: Mapping[str, np.ndarray], packages: set[str]) -> None:
        self._arrays = arrays
        self._packages = packages

    def value(self, told: Any) -> Any:
        if isinstance(told, list):
            return [self.value(one) for one in told]
        if not isinstance(told, dict):
            return told
        kind = told[_KIND]
        if kind == "float":
            return float(told["value"])
        if kind == "tuple":
            return tuple(self.value(told["items"]))
        if kind == "array":
            return self._arrays[told["name"]]
        if kind == "labelled":
            coords = {name: (dims, self.value(one)) for name, (dims, one) in told["coords"].items()}
            data = self.value(told["data"])
            return xr.DataArray(data, coords, told["dims"], name=told["name"])
        if kind == "ledger":
            return Ledger(self.value(told["rows"]), told.get("trusted", ""))
        if kind == "mapping":
            return {key: one for key, one in self.value(told["items"])}
        module, _, name = told["class"].partition(":")
        found: Any = getattr(importlib.import_module(self._trusted(module)), name)
        if not isinstance(found, type) or not dataclasses.is_dataclass(found):
            raise ValueError(name)
        made: Any = found
        return made(**{key: self.value(one) for key, one in told["fields"].items()})

    def _trusted(self, module: str) -> str:
        """Return a module of daskfc or of the method's own package; no other is imported."""
        if module.split(".")[0] not in self._packages:
            raise ValueError(module)
        return module


def _packages(kind: type) -> set[str]:
    return {"daskfc", kind.__module__.split(".")[0]}


def write_model(kind: type, state: Mapping[str, Any], folder: str | PathLike[str]) -> None:
    """Write a fitted method's attributes into a new folder that only its owner may enter."""
    path = Path(fspath(folder))
    if path.exists():
        raise InvalidInput(f"{path}: is there and is not written over. Choose another folder.")
    writer, plain = _Writer(_packages(kind)), {}
    for name, value in state.items():
        try:
            plain[name] = writer.plain(value)
        except TypeError as error:
            raise InvalidInput(
                f"the attribute {name!r} of {kind.__name__} holds a {error}, which has no form as "
                "plain text and arrays. Give parameters as text, numbers, lists or mappings."
            ) from None
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **writer.arrays)  # type: ignore[arg-type]
    arrays = buffer.getvalue()
    about = {
        "format": _FORMAT, "daskfc": version("daskfc"), "class": f"{kind.__module__}:"
        f"{kind.__qualname__}", "state": plain, "sha256": hashlib.sha256(arrays).hexdigest(),
    }  # fmt: skip
    try:
        make_private(path.absolute().parent)
        with whole_folder(path) as partial:
            (partial / "arrays.npz").write_bytes(arrays)
            text = json.dumps(about, indent=1, allow_nan=False)
            (partial / "model.json").write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise InvalidInput(
            f"{path}: the model cannot be written there ({error.strerror}). Choose another folder."
        ) from error


def read_model(
    folder: str | PathLike[str], kinds: Mapping[str, type]
) -> tuple[type, dict[str, Any]]:
    """Read the class and attributes that `write_model` wrote; `kinds` is keyed ``module:name``."""
    path = Path(fspath(folder))
    try:
        about = json.loads((path / "model.json").read_text(encoding="utf-8"))
        if about["format"] != _FORMAT:
            raise ValueError(_FORMAT)
        name = str(about["class"])
    except OSError:
        raise InvalidInput(
            f"{path}: no model is there (it has no model.json). Give a folder that 'save' wrote."
        ) from None
    except (ValueError, KeyError, TypeError):
        raise _damaged(path) from None
    if name not in kinds:
        known = ", ".join(kind.__name__ for kind in kinds.values())
        raise InvalidInput(
            f"{path}: holds a {name.partition(':')[2]}; asked for was {known}. Load it with its "
            "own class, or with daskfc.load."
        )
    kind = kinds[name]
    try:
        data = (path / "arrays.npz").read_bytes()
        if hashlib.sha256(data).hexdigest() != about["sha256"]:
            raise ValueError("other bytes than were written")
        with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
            reader = _Reader(dict(arrays), _packages(kind))
        return kind, {key: reader.value(one) for key, one in about["state"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, ImportError):
        raise _damaged(path) from None


def _damaged(path: Path) -> InvalidInput:
    return InvalidInput(
        f"{path}: the model is damaged or of another daskfc. Restore it from a copy, or fit again."
    )
