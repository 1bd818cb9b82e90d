"""The chain of a ledger's lines: each has the digest of the one before, and the last is signed.

Lines written at once have one signature, in the last line, which covers all lines before it. A line
that a crash cut off stays in the file; the next one records its length and digest.
"""

import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from daskfc.errors import InvalidInput
from daskfc.federation.ledger.key import LedgerKey, signed_by

_SIGNATURE = re.compile(rb'(.*),"signature":"([0-9a-f]{128})"\}', re.DOTALL)
_BLOCK = 1 << 16


@dataclass(frozen=True)
class Head:
    """A ledger file's end: the last whole line's digest, empty if none, and a torn line's bytes."""

    before: str = ""
    torn: bytes = b""


def _digest(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()


def _torn(rest: bytes) -> list[Any]:
    """Return what the next line records of a line cut off by a crash: length and digest."""
    return [len(rest), _digest(rest)] if rest else []


def linked(
    lines: Iterable[Mapping[str, Any]], head: Head, key: LedgerKey | None
) -> tuple[bytes, Head]:
    """Return one or more lines as bytes to append, the last one signed, and the new end."""
    before, whole = head.before, []
    torn = {"torn": _torn(head.torn)} if head.torn else {}
    every = list(lines)
    for number, line in enumerate(every):
        full = {**line, **torn, "before": before}
        text = json.dumps(full, separators=(",", ":")).encode()
        if key is not None and number == len(every) - 1:
            text = b'%s,"signature":"%s"}' % (text[:-1], key.sign(text[:-1]).encode())
        whole.append(text + b"\n")
        before, torn = _digest(text), {}
    return (b"\n" if head.torn else b"") + b"".join(whole), Head(before)


def read_head(file: int, end: int) -> Head:
    """Return the head of an open ledger file of `end` bytes."""
    start, text = end, b""
    while start and text.count(b"\n") < 2:
        start = max(0, start - _BLOCK)
        text = os.pread(file, end - start, start)
    lines = text.split(b"\n")
    return Head(_digest(lines[-2]) if len(lines) > 1 else "", lines[-1])


@dataclass(frozen=True)
class Chain:
    """A ledger file's whole lines, its faults, and the distinct public keys at its starts."""

    lines: tuple[dict[str, Any], ...]
    faults: tuple[str, ...]  # each completes "the ledger of NAME"
    keys: tuple[str, ...]


def read_chain(path: str | os.PathLike[str]) -> Chain:
    """Read a ledger file and check every link and signature; faults are returned, not raised."""
    try:
        text = Path(path).read_bytes()
    except OSError as error:
        raise InvalidInput(
            f"{path}: the ledger cannot be read ({error.strerror}). Give the file ledger.jsonl of "
            "a party, or the folder in which it is."
        ) from None
    *whole, rest = text.split(b"\n")
    walked = list(_walk(whole))
    lines = tuple(part for _, part, _ in walked)
    starts = [part["key"] for part in lines if _is(part, "start")]
    keys = tuple(dict.fromkeys(starts))
    faults = []
    unchained = [number for number, part, _ in walked if "before" not in part]
    if lines and len(unchained) == len(lines):
        faults.append("has no chain, as of an earlier daskfc")
    elif unchained:
        faults.append(f"has no chain {_in_lines(unchained)}")
    broken = [number for number, part, follows in walked if "before" in part and not follows]
    if broken:
        verb = "does" if len(broken) == 1 else "do"
        faults.append(
            f"is not as it was written: {_in_lines(broken)[3:]} {verb} not follow from what is "
            "before" + (" it" if len(broken) == 1 else " them")
        )
    if len(unchained) < len(lines):
        faults += _faults_of_signatures(whole, walked, keys)
    if rest:
        faults.append(
            f"ends with {len(rest)} bytes of a line that is not whole, as a crash leaves it, or "
            "whoever shortens the file"
        )
    return Chain(lines, tuple(faults), keys)


def _is(part: Mapping[str, Any], kind: str) -> bool:
    return part.get("kind") == kind and (kind != "start" or isinstance(part.get("key"), str))


def _in_lines(numbers: list[int]) -> str:
    """Return "in line 3" or "in lines 3, 4 and 7"."""
    some = [str(number) for number in numbers[:5]]
    if len(numbers) > len(some):
        some.append(f"{len(numbers) - len(some)} others")
    listed = some[0] if len(some) == 1 else f"{', '.join(some[:-1])} and {some[-1]}"
    return f"in line{'s' if len(some) > 1 else ''} {listed}"


def _parsed(line: bytes) -> dict[str, Any] | None:
    try:
        part = json.loads(line)
    except ValueError:
        return None
    return part if isinstance(part, dict) else None


def _walk(whole: list[bytes]) -> Iterator[tuple[int, dict[str, Any], bool]]:
    """Yield number and content of each untorn line, and whether it follows from the one before."""
    parts = [_parsed(line) for line in whole]
    before, cut = "", b""
    for number, (line, part) in enumerate(zip(whole, parts, strict=True), 1):
        after = (parts[number] if number < len(parts) else None) or {}
        if after.get("torn") == _torn(line) and after.get("before") == before:
            cut = line
            continue
        torn = None if part is None else part.get("torn", [])
        follows = part is not None and part.get("before") == before and torn == _torn(cut)
        yield number, {"before": None} if part is None else part, follows
        before, cut = _digest(line), b""


def _faults_of_signatures(
    whole: list[bytes], walked: list[tuple[int, dict[str, Any], bool]], keys: tuple[str, ...]
) -> Iterator[str]:
    if not keys:
        yield "has no start of a run, so that its key is unknown"
        return
    wrong, last = [], 0
    for position, (number, _, _) in enumerate(walked, 1):
        signed = _SIGNATURE.fullmatch(whole[number - 1])
        if signed is None:
            continue
        last = position
        if not signed_by(keys[0], signed[1], signed[2].decode()):
            wrong.append(number)
    if len(keys) > 1:
        yield f"has {len(keys)} keys at its starts, and a party has one"
    if wrong:
        yield f"is not signed by the key of its start {_in_lines(wrong)}"
    if last < len(walked):
        yield f"is not signed {_in_lines([number for number, _, _ in walked[last:]])}"
