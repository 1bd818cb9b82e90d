"""The clusterers that methods use, all with the interface of `clusterer.Clusterer`.

In: a view, a number of clusters, a seed. Out: labels, and a model that predicts.
"""
