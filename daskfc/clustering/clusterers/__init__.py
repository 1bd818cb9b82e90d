"""The clusterers that a method may be given, each with one contract (`clusterer`).

In: a view, a number of clusters, a seed. Out: labels, and a model that predicts.
"""
