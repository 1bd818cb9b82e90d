"""Algorithms on blocks of distances, of which memory holds a few at a time.

In: a view by blocks. Out: medoids, merges and exemplars as those of the way in memory.
"""
