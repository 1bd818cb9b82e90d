"""Federated k-means written again, slowly, row by row: what follows from centres that are told.

The server's search for centres is not written again, as any may be told; what counts, groups and
sums they lead to is, by the rules of the method's page, for clients on one machine.
"""

from collections import Counter
from itertools import combinations
from typing import NamedTuple

import numpy as np

LEAST = 5


class Round(NamedTuple):
    """Counts by group and centre, each row's group and nearest centre, and where it counts."""

    counts: Counter
    groups: list
    near: list
    kept: list


def nearest(row, centers):
    return min(range(len(centers)), key=lambda j: (float(np.sum((row - centers[j]) ** 2)), j))


def homes(counts):
    """Return the cluster of each group's largest part, the first of equal ones."""
    found = {}
    for (group, j), n in sorted(counts.items()):
        if group not in found or n > counts[group, found[group]]:
            found[group] = j
    return found


def rounds(rows, told):
    """Return what each list of centres leads to; a group is named by its way through the rounds."""
    groups, found = [() for _ in rows], []
    for centers in told:
        near = [nearest(row, centers) for row in rows]
        counts = Counter(zip(groups, near, strict=True))
        home = homes(counts)
        kept = [j if counts[g, j] >= LEAST else home[g] for g, j in zip(groups, near, strict=True)]
        found.append(Round(counts, groups, near, kept))
        parts = Counter(g for g, _ in set(zip(groups, kept, strict=True)))
        groups = [(*g, j) if parts[g] > 1 else g for g, j in zip(groups, kept, strict=True)]
    return found


def last_labels(one, k):
    """Return where rows count at the end: five cross every cut between clusters, or none do."""
    home = homes(one.counts)
    places = list(zip(one.groups, one.near, strict=True))
    ways = [
        frozenset({home[g], j}) if j != home[g] and one.counts[g, home[g]] >= LEAST else None
        for g, j in places
    ]
    edges = Counter(way for way in ways if way)
    while weak := [way for way in edges if cut(edges, *way, k) < LEAST]:
        edges = Counter({way: n for way, n in edges.items() if way not in weak})
    return [j if way in edges else home[g] for (g, j), way in zip(places, ways, strict=True)]


def cut(edges, one, other, k):
    """Return the fewest rows that cross from a set of clusters with `one` to the rest, `other`."""
    rest = [j for j in range(k) if j not in (one, other)]
    sides = [{one, *some} for n in range(len(rest) + 1) for some in combinations(rest, n)]
    return min(sum(n for way, n in edges.items() if len(way & side) == 1) for side in sides)


def means(rows, labels, before):
    """Return the mean of each cluster's rows; an empty one keeps its centre."""
    found = np.array(before, dtype=float)
    for j in range(len(before)):
        own = [row for row, label in zip(rows, labels, strict=True) if label == j]
        if own:
            found[j] = sum(own) / len(own)
    return found
