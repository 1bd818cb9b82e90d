"""What clusterers read: distances in memory, by blocks, or as neighbours, and their order.

In: coordinates or tiles. Out: distances, the nearest of each sample, and which of them decide
labels. No clusterer is known here.
"""
