"""Kernels and graphs made of distances: widths, features, products, filters.

In: distances or samples. Out: kernels whose products need no n × n matrix where memory has no room.
"""
