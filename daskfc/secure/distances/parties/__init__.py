"""What clients and the server do in a run of distances: their messages and their steps.

In: rows, shares, answers. Out: declared messages. No driver is known here.
"""
