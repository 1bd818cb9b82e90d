"""Guess how a table is written: its marks, and which columns are ids, dates, words and codes.

Guesses are shown to whoever owns the file, who decides. They rest on the cells of one file, so
sites that agree on a study compare what was guessed before they build.
"""

import codecs
import csv
import io
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, zip_longest
from typing import Any

import fsspec
import pandas as pd

from daskfc.stores.layout.spelling import Spelling
from daskfc.stores.sources.cells import (
    GAPS,
    WHOLE,
    as_text,
    is_bound,
    is_date,
    is_gap,
    numbers_of,
)

_BYTES, _LINES = 2**20, 500  # ours: what the marks are guessed from
_MOSTLY = 0.8  # ours: the share of a column's cells that decide what it is
_MOST_WORDS = 50  # ours: different words of a column; more are free text
_FEW = 5  # ours: whole numbers that may be codes of words
_CODES = (-9, -99, -999, -9999, 9, 99, 999, 9999, 99999)
_NO_VALUES = {"0", *map(str, _CODES)}
_FORMATS = (
    *("%d.%m.%Y", "%d.%m.%y", "%d/%m/%Y", "%m/%d/%Y", "%Y/%m/%d", "%d-%m-%Y"),
    *("%d.%m.%Y %H:%M", "%d/%m/%Y %H:%M", "%m/%d/%Y %H:%M"),
)
_NAMES_OF_IDS = re.compile(
    r"(.*[_ -])?(id|ids|pid|mrn|key|nr|no|patient|patient_?id|subject|subject_?id|sample|case|"
    r"record_?id|person_?id|participant)",
    re.IGNORECASE,
)
_DECIMAL_COMMA = re.compile(r"[+-]?\d+(\.\d{3})*,\d+")
_DECIMAL_POINT = re.compile(r"[+-]?\d+(,\d{3})*\.\d+")
_GROUPS = {mark: re.compile(rf"[+-]?\d{{1,3}}([{mark}]\d{{3}})+([.,]\d+)?") for mark in ".,'"}
_NUMBER = re.compile(r"[+-]?(\d+[.,]?\d*|[.,]\d+)([eE][+-]?\d+)?")
_DIGITS = re.compile(r"[+-]?\d[\d.,]*")
_ONE_GROUP = r"[+-]?[1-9]\d{0,2}[.,]\d{3}"  # a number, or one a thousand times as large


@dataclass
class ColumnGuess:
    """What a column seems to be (id, number, date, words, text or empty), and why one may doubt."""

    name: str
    kind: str
    gaps: int
    codes: list[str] = field(default_factory=list)
    date_format: str | None = None
    censored: bool = False
    doubts: list[str] = field(default_factory=list)


def guessed_marks(path: str) -> dict[str, Any]:
    """Return encoding, delimiter, decimal mark, groups and header of a csv, where not the usual."""
    with fsspec.open(path, "rb", compression="infer") as file:
        raw = file.read(_BYTES)
    found: dict[str, Any] = {}
    encoding = "utf-8"
    if raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        encoding = found["encoding"] = "utf-16"
    try:
        text = codecs.getincrementaldecoder(encoding)().decode(raw)
    except UnicodeDecodeError:
        encoding = found["encoding"] = "cp1252"
        text = raw.decode(encoding, errors="replace")
    rows, delimiter = max(
        ((_rows_of(text, mark), mark) for mark in ",;\t|"), key=lambda one: _regular(one[0])
    )
    if delimiter != ("\t" if ".tsv" in path.rpartition("/")[2] else ","):
        found["delimiter"] = delimiter
    if rows and all(_NUMBER.fullmatch(cell.strip()) for cell in rows[0]):
        found["header"] = False
    columns = [[cell.strip() for cell in own] for own in zip_longest(*rows[1:], fillvalue="")]
    cells = [cell for own in columns for cell in own]
    commas, points = (
        sum(
            bool(decimal.fullmatch(cell))
            for own in columns
            if not _groups(own, mark)
            for cell in own
        )
        for mark, decimal in ((",", _DECIMAL_COMMA), (".", _DECIMAL_POINT))
    )
    grouped = {mark: any(own.fullmatch(cell) for cell in cells) for mark, own in _GROUPS.items()}
    by_points = points == 0 and any(_groups(own, ".") for own in columns)
    if delimiter != "," and (commas > points or by_points):
        found["decimal"] = ","
    mark = "." if "decimal" in found else ","
    if (mark != delimiter and grouped[mark]) or grouped["'"]:
        found["thousands"] = "'" if grouped["'"] else mark
    return found


def _groups(column: Sequence[str], mark: str) -> bool:
    """Return whether a mark groups digits: numbers of four digits and more have it, others not."""
    marked = [cell for cell in column if mark in cell and _DIGITS.fullmatch(cell)]
    whole = [cell for cell in column if re.fullmatch(WHOLE, cell) and cell not in _NO_VALUES]
    plain = [len(cell.lstrip("+-")) for cell in whole]
    grouped = all(_GROUPS[mark].fullmatch(cell) and cell.lstrip("+-")[0] != "0" for cell in marked)
    return bool(marked and plain) and grouped and max(plain) <= 3


def _rows_of(text: str, delimiter: str) -> list[list[str]]:
    lines = text.splitlines(keepends=True)[: _LINES + 1]
    try:
        rows = list(islice(csv.reader(io.StringIO("".join(lines)), delimiter=delimiter), _LINES))
    except csv.Error:
        return []
    return [row for row in rows if row]


def _regular(rows: list[list[str]]) -> tuple[float, int]:
    """Return the share of rows that have the most common number of fields, 0 if it is one."""
    width, count = Counter(map(len, rows)).most_common(1)[0] if rows else (1, 0)
    return (count / len(rows), width) if width > 1 else (0.0, width)


def guessed_columns(frame: pd.DataFrame, spelling: Spelling) -> list[ColumnGuess]:
    """Return a guess for each column of a table, whose cells may be text."""
    guesses = [_guess(frame[name], spelling) for name in frame.columns]
    whole = {
        own.name: own.gaps == 0 and bool(as_text(frame[own.name]).is_unique) for own in guesses
    }
    named = [own for own in guesses if _NAMES_OF_IDS.fullmatch(own.name)]
    ids = [own for own in named if whole[own.name] and own.kind != "date"]
    ids += [own for own in guesses if whole[own.name] and own.kind in ("text", "words")]
    if ids and len(frame) > 1:
        ids[0].kind, ids[0].codes, ids[0].doubts = "id", [], []
    for own in named:
        if own.kind in ("text", "number", "words") and not whole[own.name]:
            own.doubts.append(
                "its name is that of ids, and some repeat or are empty; a table with a row for "
                "each measurement needs source.pivot"
            )
    return guesses


def _guess(column: pd.Series, spelling: Spelling) -> ColumnGuess:
    name, text = str(column.name), as_text(column)
    words = text.dropna()
    codes = sorted({word for word in words.unique() if is_gap(word)})
    words = words[~words.isin(codes)]
    guess = ColumnGuess(name, "words", len(text) - len(words), codes)
    _kind(guess, column, words, spelling)
    if guess.kind != "words":
        guess.codes = [code for code in guess.codes if code not in GAPS]
    elif own := [code for code in codes if any(map(str.isalpha, code))]:
        guess.doubts.append(
            f"{', '.join(map(repr, own))} may be words as others are: leave them out of "
            "source.na_values then"
        )
    return guess


def _kind(guess: ColumnGuess, column: pd.Series, words: pd.Series, spelling: Spelling) -> None:
    """Say what a column is, and all that follows from it."""
    if not len(words):
        guess.kind = "empty"
        return
    if column.dtype.kind == "M":
        guess.kind = "date"
        return
    if isinstance(column.dtype, pd.CategoricalDtype):
        return
    if words.map(is_date).mean() >= _MOSTLY:  # first: 03.02.2025 is a number with groups of digits
        guess.kind = "date"
        _date_format(guess, words)
        return
    numbers = numbers_of(words, spelling)
    bounds = words[numbers.isna()].map(is_bound).astype(bool)
    share = (numbers.notna().sum() + bounds.sum()) / len(words)
    if share >= _MOSTLY and numbers.notna().any():
        guess.kind, guess.censored = "number", bool(bounds.any())
        _doubt_numbers(guess, numbers.dropna())
        _doubt_spelling(guess, words, numbers)
    elif words.nunique() > min(_MOST_WORDS, max(2, len(words) // 2)):
        guess.kind = "text"


def _doubt_numbers(guess: ColumnGuess, numbers: pd.Series) -> None:
    """Add codes that lie a whole range away from all other numbers, and doubts."""
    coded = [code for code in _CODES if (numbers == code).any()]
    for code in coded:
        rest = numbers[~numbers.isin([own for own in coded if abs(own) >= abs(code)])]
        if len(rest) < _FEW:
            continue
        low, high = float(rest.min()), float(rest.max())
        away = max(high - low, 1.0)
        if code > high + away or code < low - away or (code < 0 <= low):
            guess.codes.append(str(code))
            guess.gaps += int((numbers == code).sum())
    kept = numbers[~numbers.isin([float(code) for code in guess.codes if not is_gap(code)])]
    values = sorted(kept.unique())
    if len(values) == 1:
        guess.doubts.append("it has one value alone; leave it out by source.columns")
    elif len(values) <= _FEW < len(kept) and all(value % 1 == 0 for value in values):
        told = ", ".join(f"{value:g}" for value in values)
        guess.doubts.append(
            f"it holds {told} alone; name it in source.categorical if these are codes"
        )


def _doubt_spelling(guess: ColumnGuess, words: pd.Series, numbers: pd.Series) -> None:
    """Add doubts on how numbers are written: a mark before three digits, and codes such as 007."""
    marked = words[words.str.contains("[.,]")]
    if len(marked) and marked.str.fullmatch(_ONE_GROUP).all():
        guess.doubts.append(
            f"{marked.iloc[0]} is read as {numbers[marked.index[0]]:g}; set source.decimal and "
            "source.thousands if that is wrong"
        )
    if words.str.fullmatch(r"0\d+").any():
        guess.doubts.append(
            "some begin with 0, as codes do; name it in source.categorical if these are codes"
        )


def _date_format(guess: ColumnGuess, words: pd.Series) -> None:
    def fits(written: str) -> float:
        return float(
            pd.to_datetime(words, format=written, errors="coerce", utc=True).notna().mean()
        )

    shares = {written: fits(written) for written in ("ISO8601", *_FORMATS)}
    best = max(shares, key=lambda written: shares[written])  # the first of equals
    if best != "ISO8601":
        guess.date_format = best
        other = best.replace("%d/%m", "%m/%d")
        if other != best and shares[other] == shares[best]:
            guess.doubts.append(f"days may be months: {other} fits as well")
        if "%y" in best:
            guess.doubts.append("years of two digits are 1969 to 2068: 45 is 2045, not 1945")


def keys_of(guesses: list[ColumnGuess], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys of a source that the guesses say, beside and never against those given.

    Where some columns of words or dates are given, the others are added: they are features too.
    """
    id_column = next((own.name for own in guesses if own.kind == "id"), None)
    label, ids = given.get("labels"), given.get("ids", id_column)
    wanted = given.get("columns")
    features = [own for own in guesses if own.name not in (label, ids)]
    kept = [own for own in features if wanted is None or own.name in wanted]

    named = {*given.get("categorical", ()), *given.get("dates", ())}

    def told(key: str, kind: str) -> list[str]:
        guessed = [own.name for own in kept if own.kind == kind and own.name not in named]
        return [*given.get(key, ()), *guessed]

    categorical, dates = told("categorical", "words"), told("dates", "date")
    emptied = [own for own in kept if own.censored and limits_as(given, own.name) == "missing"]
    kept = [
        own
        for own in kept
        if wanted is not None or own.kind == "number" or own.name in (*categorical, *dates)
    ]
    found: dict[str, Any] = {
        "ids": ids,
        "columns": [own.name for own in kept] if len(kept) < len(features) else None,
        "categorical": categorical,
        "dates": dates,
        "date_format": {
            own.name: own.date_format for own in kept if own.date_format and own.name in dates
        },
        "na_values": {own.name: own.codes for own in kept if own.codes},
        "censored": {own.name: "limit" for own in kept if own.censored},
        "missing": "keep" if emptied or any(own.gaps for own in kept) else None,
    }
    merged = {key: found.pop(key) for key in ("categorical", "dates") if found[key]}
    if isinstance(given.get("censored"), Mapping):
        merged["censored"] = {**found["censored"], **given["censored"]}
    return {**{key: value for key, value in found.items() if value}, **given, **merged}


def limits_as(keys: Mapping[str, Any], name: str) -> str:
    """Return what a column's limits such as <30 become: "limit", "half" or "missing"."""
    rule = keys.get("censored", "limit")
    return str(rule if isinstance(rule, str) else rule.get(name, "limit"))
