"""k-means of which every opened sum bears noise, the start's too; see `noise` for the sums.

In: rows at the clients. Out: centres at the server, differentially private. `secure.kmeans` opens
it, and nothing else imports it.
"""
