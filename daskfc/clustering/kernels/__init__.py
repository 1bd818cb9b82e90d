"""Kernels and graphs from distances: widths, features, products, filters.

In: distances or samples. Out: kernels with products that need no n × n matrix in memory.
"""
