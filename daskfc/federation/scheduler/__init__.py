"""The scheduler's process: Dask's, behind a guard of its own.

In: graphs of drivers, and reports of workers. Out: tasks to the parties that the graphs name. It
sees no content of a message.
"""
