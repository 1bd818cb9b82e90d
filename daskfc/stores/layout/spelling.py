"""Normalise the words of columns: one spelling for equal numbers, and the site's own mapping.

Programs write 1 as 1.0 if a cell of the column is empty, which would make two words of one. So a
word that is a plain decimal number becomes that number: 1, 1.0 and 1.00 are ``1``, and .50 is
``0.5``. A plain number has digits, at most one decimal mark and at most a minus before: codes with
leading zeros (007), exponents (1E5) or a plus (+1) stay as they are.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

WordMap: TypeAlias = Mapping[str, "str | Mapping[str, str]"]

_NUMBER = re.compile(r"(-?)(0|[1-9][0-9]*)?(?:\.([0-9]*))?")
_NAMED = 6  # ours: words of one client in a sentence


def plain_word(word: str, decimal: str = ".", thousands: str | None = None) -> str:
    """Return a word in NFC, without blanks around it, and a plain number in its one spelling.

    So " m" is "m", "1.0" is "1", ".5" is "0.5", but "007", "1E5" and "+1" stay. `decimal` is
    accepted beside a point, and `thousands` groups digits by three.
    """
    word = unicodedata.normalize("NFC", word).strip()
    number = word
    if thousands is not None:
        grouped = rf"-?[1-9][0-9]{{0,2}}(?:{re.escape(thousands)}[0-9]{{3}})+(?![0-9]).*"
        if re.fullmatch(grouped, word):
            number = number.replace(thousands, "")
    found = _NUMBER.fullmatch(number.replace(decimal, "."))
    if found is None or not (found[2] or found[3]):
        return word
    whole, fraction = found[2] or "0", (found[3] or "").rstrip("0")
    sign = found[1] if whole != "0" or fraction else ""
    return f"{sign}{whole}.{fraction}" if fraction else f"{sign}{whole}"


@dataclass(frozen=True)
class Spelling:
    """How one file spells words; `words` maps words to others, or columns to such mappings."""

    words: WordMap = field(default_factory=dict)
    decimal: str = "."
    thousands: str | None = None

    def of(self, word: str, column: str) -> str:
        """Return the normalised spelling of a column's word."""
        plain = plain_word(word, self.decimal, self.thousands)
        own = self.words.get(column)
        for table in (own if isinstance(own, Mapping) else {}, self.words):
            alike = (key for key in table if plain_word(key) == plain)
            for key in (word.strip(), *alike):  # first as it is in the file
                if isinstance(to := table.get(key), str):
                    return plain_word(to)
        return plain


def renumbered(
    block: np.ndarray,
    columns: Sequence[str],
    own: Mapping[str, Sequence[str]],
    words: Mapping[str, Sequence[str]],
) -> np.ndarray:
    """Return rows with each word's number in `own` replaced by its number in `words`.

    A word that is not in `words` gets the number after its last; NaN stays. The type may grow.
    """
    if all(tuple(own[name]) == tuple(words[name]) for name in words):
        return block
    most = max(map(len, words.values()))  # a byte may not hold the numbers of more words
    found = block.astype(np.promote_types(block.dtype, np.min_scalar_type(most)))
    for name, wanted in words.items():
        column = found[:, list(columns).index(name)]
        number = {word: i for i, word in enumerate(wanted)}
        table = np.array([number.get(word, len(number)) for word in own[name]], dtype=found.dtype)
        there = ~np.isnan(column)
        column[there] = table[column[there].astype(int)]
    return found


def word_map(value: Any, of_columns: bool = True) -> Any:
    """Return a file's mapping of words, with numbers as text; ValueError for other values."""
    if not isinstance(value, Mapping):
        raise ValueError("must map words to words, or columns to such mappings")
    return {
        _text(key): word_map(to, of_columns=False)
        if of_columns and isinstance(to, Mapping)
        else _text(to)
        for key, to in value.items()
    }


def _text(value: Any) -> str:
    if (
        isinstance(value, bool)
        or not isinstance(value, str | int | float)
        or not f"{value}".strip()
    ):
        raise ValueError(
            "must map words to words; write 'yes', 'no' and other words that YAML reads otherwise "
            "in quotes"
        )
    return str(value)


def words_apart(
    held: Mapping[str, Mapping[str, Collection[str]]], *, owners: bool = True
) -> list[str]:
    """Return sentences on words of columns that differ only in case, or that only one client has.

    Clients with the same columns of words are compared; without `owners` no client is named.
    """
    groups: dict[tuple[str, ...], dict[str, Mapping[str, Collection[str]]]] = {}
    for client, columns in held.items():
        groups.setdefault(tuple(columns), {})[client] = columns
    told: list[str] = []
    for names, clients in groups.items():
        for name in names:
            found: dict[str, list[str]] = {}
            for client, columns in clients.items():
                for word in columns[name]:
                    found.setdefault(word, []).extend([client] if owners else [])
            told += _apart(name, found, len(clients))
    return told


def _apart(column: str, owners: Mapping[str, list[str]], n_clients: int) -> list[str]:
    """Return the sentences on one column."""
    told, alike = [], dict[str, list[str]]()
    for word in sorted(owners):
        alike.setdefault(word.casefold(), []).append(word)
    if unlike := [word for words in alike.values() if len(words) > 1 for word in words]:
        told.append(
            f"words of column {column!r} differ only in case: {_listed(unlike, owners)}. Map one "
            "to the other by 'words' in the storage file."
        )
    alone = [word for word in sorted(owners) if len(owners[word]) == 1 and word not in unlike]
    if alone and n_clients > 1:
        told.append(
            f"words that one client alone has, in column {column!r}: {_listed(alone, owners)}. If "
            "others write them another way, map them by 'words' in the storage file."
        )
    return told


def _listed(words: Collection[str], owners: Mapping[str, list[str]]) -> str:
    groups: dict[tuple[str, ...], list[str]] = {}
    for word in words:
        groups.setdefault(tuple(owners[word]), []).append(word)
    parts = []
    for clients, own in groups.items():
        more = f" and {len(own) - _NAMED} more" if len(own) > _NAMED else ""
        whose = f" ({', '.join(clients)})" if clients else ""
        parts.append(f"{', '.join(map(repr, own[:_NAMED]))}{more}{whose}")
    return ", ".join(parts)
