"""Whether the folders of two runs hold the same labels, messages, scores and stores."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd
import xarray as xr

# Message classes, and fields as "Class.field", that have another name now. Names are looked up on
# both sides, so that entries may stay for as long as anybody compares with an older commit.
RENAMED: dict[str, str] = {
    "SampleSummary": "ClientSummary",
    "KernelSummary": "ClientSummary",
    "KernelPlan": "Plan",
    "DictionaryChange": "Progress",
    "LloydProgress": "Progress",
    "GramMoments": "Moments",
}

PLACE = ("method", "seed", "round", "sender", "receiver", "message")
# Of a summary: what depends on the machine, the moment or the tree's place.
_OF_THE_MOMENT = {
    "run_id", "pipeline", "storage", "timing", "stages", "peak_memory_bytes", "wire_bytes",
    "by_message",
}  # fmt: skip
_TEXTS = {"statement", "reveals"}  # sentences, which may be put better
_OF_NOISE = {
    "metrics", "quality", "reconstruction", "confusion", "map", "histories", "payload_bytes",
    "uploaded_floats",
}  # fmt: skip


@dataclass
class Comparison:
    """What differs between two runs, and what is only worth knowing."""

    differences: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def compare_runs(
    old: Path, new: Path, *, noisy: bool = False, renamed: Mapping[str, str] = RENAMED
) -> Comparison:
    """Compare the folders of two runs that are done.

    Parameters
    ----------
    old, new : Path
        The runs' folders.
    noisy : bool
        Whether the run's labels are random: only sample ids and messages are compared then.
    renamed : mapping of str to str
        See `RENAMED`.
    """
    found = Comparison()
    found.differences += _labels(_read_labels(old), _read_labels(new), noisy)
    _ledgers(_read_ledger(old), _read_ledger(new), noisy, renamed, found)
    _summaries(_read(old, "summary.json"), _read(new, "summary.json"), noisy, found)
    a, b = (_read(folder, "run.json") for folder in (old, new))
    for record in (a, b):
        record.get("pipeline", {}).pop("ids", None)  # which only one side may know
    for what in ("contents", "pipeline"):
        found.differences += _unequal(a.get(what), b.get(what), f"run.json: {what}")
    return found


def _read(folder: Path, name: str) -> dict:
    return json.loads((folder / name).read_text(encoding="utf-8"))


def _read_labels(folder: Path) -> xr.Dataset:
    return xr.open_zarr(folder / "labels.zarr", consolidated=False).load()


def _read_ledger(folder: Path) -> pd.DataFrame:
    return pd.read_parquet(folder / "ledger.parquet")


def _labels(a: xr.Dataset, b: xr.Dataset, noisy: bool) -> Iterator[str]:
    if (dict(a.sizes), sorted(a.variables)) != (dict(b.sizes), sorted(b.variables)):
        yield f"labels: {dict(a.sizes)} of OLD, {dict(b.sizes)} of NEW"
        return
    for name in sorted(map(str, a.coords)):
        one, other = a[name].to_numpy(), b[name].to_numpy()
        if differ := int((one != other).sum()):
            yield f"labels: {name} differs in {differ} of {one.size} places"
    one, other = a["labels"], b["labels"]
    if one.dtype != other.dtype or one.dims != other.dims:
        yield f"labels: {one.dtype} over {one.dims} of OLD, {other.dtype} over {other.dims} of NEW"
        return
    for i, method in enumerate(a["algorithm"].to_numpy()):
        for j, seed in enumerate(a["seed"].to_numpy()):
            mine, theirs = one.to_numpy()[i, j], other.to_numpy()[i, j]
            if not noisy and (differ := int((mine != theirs).sum())):
                sizes = " against ".join(str(_sizes(labels)) for labels in (mine, theirs))
                yield (
                    f"labels of {method}, seed {seed}: {differ} of {mine.size} differ; clusters "
                    f"of {sizes}"
                )


def _sizes(labels: np.ndarray) -> list[int]:
    return np.unique(labels, return_counts=True)[1].tolist()


def messages_of(
    ledger: pd.DataFrame, renamed: Mapping[str, str], *, noisy: bool = False
) -> Counter[tuple]:
    """Return how often each message was sent: ``(part, value)`` pairs of all that counts of it.

    Noise decides how many eigenpairs are worth keeping, so that noisy sizes do not count.
    """
    found: Counter[tuple] = Counter()
    for row in ledger.to_dict("records"):
        kind, shapes, dtypes = row["message"], json.loads(row["shapes"]), json.loads(row["dtypes"])
        fields = sorted(
            (
                renamed.get(f"{kind}.{name}", name),
                (len(shape),) if noisy else tuple(shape),
                dtypes.get(name),
            )
            for name, shape in shapes.items()
        )
        noise = row["noise_multiplier"]
        message = {
            **{part: row[part] for part in PLACE},
            "message": renamed.get(kind, kind),
            "protection": row["protection"],
            "fields": tuple(fields),
            "payload_bytes": 0 if noisy else int(row["payload_bytes"]),
            "noise_multiplier": None if pd.isna(noise) else float(noise),
        }
        found[tuple(message.items())] += 1
    return found


def _without_names(message: tuple) -> tuple:
    parts = dict(message)
    arrays = tuple(sorted((shape, dtype) for _, shape, dtype in parts.pop("fields")))
    parts.pop("message")
    return (*parts.items(), arrays)


def _only_renamed(gone: Counter[tuple], come: Counter[tuple]) -> list[tuple[tuple, tuple]]:
    """Take out of both what differs in nothing but names, and return it as pairs."""
    alike: dict[tuple, list[tuple]] = {}
    for message in come.elements():
        alike.setdefault(_without_names(message), []).append(message)
    pairs = []
    for message in list(gone.elements()):
        if likes := alike.get(_without_names(message)):
            pairs.append((message, likes.pop(0)))
    gone.subtract(one for one, _ in pairs)
    come.subtract(other for _, other in pairs)
    return pairs


def _ledgers(
    a: pd.DataFrame, b: pd.DataFrame, noisy: bool, renamed: Mapping[str, str], found: Comparison
) -> None:
    one, other = (messages_of(ledger, renamed, noisy=noisy) for ledger in (a, b))
    gone, come = one - other, other - one
    for names in dict.fromkeys((_name(x), _name(y)) for x, y in _only_renamed(gone, come)):
        found.differences.append(f"messages: {' → '.join(names)}, which RENAMED lacks")
    gone, come = +gone, +come
    if gone or come:
        told = f"messages: {gone.total()} only in OLD, {come.total()} only in NEW"
        found.differences.append(f"{told}; {_example(gone, come)}")
    names = {old: new for old, new in renamed.items() if old in set(a["message"])}
    changed = [f"{old} → {new}" for old, new in names.items() if new in set(b["message"])]
    if changed:
        found.notes.append(f"renamed messages: {', '.join(changed)}")
    steps = [sorted(set(x["step"]) - set(y["step"])) for x, y in ((a, b), (b, a))]
    if any(steps):
        found.notes.append(f"steps: {', '.join(steps[0])} → {', '.join(steps[1])}")
    totals = [f"{len(x):,} messages, {x['payload_bytes'].sum():,} B" for x in (a, b)]
    wire = " → ".join(f"{x['wire_bytes'].sum():,}" for x in (a, b))
    found.notes.append(f"{' → '.join(dict.fromkeys(totals))}, {wire} on the wire")


def _name(message: tuple) -> str:
    parts = dict(message)
    return f"{parts['message']}({', '.join(name for name, *_ in parts['fields'])})"


def _example(gone: Counter[tuple], come: Counter[tuple]) -> str:
    """Return one message that differs, and in what if the other side has its like."""
    first = dict(next(iter(gone or come)))
    where = ", ".join(f"{part} {first[part]}" for part in PLACE)
    for other in map(dict, come if gone else ()):
        if all(other[part] == first[part] for part in PLACE):
            parts = [f"{p} {first[p]} → {other[p]}" for p in first if first[p] != other[p]]
            return f"for example {where}: {', '.join(parts)}"
    return f"for example {where}: only in {'OLD' if gone else 'NEW'}"


def _lasting(value: object, leave_out: set[str]) -> object:
    """Return a summary without the keys of some names, wherever they are."""
    if not isinstance(value, Mapping):
        return value
    return {k: _lasting(v, leave_out) for k, v in value.items() if k not in leave_out}


def _summaries(a: dict, b: dict, noisy: bool, found: Comparison) -> None:
    leave_out = _OF_THE_MOMENT | _TEXTS | (_OF_NOISE if noisy else set())
    one, other = (_lasting(summary, leave_out) for summary in (a, b))
    found.differences += _unequal(one, other, "summary.json")
    for key in _TEXTS:
        texts = [summary.get("privacy", {}).get(key) for summary in (a, b)]
        if texts[0] != texts[1]:
            found.notes.append(f"other words in privacy.{key}")
    for key in ("timing", "peak_memory_bytes"):
        found.differences += _unequal(
            sorted(a.get(key) or ()), sorted(b.get(key) or ()), f"summary.json: keys of {key}"
        )
    stages = ([name for name, *_ in summary.get("stages") or ()] for summary in (a, b))
    found.differences += _unequal(*stages, "summary.json: names of stages")


def _unequal(a: object, b: object, where: str) -> Iterator[str]:
    """Tell every leaf of two JSON trees that differs."""
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        for key in dict.fromkeys([*a, *b]):
            yield from _unequal(a.get(key), b.get(key), f"{where}.{key}")
    elif a != b or type(a) is not type(b):
        yield f"{where}: {a!r} of OLD, {b!r} of NEW"
