"""How words of columns are written: equal numbers one way, and as a mapping of the site says.

Programs write 1 as 1.0 where a cell of the column is empty, and then one word is two. So a word
that is a plain decimal number is the number: 1, 1.0 and 1.00 are ``1``, and .50 is ``0.5``. Plain
is what has digits, at most one decimal mark and at most a minus before: codes with leading zeros
(007), exponents (1E5) or a plus (+1) stay the words that they are.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

__all__ = [
    "Spelling",
    "WordMap",
    "as_spelt",
    "categories_of",
    "plain_word",
    "renumbered",
    "spelt_alike",
    "word_map",
    "words_apart",
]

WordMap: TypeAlias = Mapping[str, "str | Mapping[str, str]"]

_NUMBER = re.compile(r"(-?)(0|[1-9][0-9]*)?(?:\.([0-9]*))?")
_NAMED = 6  # ours: words of one client in a sentence


def plain_word(word: str, decimal: str = ".", thousands: str | None = None) -> str:
    """Return a word without blanks around it, and as one number is written if it is a plain one.

    Parameters
    ----------
    word : str
        As a cell has it. Accents that are written as letters of their own are joined (NFC).
    decimal : str
        What begins the fraction of a number in the file, beside a point.
    thousands : str, optional
        What groups digits by three there.

    Examples
    --------
    >>> from daskfc.stores.spelling import plain_word
    >>> [plain_word(word) for word in (" m", "1.0", "1.50", ".5", "-0.0", "007", "1E5", "+1")]
    ['m', '1', '1.5', '0.5', '0', '007', '1E5', '+1']
    >>> plain_word("1.250,0", decimal=",", thousands=".")
    '1250'
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
    """How the words of one file are written.

    Parameters
    ----------
    words : mapping
        What is written in place of a word; under the name of a column a mapping of its words.
    decimal, thousands : str
        See `plain_word`.

    Examples
    --------
    >>> from daskfc.stores.spelling import Spelling
    >>> spelling = Spelling({"M": "male", "fbs": {"1": "high"}})
    >>> spelling.of("M ", "sex"), spelling.of("1.0", "fbs"), spelling.of("1.0", "ca")
    ('male', 'high', '1')
    """

    words: WordMap = field(default_factory=dict)
    decimal: str = "."
    thousands: str | None = None

    def of(self, word: str, column: str) -> str:
        """Return what a word of a column is written as."""
        plain = plain_word(word, self.decimal, self.thousands)
        own = self.words.get(column)
        for table in (own if isinstance(own, Mapping) else {}, self.words):
            alike = (key for key in table if plain_word(key) == plain)
            for key in (word.strip(), *alike):  # first as it is in the file
                if isinstance(to := table.get(key), str):
                    return plain_word(to)
        return plain


def spelt_alike(words: Mapping[str, Sequence[str]]) -> dict[str, tuple[str, ...]]:
    """Return lists of words, by column, with each as `plain_word` writes it.

    Examples
    --------
    >>> from daskfc.stores.spelling import spelt_alike
    >>> spelt_alike({"stage": ["1", "1.0", "2"]})
    {'stage': ('1', '1', '2')}
    """
    return {str(name): tuple(map(plain_word, own)) for name, own in words.items()}


def categories_of(attributes: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """Return the words of a store's columns, each once.

    Parameters
    ----------
    attributes : mapping
        Of the store.

    Examples
    --------
    >>> from daskfc.stores.spelling import categories_of
    >>> categories_of({"categories": {"stage": ["1", "1.0", "2"]}})
    {'stage': ('1', '2')}
    """
    alike = spelt_alike(attributes.get("categories", {}))
    return {name: tuple(dict.fromkeys(own)) for name, own in alike.items()}


def renumbered(
    block: np.ndarray,
    columns: Sequence[str],
    own: Mapping[str, Sequence[str]],
    words: Mapping[str, Sequence[str]],
) -> np.ndarray:
    """Return rows with the numbers that words have in other lists.

    Parameters
    ----------
    block : ndarray of shape (rows, n_columns)
        NaN where a cell is empty.
    columns : sequence of str
        Their names.
    own, words : mapping of str to sequence of str
        The words that the rows' numbers stand for, and those that they shall stand for; a word that
        is not among the latter gets the number after their last.

    Returns
    -------
    ndarray of shape (rows, n_columns)
        Of the block's type, or of a larger one that holds all numbers.

    Examples
    --------
    >>> import numpy as np
    >>> from daskfc.stores.spelling import renumbered
    >>> renumbered(np.array([[0.0], [1.0]]), ["a"], {"a": ["x", "z"]}, {"a": ["w", "z"]}).ravel()
    array([2., 1.])
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


def as_spelt(rows: np.ndarray, attributes: Mapping[str, Any]) -> np.ndarray:
    """Return rows of a store as float64, with one number for words that are one, as 1 and 1.0.

    Stores of an earlier daskfc may have both.

    Parameters
    ----------
    rows : ndarray of shape (rows, n_features)
        As they are stored.
    attributes : mapping
        Of the store.

    Examples
    --------
    >>> import numpy as np
    >>> from daskfc.stores.spelling import as_spelt
    >>> kept = {"feature_names": ["a"], "categories": {"a": ["1", "1.0", "2"]}}
    >>> as_spelt(np.array([[0.0], [1.0], [2.0]]), kept).ravel()
    array([0., 0., 1.])
    """
    rows = np.ascontiguousarray(rows, dtype=np.float64)
    own = spelt_alike(attributes.get("categories", {}))
    return renumbered(rows, attributes["feature_names"], own, categories_of(attributes))


def word_map(value: Any, of_columns: bool = True) -> Any:
    """Return a mapping of words as a file has it, with text in place of YAML's numbers.

    Raises
    ------
    ValueError
        For what is neither a word nor a number.

    Examples
    --------
    >>> from daskfc.stores.spelling import word_map
    >>> word_map({1: "male", "fbs": {1.0: "high"}})
    {'1': 'male', 'fbs': {'1.0': 'high'}}
    """
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
    """Say which words of columns differ only in case, and which one client alone has.

    Parameters
    ----------
    held : mapping of str to mapping of str to collection of str
        The words of every client's columns; clients with the same columns of words are compared.
    owners : bool
        Whether clients are named.

    Returns
    -------
    list of str
        Sentences with words and clients' names; a word is in one of them.

    Examples
    --------
    >>> from daskfc.stores.spelling import words_apart
    >>> held = {"a": {"sex": ["f", "m"]}, "b": {"sex": ["f", "m"]}, "c": {"sex": ["F", "x"]}}
    >>> for sentence in words_apart(held):
    ...     print(sentence)
    words of column 'sex' differ only in case: 'F' (c), 'f' (a, b). Map one to the other by \
'words' in the storage file.
    words that one client alone has, in column 'sex': 'x' (c). If others write them another way, \
map them by 'words' in the storage file.
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
