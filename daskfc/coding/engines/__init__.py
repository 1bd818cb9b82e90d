"""Exact products of matrices of residues, each by the fastest library that is there.

In: residues as bytes. Out: their products modulo a prime.
"""
