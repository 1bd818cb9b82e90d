"""Values of a cluster's file, checked: bytes, times, addresses, bandwidths."""

import re
from typing import Annotated, Any

from dask.utils import parse_bytes, parse_timedelta
from pydantic import AfterValidator, BeforeValidator

from daskfc.deploy.config.bandwidth import parse_bandwidth
from daskfc.deploy.config.dashboard import check_dashboard
from daskfc.errors import InvalidInput

ADDRESS = re.compile(r"(tcp|tls|ws|wss)://.+:\d+")
"""What the address of a scheduler looks like."""

# Ours: the 280 MB that plans count for a process, and a tenth more (`daskfc.secure` compares them).
LEAST_MEMORY = 310_000_000
"""Bytes that a limit of memory has at least."""


def _bytes(value: Any) -> int:
    try:
        number = int(parse_bytes(value))
    except (TypeError, ValueError, AttributeError, OverflowError):
        raise ValueError("must be a number of bytes such as 2GB") from None
    if number < LEAST_MEMORY:
        least = f"{LEAST_MEMORY // 1_000_000}MB"
        raise ValueError(f"must be at least {least}, which a worker process needs by itself")
    return number


def _seconds(value: Any) -> float:
    try:
        number = float(parse_timedelta(value))
    except (TypeError, ValueError, LookupError, AttributeError):
        raise ValueError("must be a time such as 60s or 5 minutes") from None
    if not 0 < number < float("inf"):
        raise ValueError("must be a time above 0")
    return number


def _address(value: str) -> str:
    if not ADDRESS.fullmatch(value):
        raise ValueError(
            "must be the address of a Dask scheduler with its port, such as tcp://10.0.0.1:8786 or "
            "tls://10.0.0.1:8786"
        )
    return value


def _dashboard(value: Any) -> str | None:
    if value is None or value is False:
        return None
    if not isinstance(value, str):
        raise ValueError("must be an address of this machine such as 127.0.0.1:8787, or false")
    try:
        check_dashboard(value)
    except InvalidInput as error:
        raise ValueError(str(error)) from None
    return value


def _bandwidth(value: Any) -> float | None:
    if value is None or (isinstance(value, float) and 0 < value < float("inf")):
        return value  # bytes a second, as run.json has it
    try:
        return parse_bandwidth(str(value))
    except InvalidInput as error:  # the sentence for a key names the value anyway
        raise ValueError(str(error).partition("; got ")[0]) from None


Address = Annotated[str, AfterValidator(_address)]
Bandwidth = Annotated[float | None, BeforeValidator(_bandwidth)]
Bytes = Annotated[int, BeforeValidator(_bytes)]
Dashboard = Annotated[str | None, BeforeValidator(_dashboard)]
Seconds = Annotated[float, BeforeValidator(_seconds)]
