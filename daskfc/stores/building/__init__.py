"""Stores made: from sources by a storage file, from arrays at hand, and rows appended.

In: sources or arrays. Out: stores of clients. The command line and the front door import it.
"""
