"""Bandwidths as people write them."""

from dask.utils import parse_bytes

from daskfc.errors import InvalidInput

__all__ = ["parse_bandwidth"]


def parse_bandwidth(text: str) -> float:
    """Return bytes a second.

    Parameters
    ----------
    text : str
        Such as "100Mbit", "1Gbit/s" or "12.5MB/s".

    Raises
    ------
    InvalidInput
        For anything else.

    Examples
    --------
    >>> from daskfc.deploy.bandwidth import parse_bandwidth
    >>> parse_bandwidth("100Mbit"), parse_bandwidth("1 MB/s")
    (12500000.0, 1000000.0)
    """
    plain = str(text).strip().removesuffix("/s").removesuffix("ps").strip()
    bits = plain.lower().endswith(("bit", "bits"))
    number = plain.lower().removesuffix("s").removesuffix("bit") + "B" if bits else plain
    try:
        found = float(parse_bytes(number)) / (8 if bits else 1) if plain[:1].isdigit() else 0.0
    except (TypeError, ValueError):
        found = 0.0
    if not 0 < found < float("inf"):
        raise InvalidInput(
            f"a bandwidth must be bits or bytes a second, such as 100Mbit or 12MB; got {text!r}."
        )
    return found
