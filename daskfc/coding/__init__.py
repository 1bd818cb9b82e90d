"""Coding: exact distances of coded rows, masks that vanish in sums, secrets cut into shares."""

from daskfc.coding.agreement import KeyPair
from daskfc.coding.decode import reconstruct, reconstruct_wide
from daskfc.coding.engines import ENGINES, Engine, Operand, prepare, select_engine
from daskfc.coding.evaluate import coded_distances
from daskfc.coding.hiding import HidingPolynomial
from daskfc.coding.lagrange import LagrangeCode
from daskfc.coding.masks import add_mask, add_pair_masks
from daskfc.coding.modular import BYTE_PRIMES
from daskfc.coding.residue_columns import ResidueColumns
from daskfc.coding.ring import FixedPoint
from daskfc.coding.scale import (
    GRIDS,
    RESOLVED,
    ResidueSystem,
    choose_residues,
    detect_grids,
    quantise,
)
from daskfc.coding.shamir import SHARE_BYTES, combine_shares, share_secret
from daskfc.coding.streams import KeyStream, SecretKey
from daskfc.coding.verify import find_wrong
from daskfc.coding.warm import warm_up
from daskfc.coding.wide import WideIntegers

__all__ = [
    "BYTE_PRIMES",
    "ENGINES",
    "GRIDS",
    "RESOLVED",
    "SHARE_BYTES",
    "Engine",
    "FixedPoint",
    "HidingPolynomial",
    "KeyPair",
    "KeyStream",
    "LagrangeCode",
    "Operand",
    "ResidueColumns",
    "ResidueSystem",
    "SecretKey",
    "WideIntegers",
    "add_mask",
    "add_pair_masks",
    "choose_residues",
    "coded_distances",
    "combine_shares",
    "detect_grids",
    "find_wrong",
    "prepare",
    "quantise",
    "reconstruct",
    "reconstruct_wide",
    "select_engine",
    "share_secret",
    "warm_up",
]
