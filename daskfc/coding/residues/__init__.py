"""Numbers modulo primes and 2^k: scales, random streams, masks, shared keys.

In: reals and secrets. Out: integers whose sums and products are exact, and uniform ones that hide
them. All rooms of `daskfc.coding` may import it.
"""
