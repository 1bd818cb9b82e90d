"""A client's store, opened: its rows, prepared rows, labels, and what several have in common.

In: a URL. Out: rows in blocks, and lazy arrays. Parties hold their data by it.
"""
