"""The ways to compute distances: by blocks of pairs, by columns of landmarks, for new rows.

In: a federation and shares. Out: handles of the server's results. `secure_distances` chooses one.
"""
