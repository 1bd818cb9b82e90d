"""The networks of one view and their training, on JAX; imported only where they are used.

In: a client's rows and settings. Out: features, assignments and the state of the networks.
"""
