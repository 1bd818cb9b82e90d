"""Lagrange coded computing: shares of rows, distances of shares, decoding, checks of answers.

In: rows as residues, and a client's secret. Out: shares that reveal nothing alone, and distances
from enough answers.
"""
