"""A page of counts for Prometheus, at an address chosen when a side is started."""

import importlib.util
import re
import socket
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tornado.httpserver import HTTPServer
from tornado.web import Application, RequestHandler

from daskfc.errors import ClusterError, InvalidInput

_IDLE_S = 15.0
_PLACE = re.compile(r"(?P<host>[^\s/]+):(?P<port>\d{1,5})")


@dataclass(frozen=True)
class Family:
    """Metrics of one name (without a counter's ``_total``): samples are (labels, number)."""

    name: str
    kind: str
    about: str
    samples: Sequence[tuple[Mapping[str, str], float]]


def _place(address: str) -> tuple[str, int]:
    found = _PLACE.fullmatch(address)
    if found is None or not 0 < int(found["port"]) < 65536:
        raise InvalidInput(
            "metrics need an address of this machine with a port, such as 127.0.0.1:9100; got "
            f"{address!r}. Correct it."
        )
    return found["host"].strip("[]"), int(found["port"])


def check_metrics(address: str) -> None:
    """Refuse an address at which metrics cannot be served, or a missing Prometheus library."""
    host, port = _place(address)
    if importlib.util.find_spec("prometheus_client") is None:
        raise InvalidInput(
            "metrics need prometheus-client, which is not installed. Install daskfc[metrics], or "
            "leave them off."
        )
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise ClusterError(
                f"metrics cannot be told at {address} ({error.strerror}). Choose an address of "
                "this machine and a port that is free."
            ) from None


def serve_metrics(address: str, told: Callable[[], Iterable[Family]]) -> HTTPServer:
    """Serve metrics at ``http://ADDRESS/metrics``; `told` is called in the loop at each request."""
    from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    kinds = {"counter": CounterMetricFamily, "gauge": GaugeMetricFamily}

    class Collected:
        def collect(self) -> Iterable[Any]:
            for family in told():
                labels = sorted({name for own, _ in family.samples for name in own})
                made = kinds[family.kind](family.name, family.about, labels=labels)
                for own, number in family.samples:
                    made.add_metric([own[name] for name in labels], number)
                yield made

    registry = CollectorRegistry(auto_describe=False)
    registry.register(Collected())

    class Page(RequestHandler):
        def get(self) -> None:
            self.set_header("Content-Type", CONTENT_TYPE_LATEST)
            self.write(generate_latest(registry))

    pages = Application([("/metrics", Page)], log_function=lambda handler: None)
    server = HTTPServer(pages, idle_connection_timeout=_IDLE_S)
    host, port = _place(address)
    server.listen(port, host)
    return server
