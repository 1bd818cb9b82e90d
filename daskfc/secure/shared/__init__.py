"""Computing on replicated shares of three parties; the proofs are in docs/shares.md.

In come shares, which `cut_numbers` made at the sites, and a `Party`; out go shares of results, or
what a program opens. Programs are generators that know no federation. This room imports `coding`,
`checks` and `errors` alone; all rooms of `secure` may import it.
"""

from daskfc.secure.shared.comparison import at_most, bits_of, less, negative, shifted, to_numbers
from daskfc.secure.shared.costs import Cost
from daskfc.secure.shared.dbscan import DensityClusters
from daskfc.secure.shared.lloyd import Lloyd
from daskfc.secure.shared.pairs import Bits, Numbers, cut_bits, cut_numbers, put_together
from daskfc.secure.shared.party import Party, Program, together
from daskfc.secure.shared.products import both, inner, matmul, multiply, open_to, opened
from daskfc.secure.shared.seeding import Seeding
from daskfc.secure.shared.selection import chosen, one_hot, smallest

__all__ = [
    "Bits",
    "Cost",
    "DensityClusters",
    "Lloyd",
    "Numbers",
    "Party",
    "Program",
    "Seeding",
    "at_most",
    "bits_of",
    "both",
    "chosen",
    "cut_bits",
    "cut_numbers",
    "inner",
    "less",
    "matmul",
    "multiply",
    "negative",
    "one_hot",
    "open_to",
    "opened",
    "put_together",
    "shifted",
    "smallest",
    "to_numbers",
    "together",
]
