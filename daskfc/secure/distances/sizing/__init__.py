"""Memory and disk that distances need of each party, computed before anything is sent.

In: numbers of samples, features and clients, and limits. Out: a tile, a route, or a refusal.
"""
