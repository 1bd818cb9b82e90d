"""The inputs of clusterers: distances in memory, in blocks, or as neighbours, and their order.

In: coordinates or tiles. Out: distances, nearest neighbours, and distances that labels depend on.
"""
