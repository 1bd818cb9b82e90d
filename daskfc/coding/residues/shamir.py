"""Secret sharing: any `threshold` shares give a secret back (Shamir 1979)."""

from collections.abc import Mapping

from daskfc.coding.residues.streams import KeyStream
from daskfc.errors import DecodingError, InvalidInput

_PRIME = 2**256 + 297  # the smallest prime above every secret of 32 bytes
SHARE_BYTES = 33


def share_secret(secret: bytes, n_shares: int, threshold: int, stream: KeyStream) -> list[bytes]:
    """Split 32 bytes into shares of 33; fewer than `threshold` reveal nothing about the secret."""
    if len(secret) != 32:
        raise InvalidInput(f"a secret to share must have 32 bytes; got {len(secret)}.")
    if not 1 <= threshold <= n_shares:
        raise InvalidInput(
            f"the threshold of shares must be in [1, {n_shares}], the number of shares; "
            f"got {threshold}."
        )
    # 512 bits reduced modulo a prime of 257: uniform up to 2**-255
    higher = [int.from_bytes(stream.bytes(64), "little") % _PRIME for _ in range(threshold - 1)]
    coefficients = [int.from_bytes(secret, "little"), *higher]
    shares = []
    for point in range(1, n_shares + 1):
        value = 0
        for coefficient in reversed(coefficients):
            value = (value * point + coefficient) % _PRIME
        shares.append(value.to_bytes(SHARE_BYTES, "little"))
    return shares


def combine_shares(shares: Mapping[int, bytes], threshold: int) -> bytes:
    """Return the secret from shares by number, from 0 on; raise DecodingError if few or wrong."""
    if len(shares) < threshold:
        raise DecodingError(
            f"a secret needs {threshold} of its shares; got {len(shares)}. "
            "Too many parties have left."
        )
    points = {number + 1: int.from_bytes(share, "little") for number, share in shares.items()}
    used = sorted(points)[:threshold]
    secret = _value_at(0, used, points)
    consistent = all(_value_at(point, used, points) == value for point, value in points.items())
    if secret >= 1 << 256 or not consistent:
        raise DecodingError("the shares of a secret contradict each other; one of them is wrong.")
    return secret.to_bytes(32, "little")


def _value_at(x: int, used: list[int], points: Mapping[int, int]) -> int:
    """Return the value at x of the polynomial through some points (Lagrange)."""
    total = 0
    for i in used:
        above, below = 1, 1
        for j in used:
            if j != i:
                above = above * (x - j) % _PRIME
                below = below * (i - j) % _PRIME
        total += points[i] * above * pow(below, -1, _PRIME)
    return total % _PRIME
