"""Rehearsals of runs without parties: sizes of messages, memory and time, before anything runs.

In: stores' sizes, and a method's own wiring. Out: rows as of a ledger. `daskfc plan` and the
stand-ins beside methods' steps import it.
"""
