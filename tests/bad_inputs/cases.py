"""Bad inputs as a user would give them, and how each is answered.

`files` are written into an empty folder first; `stores` are written by `write_store`. The numbers
are those of the list of bad inputs that these cases come from.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

__all__ = ["COMMANDS", "RUNS", "Case"]

OMNIFC = "method: OmniFC\nparams: {n_clusters: 3}\n"
IRIS = "source: {dataset: iris}\npartition: {scheme: label-skew, clients: 3, skew: 0.75, seed: 0}\n"
HOSPITALS = {f"{name}.csv": "sex,age\nf,61\nm,\n,58\n" for name in "abc"}
KINDS = "categorical: [sex], missing: keep"
MIXED = "root: st\nclients:\n" + "".join(
    f"  {name}: {{source: {{path: {name}.csv, {KINDS}}}}}\n" for name in "abc"
)
OWN = "clients:\n" + "".join(f"  {name}: {{store: {name}.zarr}}\n" for name in "abc")
RUN = ("run", "p.yaml", "--storage", "s.yaml")


@dataclass(frozen=True)
class Case:
    """One bad input.

    Parameters
    ----------
    what : str
        In words.
    says : str
        Regular expression for what is told on standard error, or in a run's table.
    words : sequence of str
        Of the command.
    files : mapping of str to str or bytes
        Beside p.yaml and s.yaml, which are an OmniFC pipeline and iris, or in their place.
    stores : callable, optional
        Gives the keywords of `write_store` by client.
    code : int
        Exit code.
    """

    what: str
    says: str
    words: Sequence[str] = RUN
    files: Mapping[str, str | bytes] = field(default_factory=dict)
    stores: Callable[[], Mapping[str, Mapping[str, Any]]] | None = None
    code: int = 2


def pipeline(method: str, **params: Any) -> dict[str, str]:
    text = ", ".join(f"{key}: {value}" for key, value in params.items())
    return {"p.yaml": f"method: {method}\nparams: {{{text}}}\n"}


def source(text: str | bytes, keys: str = "", name: str = "t.csv") -> dict[str, str | bytes]:
    """A file, and a storage that deals its rows to three clients."""
    return {
        name: text,
        "s.yaml": f"source: {{path: {name}{keys}}}\npartition: {{scheme: iid, clients: 3}}\n"
        "root: st\n",
    }


def clusters(**changes: Any) -> Callable[[], dict[str, dict[str, Any]]]:
    """Three clients of thirty samples around three places."""

    def made() -> dict[str, dict[str, Any]]:
        random = np.random.default_rng(0)
        stores = {}
        for name in "abc":
            X = random.normal(size=(30, 3)) + 8 * np.arange(30)[:, None] // 10
            stores[name] = {"features": X, "sample_ids": [f"{name}{i}" for i in range(30)]}
        for key, change in changes.items():
            stores = change(stores) if key == "all" else {**stores, key: change(stores[key])}
        return stores

    return made


def every(change: Callable[[np.ndarray], np.ndarray]) -> Callable[[Any], Any]:
    return lambda stores: {
        name: {**own, "features": change(own["features"])} for name, own in stores.items()
    }


def held(**files: str) -> dict[str, str]:
    return {"s.yaml": OWN, **files}


BUILD = ("stores", "build", "s.yaml")
PARTY = ("party", "a", "--store", "a.zarr", "--scheduler")


# -- answered before any process starts ----------------------------------------------------------

COMMANDS: dict[str, Case] = {
    "5": Case("pipeline and storage swapped", "Swap the two",
              ("run", "s.yaml", "--storage", "p.yaml")),
    "10": Case("--set of a parameter without params",
               "--set params.n_clusters=4", (*RUN, "--set", "n_clusters=4")),
    "24": Case("a pipeline to check for a storage", "is a pipeline", ("stores", "check", "p.yaml")),
    "55": Case("more neighbours than samples", "no graph of 500",
               files=pipeline("OmniFC", n_clusters=3, clusterer="{spectral: {n_neighbors: 500}}")),
    "61": Case("more atoms than samples", "n_atoms",
               files=pipeline("FedSC", n_clusters=3, n_atoms=100000)),
    "62": Case("more neighbours than samples", "neighbors",
               files=pipeline("FedSC", n_clusters=3, neighbors=5000)),
    "77": Case("noise on factors without a width", "kernel_width",
               files=pipeline("FedSC", n_clusters=3,
                              noise="{kind: factors, epsilon: 1, delta: 1.0e-5, clip: 1}")),
    "79": Case("more local clusters than samples", "n_local_clusters.*at most .* 150", files={
        **pipeline("kCAGC", n_clusters=3, n_local_clusters=9999, filter_order=0),
        "s.yaml": "source: {dataset: iris}\npartition: {scheme: vertical, clients: 2}\n"}),
    "81": Case("kCAGC on clients with different samples", "kCAGC.*column",
               files=pipeline("kCAGC", n_clusters=3)),
    "82": Case("kCAGC with one client", "two|2", files={
        **pipeline("kCAGC", n_clusters=3),
        "s.yaml": "source: {dataset: iris}\npartition: {scheme: vertical, clients: 1}\n"}),
    "86": Case("FedSC with one client", "two|2", files={
        **pipeline("FedSC", n_clusters=3),
        "s.yaml": "source: {dataset: iris}\npartition: {scheme: iid, clients: 1}\n"}),
    "98": Case("the same ids at all clients", "unique|share", files=held(),
               stores=clusters(all=lambda stores: {
                   name: {**own, "sample_ids": [str(i) for i in range(30)]}
                   for name, own in stores.items()})),
    "116": Case("a's store as b's", "client 'a' must bring a store of its own", files=held(
        **{"s.yaml": OWN.replace("b.zarr", "x").replace("a.zarr", "b.zarr").replace("x", "a.zarr")
           }), stores=clusters()),
    "117": Case("one store for two clients", "client 'b' must bring a store of its own",
                files=held(**{"s.yaml": OWN.replace("b.zarr", "a.zarr")}), stores=clusters()),
    "125": Case("a csv with NaN", r"t.csv: line 3, column 'b': .*missing value", BUILD,
                source("a,b\n1,2\n3,\n5,6\n7,8\n")),
    "126": Case("a csv with infinity", r"t.csv: line 3, column 'b': .*infinity", BUILD,
                source("a,b\n1,2\n3,inf\n5,6\n7,8\n")),
    "127": Case("semicolons and decimal commas", "source.delimiter: ';'.*source.decimal: ','",
                BUILD, source("a;b;c\n1,5;2;3\n4;5;6\n")),
    "128": Case("a latin-1 header", "source.encoding", BUILD,
                source("größe,b\n1,2\n3,4\n5,6\n".encode("latin-1"))),
    "129": Case("an empty file", "t.csv: the file is empty", BUILD, source("")),
    "142": Case("text called a workbook", "t.xlsx: the source cannot be read as excel", BUILD,
                source("x", name="t.xlsx")),
    "159": Case("source and clients", "exactly one of 'source' and 'clients'",
                files={"s.yaml": IRIS + OWN}),
    "165": Case("more memory than the machine has", "memory_limit|100 TB|100TB",
                (*RUN, "--cluster", "c.yaml"),
                {"c.yaml": "cluster: local\nworker: {memory_limit: 100TB}\n"}),
    "176": Case("a scheduler without protocol and port", "scheduler.*tcp://",
                (*RUN, "--cluster", "c.yaml"),
                {"c.yaml": "cluster: existing\nscheduler: localhost\n"}),
    "177": Case("a web address for a scheduler", "scheduler.*tcp://",
                (*RUN, "--cluster", "c.yaml"),
                {"c.yaml": "cluster: existing\nscheduler: 'http://127.0.0.1:8787'\n"}),
    "178": Case("a scheduler that is not there", "nobody answered there",
                (*PARTY, "tcp://127.0.0.1:9", "--wait", "0.5"), stores=clusters(), code=75),
    "180": Case("another client's store", "client 'b' must bring a store of its own",
                ("party", "b", *PARTY[2:], "tcp://127.0.0.1:9"), stores=clusters()),
    "182": Case("tls without certificates", "certificate", (*PARTY, "tls://127.0.0.1:9"),
                stores=clusters()),
    "X3": Case("surplus fields", r"line 3 must have 2 fields", BUILD,
               source("a,b\n1,2\n3,4,5,6\n5,6\n")),
    "X7": Case("thousands", r"line 2, column 'a': .*source.thousands: ','", BUILD,
               source('a,b\n"1,234",2\n3,4\n5,6\n')),
    "X8": Case("a decimal comma", r"line 2, column 'a': .*source.decimal: ','", BUILD,
               source("a;b\n1,5;2\n3;4\n5;6\n", ", delimiter: ';'")),
    "X9": Case("a question mark", r"line 3, column 'b': .*source.na_values", BUILD,
               source("a,b\n1,2\n3,?\n5,6\n")),
    "X10": Case("a name twice", "'a' comes twice", BUILD, source("a,b,a\n1,2,3\n4,5,6\n7,8,9\n")),
    "X28": Case("one store without a graph", "graph", files={
        **pipeline("kCAGC", n_clusters=3, filter_order=2), **held()},
        stores=clusters(all=lambda stores: {
            name: {**own, "sample_ids": [str(i) for i in range(30)],
                   "feature_names": [f"{name}{i}" for i in range(3)]}
            for name, own in stores.items()})),
    "words": Case("words that are not prepared", "column 'sex' of client 'a' holds words",
                  files={"s.yaml": MIXED, **HOSPITALS}),
    "gaps": Case("gaps that are not filled", "values of client 'a' may be missing", files={
        "s.yaml": MIXED, **HOSPITALS,
        "p.yaml": OMNIFC + "prepare: [one-hot]\n"}),
    "X30": Case("a csv for a store", "daskfc stores add", ("stores", "check", "s.yaml"),
                {"a.csv": "a,b\n1,2\n", "s.yaml": "clients: {a: {store: a.csv}}\n"}),
    "X33": Case("a client with nothing said of it", "'store' that exists, or a 'source'",
                files={"s.yaml": "clients: {a: {}}\n"}),
    "X36": Case("tls without security", "certificate|security", (*RUN[:2], "--cluster", "c.yaml"),
                {"c.yaml": "cluster: existing\nexpect: [a, b]\nscheduler: 'tls://127.0.0.1:9'\n"}),
    "89": Case("one sample a client", "of 3 samples can have no graph of 10 neighbours",
               files=held(), stores=clusters(all=lambda stores: {
                   name: {"features": own["features"][:1], "sample_ids": own["sample_ids"][:1]}
                   for name, own in stores.items()})),
    "49": Case("a declared bound that is too small", "larger bound",
               files=pipeline("OmniFC", n_clusters=3, max_abs=0.001)),
    "113": Case("one sample a client", "every client has one", files={
        **pipeline("FedSC", n_clusters=3), **held()},
        stores=clusters(all=lambda stores: {
            name: {"features": own["features"][:1], "sample_ids": own["sample_ids"][:1]}
            for name, own in stores.items()})),
}  # fmt: skip


# -- answered by a run ---------------------------------------------------------------------------

ALIKE = every(lambda X: np.ones_like(X))

RUNS: dict[str, Case] = {
    "37": Case("as many clusters as samples", "every sample is a cluster of its own", code=0,
               files=pipeline("OmniFC", n_clusters=150)),
    "50": Case("tiles of one row", "Raise 'tile' to at least", code=1,
               files=pipeline("OmniFC", n_clusters=3, tile=1, distances="blocks")),
    "44": Case("a tolerance that no fit can meet", "Raise the tolerance", code=1, files={
        **pipeline("OmniFC", n_clusters=3, tolerance=1e-30), **held()}, stores=clusters()),
    "65": Case("a width in which no two samples are alike", "hardly two samples are", code=0,
               files=pipeline("FedSC", n_clusters=3, kernel_width=1e-12)),
    "90": Case("all rows alike", "samples are copies of a few rows", code=0, files=held(),
               stores=clusters(all=ALIKE)),
    "91": Case("all zeros", "samples are copies of a few rows", code=0, files=held(),
               stores=clusters(all=every(np.zeros_like))),
    "95": Case("scales of 1e6 and 1e-6", "standardise", code=0, files=held(),
               stores=clusters(all=every(lambda X: X * [1e6, 1e-6, 1.0]))),
    "101": Case("no labels at all", "cluster +samples +share", code=0, files=held(),
                stores=clusters()),
    "102": Case("labels at one client only", "clients 'b', 'c' lack true", code=0, files=held(),
                stores=clusters(a=lambda own: {**own, "labels": np.arange(30) // 10})),
    "X43": Case("noise far larger than the data", "noise has deviation", code=0, files=pipeline(
        "FedSC", n_clusters=3, noise="{kind: data, clip: 60, epsilon: 0.001, delta: 1.0e-5}")),
}  # fmt: skip
