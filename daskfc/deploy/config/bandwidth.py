"""Bandwidths as people write them."""

import math
import re

from daskfc.errors import InvalidInput

_POWERS = {"": 0, "k": 3, "m": 6, "g": 9, "t": 12}
_WRITTEN = re.compile(
    r"([0-9]+\.?[0-9]*|\.[0-9]+)\s*(?:([kKMGT]|[mgt](?=bit|bps))?(bits?|b|B|bytes?)(?:/s|ps)?)?",
    re.ASCII,
)


def parse_bandwidth(text: str) -> float:
    """Return bytes a second of a text such as "100Mbit" or "12.5MB/s", or of bytes."""
    found = _WRITTEN.fullmatch(str(text).strip())
    if found is None:
        raise InvalidInput(
            "a bandwidth must be bits or bytes a second, such as 100Mbit or 12MB, with a small b "
            f"for bits and a large one for bytes; got {text!r}."
        )
    number, prefix, unit = found.groups()
    bits = unit in ("b", "bit", "bits")
    bytes_a_second = float(number) * 10.0 ** _POWERS[(prefix or "").lower()] / (8 if bits else 1)
    if not 0 < bytes_a_second < math.inf:
        raise InvalidInput(
            f"a bandwidth must be above 0 and finite, such as 100Mbit; got {text!r}."
        )
    return bytes_a_second
