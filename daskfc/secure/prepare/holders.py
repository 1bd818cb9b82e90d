"""Agreed words that only one client has: which client, or only how many words.

The caller learns who has a word where every client's site allows it (``words: allow`` in its
policy). From some clients' words those of the others would follow; so if one site does not allow
it, no client reports its words, and the caller gets a number for each column, from a masked sum.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from daskfc.federation import Federation
from daskfc.federation.party.site_rules import FREE, SiteRules
from daskfc.federation.steps.rules import takes
from daskfc.secure.prepare.before import no_weights
from daskfc.secure.prepare.messages import LoneWords, OwnWords, WordsLeave
from daskfc.secure.sums import Aggregation, Total
from daskfc.stores import ClientStore
from daskfc.stores.layout.spelling import words_apart
from daskfc.stores.store.fitted_steps import FittedStep
from daskfc.stores.store.prepared import PreparedStore


def words_of_one(
    federation: Federation,
    summing: Aggregation,
    so_far: Sequence[FittedStep],
    words: Mapping[str, Sequence[str]],
    clients: tuple[str, ...],
) -> list[str]:
    """Return warnings of words that only one client has, or that differ only in case.

    The last step so far must be the one that holds the words.
    """
    everyone = list(clients)
    leave = federation.publish(may_be_told, party=everyone)
    if all(one.told for one in leave.values()):
        own = federation.publish(own_words, so_far, party=everyone)
        listed = [(name, word) for name, of_column in words.items() for word in of_column]
        return words_apart(
            {
                client: {
                    name: [word for (column, word), has in pairs if column == name and has]
                    for name in words
                }
                for client in clients
                for pairs in [list(zip(listed, own[client].held.tolist(), strict=True))]
            }
        )
    total = summing.sum(federation.on_clients(words_held, so_far, clients=clients), max_abs=1.0)
    sizes = tuple(len(of_column) for of_column in words.values())
    alone = federation.publish(lone_words, total, sizes).counts.tolist()
    told = words_apart({"": words}, owners=False)
    for (name, own_list), count in zip(words.items(), alone, strict=True):
        if count:
            told.append(
                f"one client alone has {count} of the {len(own_list)} words of column {name!r}; "
                "which, its site does not tell. If others write them another way, map them by "
                "'words' in the storage file."
            )
    return told


def may_be_told(site: SiteRules = FREE) -> WordsLeave:
    """Report whether the site lets the caller know which words its samples have."""
    return WordsLeave(int(site.tells_words))


@takes(so_far=no_weights)
def own_words(data: ClientStore, so_far: Sequence[FittedStep], site: SiteRules = FREE) -> OwnWords:
    """Report which of the agreed words the client's samples have."""
    site.check_words()
    return OwnWords(_held(data, so_far))


@takes(so_far=no_weights)
def words_held(data: ClientStore, so_far: Sequence[FittedStep]) -> np.ndarray:
    """Return 1 for each word that the client's samples have, -1 for the others, (1, words).

    So the magnitude is 1 in any case: a refusal by a bound below it would tell who has a word.
    """
    return np.where(_held(data, so_far), 1.0, -1.0)[None]


def lone_words(total: Total, sizes: tuple[int, ...]) -> LoneWords:
    """Report the number of words of each column that only one client has."""
    alone = np.rint((total.values[0] + len(total.terms)) / 2.0) == 1
    ends = np.cumsum(sizes)
    counts = [int(alone[end - size : end].sum()) for size, end in zip(sizes, ends, strict=True)]
    return LoneWords(np.array(counts, dtype=np.int64))


def _held(data: ClientStore, so_far: Sequence[FittedStep]) -> np.ndarray:
    """Return whether samples have each word, column by column, (words,) bool."""
    store = PreparedStore.of(data, so_far)
    listed = [(store.feature_names.index(name), len(w)) for name, w in store.categories.items()]
    found = np.zeros(sum(size for _, size in listed), dtype=bool)
    for _, block in store.blocks():
        found |= np.concatenate(
            [(block[:, [at]] == np.arange(size)).any(axis=0) for at, size in listed]
        )
    return found
