"""Coding: Lagrange-coded distances, masks that cancel in sums, Shamir secret sharing."""

from daskfc.coding.codes.decode import reconstruct, reconstruct_wide
from daskfc.coding.codes.evaluate import coded_distances
from daskfc.coding.codes.hiding import HidingPolynomial
from daskfc.coding.codes.lagrange import LagrangeCode
from daskfc.coding.codes.residue_columns import ResidueColumns
from daskfc.coding.codes.verify import find_wrong
from daskfc.coding.codes.warm import warm_up
from daskfc.coding.engines.engines import ENGINES, Engine, Operand, prepare, select_engine
from daskfc.coding.residues.agreement import KeyPair
from daskfc.coding.residues.masks import add_mask, add_pair_masks
from daskfc.coding.residues.modular import BYTE_PRIMES
from daskfc.coding.residues.ring import FixedPoint
from daskfc.coding.residues.scale import (
    GRIDS,
    RESOLVED,
    ResidueSystem,
    choose_residues,
    detect_grids,
    quantise,
)
from daskfc.coding.residues.shamir import SHARE_BYTES, combine_shares, share_secret
from daskfc.coding.residues.streams import KeyStream, SecretKey
from daskfc.coding.residues.wide import WideIntegers

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
