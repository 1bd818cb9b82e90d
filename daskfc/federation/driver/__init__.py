"""The submitter's side: a federation, the calls of steps at its parties, waiting for them.

In: steps that a method asks for. Out: handles, and the messages that are for the caller. Methods
reach it by `Federation`; it imports all rooms above but the authors' own.
"""
