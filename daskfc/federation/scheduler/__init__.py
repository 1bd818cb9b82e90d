"""The scheduler's process: Dask's, behind a guard of its own.

In: graphs of drivers, and what workers say. Out: tasks to the parties that they name. It sees no
content of a message.
"""
