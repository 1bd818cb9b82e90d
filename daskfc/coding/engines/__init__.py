"""Exact products of matrices of residues, by the fastest available library.

In: residues as bytes. Out: their products modulo a prime.
"""
