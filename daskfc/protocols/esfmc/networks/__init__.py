"""The networks of one view and their training, on JAX; imported by a party that trains.

In: a client's rows and settings. Out: features, clusters and what a round sends.
"""
