"""Dask's dashboard: tasks, sizes and memory of all parties, for everybody on this machine."""

import importlib.util
import re
from typing import Any

import dask.config

from daskfc.deploy.config.peers import is_loopback
from daskfc.errors import InvalidInput

_OFF = "127.0.0.1:0"
_ROUTES = "distributed.scheduler.http.routes"
_PLACE = re.compile(r".+:\d{1,5}")


def check_dashboard(address: str) -> None:
    """Refuse a dashboard off this machine, without a port, or without Bokeh installed."""
    if not _PLACE.fullmatch(address) or not is_loopback(f"http://{address}"):
        raise InvalidInput(
            "the dashboard asks nobody who he is, so that it may be on this machine alone, such as "
            f"127.0.0.1:8787; got {address!r}."
        )
    if importlib.util.find_spec("bokeh") is None:
        raise InvalidInput(
            "the dashboard needs Bokeh, which is not installed. Install daskfc[dashboard], or "
            "leave the dashboard off."
        )


def dashboard_options(address: str | None) -> dict[str, Any]:
    """Return the options of Dask's scheduler for a dashboard at an address, None for none."""
    return {"dashboard": address is not None, "dashboard_address": address or _OFF}


def dashboard_settings(address: str | None) -> dict[str, Any]:
    """Return Dask's settings for a dashboard, as dotted keys; call it before setting others."""
    return {} if address is None else {_ROUTES: dask.config.get(_ROUTES)}
