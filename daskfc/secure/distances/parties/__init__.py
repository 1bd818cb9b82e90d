"""Messages and steps of clients and server in a computation of distances.

In: rows, shares, answers. Out: declared messages. No driver is known here.
"""
