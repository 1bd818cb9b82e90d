"""A client or the server, apart from Dask: what it keeps, and what it lets a submitter do.

In: calls of steps. Out: messages that its rules let leave, and rows of its ledger. It knows neither
the worker that it runs in nor the driver.
"""
