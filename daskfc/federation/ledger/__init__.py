"""The record of every message that left a party: rows, their chain, receipts and counts.

In: messages and their sizes. Out: rows that nobody can change without being seen. Imported by rooms
that send, and by readers of ledgers; it sends nothing.
"""
