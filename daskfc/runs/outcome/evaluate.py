"""Score labels against true labels, which the clients keep apart from their data."""

import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from daskfc.errors import InvalidInput, PolicyRefused
from daskfc.federation import Federation, Message, array
from daskfc.federation.identity.pseudonyms import stands_for
from daskfc.federation.messages.texts import text_arrays, texts_in
from daskfc.metrics import all_metrics
from daskfc.site import RunRequest
from daskfc.stores import ClientStore
from daskfc.stores.layout.spelling import plain_word

_WHOLE = re.compile(r"0|-?[1-9][0-9]*")  # 007 may be 7, or another class

_CLASSES = 40  # ours: with more classes or clusters no table of them is made


class EvaluationLabels(
    Message,
    route="client → caller",
    reveals="evaluation only: to the caller the true label of every sample",
):
    """One client's true labels, none or in its store's order: numbers, or indices of words."""

    labels: np.ndarray = array("sample", dtype="int64")
    id_bytes: np.ndarray = array("byte", dtype="uint8")
    id_ends: np.ndarray = array("id", dtype="int64")
    class_bytes: np.ndarray = array("class byte", dtype="uint8")
    class_ends: np.ndarray = array("class", dtype="int64")

    def sample_ids(self) -> np.ndarray:
        """Return the sample ids as an array of str, ``(sample,)``."""
        return np.array(texts_in(self.id_bytes, self.id_ends), dtype=str)

    def words(self) -> np.ndarray | None:
        """Return each sample's class as a word, ``(sample,)`` str; None for labels in numbers."""
        classes = texts_in(self.class_bytes, self.class_ends)
        return np.array([plain_word(word) for word in classes])[self.labels] if classes else None


@stands_for(EvaluationLabels)
class PseudonymousTruth(
    EvaluationLabels,
    reveals="evaluation only: to the caller the true label of every sample, under a pseudonym",
):
    """The same with a pseudonym in place of each id."""


def evaluation_labels(data: ClientStore) -> EvaluationLabels:
    """Return a client's `EvaluationLabels`, int64 ``(n_samples,)``, or ``(0,)`` without labels."""
    labels = data.labels()
    if labels is None:
        return EvaluationLabels(np.zeros(0, dtype=np.int64), *text_arrays(()), *text_arrays(()))
    ids, classes = text_arrays(data.sample_ids()), text_arrays(data.classes or ())
    return EvaluationLabels(np.asarray(labels, dtype=np.int64), *ids, *classes)


@dataclass(frozen=True)
class Truth:
    """The true labels ``(sample,)`` of a result's samples, or the reason why there are none."""

    labels: np.ndarray | None
    missing: str = ""
    classes: tuple[str, ...] = ()


NO_METRICS = Truth(None, missing="the pipeline asks for no metrics.")


def joined(parts: Mapping[str, EvaluationLabels]) -> Truth:
    """Join the clients' true labels, by words where there are words, or say why it cannot be."""
    without = [name for name, part in parts.items() if not len(part.labels)]
    if without:
        lack = "lacks" if len(without) == 1 else "lack"
        return Truth(None, f"{_clients(without)} {lack} true labels.")
    words = {name: part.words() for name, part in parts.items()}
    if all(own is None for own in words.values()):
        return Truth(np.concatenate([part.labels for part in parts.values()]))
    numbers = [name for name, own in words.items() if own is None]
    told = [
        own if own is not None else parts[name].labels.astype(str) for name, own in words.items()
    ]
    every = np.concatenate(told)
    if numbers and not all(_WHOLE.fullmatch(word) for word in np.unique(every)):
        named = [name for name in words if name not in numbers]
        return Truth(
            None,
            f"the true labels of {_clients(numbers)} are numbers and those of {_clients(named)} "
            "words. Write one of the stores again with labels as the other has them.",
        )
    if alike := _differ_in_case(dict(zip(words, told, strict=True))):
        return Truth(
            None,
            f"the true labels of {_clients(alike)} are words that differ in case alone, and no "
            "client has both. Write one of the stores again with labels as the others have them.",
        )
    classes, labels = np.unique(every, return_inverse=True)
    return Truth(labels.astype(np.int64), classes=tuple(classes.tolist()))


def _differ_in_case(words: Mapping[str, np.ndarray]) -> list[str]:
    """Return clients that write one word in several ways, each in one of them; none if none do."""
    owners: dict[str, dict[str, list[str]]] = {}
    for name, own in words.items():
        for word in np.unique(own).tolist():
            owners.setdefault(word.casefold(), {}).setdefault(word, []).append(name)
    for spelt in owners.values():
        clients = [name for own in spelt.values() for name in own]
        if len(spelt) > 1 and len(set(clients)) == len(clients):
            return sorted(clients)
    return []


def _clients(names: Sequence[str]) -> str:
    return f"client{'s' * (len(names) > 1)} {', '.join(map(repr, names))}"


def true_labels(federation: Federation, like: xr.DataArray, *, asked: bool = True) -> Truth:
    """Ask the clients for the true labels of ``like``, ``(sample,)`` with client and sample_id.

    That sites refuse is told to a caller who `asked` for scores by naming metrics.
    """
    # counted apart from any method's messages
    try:
        federation.start_run(
            uuid.uuid4().hex,
            random_state=0,
            workspace=federation.workspace,
            request=RunRequest("labels"),
        )
    except PolicyRefused as error:
        return Truth(None, missing=str(error)) if asked else NO_METRICS
    owners = like["client"].to_numpy().astype(str)
    named = [client for client in federation.clients if (owners == client).any()]
    everyone = len(named) == len(federation.clients)
    parts: Mapping[str, Any] = federation.publish(
        evaluation_labels, party="clients" if everyone else named
    )
    truth = joined(parts)
    if truth.labels is None:
        return truth
    sizes = [len(part.labels) for part in parts.values()]
    wanted = like["sample_id"].to_numpy().astype(str)
    labels = np.empty(len(owners), dtype=np.int64)
    for client, own in zip(parts, np.split(truth.labels, np.cumsum(sizes)[:-1]), strict=True):
        # of a sample that several clients have, only the first client's label is used
        by_id = pd.Series(own, index=parts[client].sample_ids())
        labels[owners == client] = by_id.loc[wanted[owners == client]]
    return Truth(labels, classes=truth.classes)


def score(
    truth: np.ndarray, labels: Mapping[str, Sequence[np.ndarray]], metrics: Sequence[str]
) -> dict[str, dict[str, dict[str, float]]]:
    """Return ``{method: {metric: {"mean": ..., "std": ...}}}`` over labels ``(sample,)``."""
    table: dict[str, dict[str, dict[str, float]]] = {}
    for method, runs in labels.items():
        for found in runs:
            if len(found) != len(truth):
                raise InvalidInput(
                    f"{method} labelled {len(found)} samples of {len(truth)}; the two must agree."
                )
        each = [all_metrics(truth, found, metrics) for found in runs]
        table[method] = {
            name: {
                "mean": float(np.mean([one[name] for one in each])),
                "std": float(np.std([one[name] for one in each])),
            }
            for name in metrics
        }
    return table


def confusion_of(truth: Truth, found: np.ndarray) -> dict[str, Any]:
    """Count classes (rows) by cluster; empty beyond 40 of either, which may identify samples."""
    if truth.labels is None or not len(found):
        return {}
    classes, rows = np.unique(truth.labels, return_inverse=True)
    clusters, columns = np.unique(found, return_inverse=True)
    if max(len(classes), len(clusters)) > _CLASSES:
        return {}
    counts = np.zeros((len(classes), len(clusters)), dtype=np.int64)
    np.add.at(counts, (rows, columns), 1)
    return {
        "classes": [truth.classes[c] if truth.classes else str(c) for c in classes.tolist()],
        "clusters": ["noise" if c < 0 else str(c) for c in clusters.tolist()],
        "counts": counts.tolist(),
    }
