"""The record of every message that left a party: rows, their chain, receipts and counts.

In: messages and their sizes. Out: rows that nobody can change without being seen. Imported by what
sends and by whoever reads a ledger; it sends nothing.
"""
