"""Write docs/benchmarks.md from what `make bench` measured.

    python -m tests.benchmarks.page [--some] FILE...

A FILE is what `pytest tests/benchmarks --benchmark-enable --benchmark-json FILE` wrote, several
where benchmarks were run in parts on one machine. With `--some` the page keeps its other tables,
and the new ones say where and when they were measured. A benchmark has a table where its extra
information has rows, or a ratio to scikit-learn. Figures need matplotlib: `pip install
'daskfc[figures]'`.
"""

import json
import platform
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from pipelines.papers.results import markdown_table, wrapped

PAGE = Path("docs/benchmarks.md")
SCALE = "k-means of OmniFC as samples and clients grow"
FIGURE = "figures/benchmarks-scale.svg"
INTRO = """\
# Benchmarks

Written by `make bench`; do not edit. Every ratio is to the plain library call on the same samples
in the same run: below 1 daskfc is faster. Parties are processes on one machine, which share its
cores; scikit-learn has all of them, unless a table's module says otherwise.
"""
ABOUT = {
    "Rounds of a masked sum": "An array of 100 × 10 of each client, masked and added up at the "
    "server; *plain Dask* does the same with one submission a task and no masks. Processor time is "
    "that of a round: of the driver with its scheduler, and of all parties.",
    "Rounds of shared sums": "The same rounds a second, with masks between neighbours, and with "
    "masks that two aggregators hold for all: *shared* waits for who leaves, two thirds at least; "
    "with *all stay* it waits for nobody, as masks do. *First*: a sum with the keys before it. "
    "Clients are processes of their own, but for 200 of them, which are in four: so no federation "
    "is, and times are those of one scheduler, server and driver with so many parties.",
    "Ingress and identity": "Start-up, and rounds as above, of local federations whose parties ask "
    "what comes in, and of ones that take everything; medians of turns. Goal: at most 1.05.",
    "TLS and identity between sites": "A message of a client until it was read at the server, both "
    "of them processes of their own, with digests and receipts; *no checks* has TLS. Goals: at "
    "most 1.3 to no TLS beyond 1 MB, at most 1.05 to no checks.",
    "Methods over a wide area": "Clients are sites of their own, in network namespaces with TLS, "
    "50 ms one way and 100 Mbit/s each way from scheduler, server and driver, which are one site; "
    "beside lines without limit. *In a row*: messages, each sent when the one before was there. "
    "*Trips*: three of 50 ms for each of these, the word that it is there, the request for it and "
    "the message; *bytes*: those of the busiest direction of a line at 100 Mbit/s. *No slow "
    "start*: with `net.ipv4.tcp_slow_start_after_idle` 0 at all sites; else TCP sends 15 kB first "
    "and waits for an answer, then twice as much, after every pause of a connection. *By keys*: "
    "`latency` and `bandwidth` of a local cluster, which hold each message back once.",
    "Labels on shares over a wide area": "Iris at three sites with the lines of the last table: by "
    "DBSCAN on distances, on a graph of neighbours and on shares, and by k-means on shares.",
    "Compression on the wire": "Content of real messages, compressed at their senders; classes "
    "with a hundredth or more of the bytes on the busiest direction of a line. A ratio is "
    "compressed to plain; speeds are there and back. *Pays below*: on faster lines compressing "
    "takes longer than the bytes that it saves. *Saves*: of the time that all bytes take on "
    "100 Mbit/s.",
    "Coded distances of all pairs": "8,000 samples of 784 features, t = 2: all parties' work on "
    "two threads, beside `euclidean_distances`, wall time and processor time.",
    "Neighbour graphs": "20,000 samples of 784 features, ten neighbours or a radius, beside brute "
    "force.",
    "Distances by blocks": "16 features, in one process with one thread, where memory holds all "
    "distances and where it does not; three starts of k-medoids, 30 iterations of affinity "
    "propagation. Labels are equal.",
    "70,000 samples by blocks": "MNIST, one process and one thread; one start of k-medoids.",
    "Dask's arrays beside loops over tiles": "8,192 samples, tiles of 1,024 on disk, one thread.",
    "FedSC beside scikit-learn's SpectralClustering": "Ten clients, default atoms, five rounds, "
    "beside nearest neighbours with lobpcg; server and scikit-learn have one thread of BLAS.",
    "kCAGC beside AGC": "Cells of the paper's Tables II: Cora, 50 starts; beside AGC on the pooled "
    "columns in one process, with the threads of BLAS that it takes. *k̂*: local clusters.",
    "OmniFC on exact distances beside scikit-learn": "Ten clients of one thread; server and "
    "scikit-learn have as many as said. *Pooled*: the server's own clusterer on the pooled "
    "samples, in a process alone.",
    "Workers of the server": "A graph of nine neighbours of 40,000 samples by one worker of the "
    "server, by two, and by eight if their part takes an eighth, beside brute force on one thread.",
    "Blocks of distances by workers of the server": "8,000 samples of 784 features at six clients, "
    "from shares, beside `euclidean_distances` and brute force on one thread. Seconds of the clock "
    "are those of this machine, whose cores all parties share; those of the processor are of the "
    "server's busiest process and of the busiest client, and the larger one is the time where each "
    "has a core of its own.",
    "Federated k-means as samples grow": "Ten overlapping groups, 64 features, ten clients of one "
    "thread each on this machine; what a client uploads does not hang on the samples.",
    "Labels on shares of three clients": "Whole numbers in groups, four clients of which three "
    "compute, on one machine, with the threads that parties have by default. *Trips and bytes*: "
    "what rounds of three trips of 50 ms, and bytes at 100 Mbit/s, would take on top.",
    "Landmark spectral clustering as samples grow": "The same mixture with 32 features, ten "
    "clients, OmniFC with clusterer landmark-spectral; parties of 2 GB with the threads that they "
    "have by default.",
    "Spectral methods of a million samples": "The same mixture, ten clients, parties of 2 GB: "
    "embeddings whose work grows with n.",
    "Start-up of 10 and 32 clients": "From the command to the end of every party's first step, "
    "Python's own start and imports included; *plain Dask* starts as many workers, each of which "
    "imports Dask alone. Memory is the proportional share of all processes.",
    "Clients as processes of one machine": "Rounds as above, with parties as they are: a process "
    "each, beside one that holds scheduler, driver and what starts parties.",
    "Fits of 8 and 32 clients": "scikit-learn's digits, dealt one by one; *NMI*: of labels with "
    "those that fewer clients gave. Processor time is that of all processes.",
    "200 clients against one scheduler": "Rounds as above. Clients share four processes, so that "
    "the machine bears them; `daskfc scheduler`, driver and server are as always. *Keys of all "
    "pairs*: as if all but two might collude, in place of four neighbours each. *A sum that bears "
    "losses*: `RecoveringSum`, every two of whose clients exchange two messages first. Both are of "
    "64 clients at most: with 128, Dask warns of a graph of 22 MiB.",
    "Memory as messages go by": "One run of masked sums, 8 clients, up to 32 rounds under way; "
    "resident memory, *client*: their mean. Bytes a message: by least squares, after the first "
    "fifth. Goal: flat. Dask caches the names of 100,000 tasks in each process, and a client "
    "remembers each tag that it masked for. *Its ledger*: collecting all rows at the end.",
    "A new user, from csv files to a report": "`daskfc init --example hospitals`, and what each "
    "command says comes next, as a person would type it; starting Python and all parties counts. "
    "Goals: three commands, less than a minute.",
    "Stores whose type is chosen": "100,000 samples of 20 columns from a csv file, by hand and by "
    "default. *Fractions*: normal ones, which float32 holds; *time stamps*: seconds of 1.65e9 with "
    "fractions, which it does not, so that there is no float32 by hand; *bytes*: whole numbers "
    "below 256. Ratios are to the fractions in float32.",
    SCALE: "A mixture of ten groups, 64 features, parties of 2 GB, beside scikit-learn's KMeans "
    "with the same n_init and one thread.",
}


def cell(value: Any) -> str:
    """Return a value as text; numbers with three digits that count.

    Examples
    --------
    >>> cell(70000), cell(0.12345), cell(81.54), cell(1283.1), cell("int8")
    ('70,000', '0.123', '81.5', '1,283', 'int8')
    """
    if not isinstance(value, float):
        return f"{value:,}" if isinstance(value, int) else str(value)
    size = abs(value)
    return f"{value:,.{0 if size >= 100 else 1 if size >= 10 else 2 if size >= 1 else 3}f}"


def tables(benchmarks: Sequence[Mapping[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Return rows by title."""
    found: dict[str, list[dict[str, Any]]] = {}
    for one in benchmarks:
        extra = one["extra_info"]
        if "rows" in extra:
            found.setdefault(one["group"], []).extend(extra["rows"])
        elif "x scikit-learn" in extra:
            name = one["name"].removeprefix("test_").replace("_", " ")
            row = {"what": name, "x scikit-learn": float(extra["x scikit-learn"])}
            found.setdefault("Neighbour graphs", []).append(row)
    return found


def machine(told: Mapping[str, Any]) -> str:
    """Say where and when it was measured."""
    info, cpu = told["machine_info"], told["machine_info"].get("cpu", {})
    libraries = ", ".join(f"{name} {version(name)}" for name in ("numpy", "scikit-learn", "dask"))
    blas = sorted(
        {line for one in told["benchmarks"] for line in one["extra_info"].get("BLAS", ())}
    )
    of_blas = f"; BLAS of this process: {', '.join(blas)}" if blas else ""
    return (
        f"Measured {told['datetime'][:10]} on {cpu.get('brand_raw', platform.processor())}, "
        f"{cpu.get('count', '?')} cores; Python {info['python_version']}, {libraries}{of_blas}."
    )


def sections(text: str) -> dict[str, str]:
    """Return the tables of a page by title, and what comes before them by "".

    Examples
    --------
    >>> sections("# Page\\n\\n## One\\n\\nabout it\\n")
    {'': '# Page\\n', 'One': 'about it\\n'}
    """
    head, *others = text.split("\n## ")
    return {"": head, **{one.partition("\n")[0]: one.partition("\n")[2][1:] for one in others}}


def page(told: Mapping[str, Any], *, figure: bool, kept: Mapping[str, str] | None = None) -> str:
    """Return the page, and of `kept`, an earlier page's sections, what is not measured anew."""

    def parts() -> Iterator[str]:
        found, others = tables(told["benchmarks"]), dict(kept or {})
        yield others.pop("", INTRO + "\n" + wrapped(machine(told)) + "\n")
        for title in sorted({*found, *others}, key=list(ABOUT).index):
            yield f"## {title}\n"
            if title not in found:
                yield others[title]
                continue
            rows = found[title]
            yield wrapped(ABOUT[title] + (f" {machine(told)}" if kept else "")) + "\n"
            if figure and title == SCALE:
                yield f"![Seconds, memory and traffic of k-means]({FIGURE})\n"
            names = list(dict.fromkeys(name for row in rows for name in row))
            body = [[cell(row.get(name, "–")) for name in names] for row in rows]
            yield markdown_table(names, body, left=1) + "\n"

    return "\n".join(parts())


def draw(rows: Sequence[Mapping[str, Any]], path: Path) -> bool:
    """Draw what grows; return whether matplotlib is there."""
    try:
        from pipelines.papers.figures import draw_all, panels
    except ImportError:
        return False

    def growing(records: Sequence[Mapping[str, Any]]) -> Any:
        what = ("fit, s", "server, MB", "wire, GB")
        over = {"samples": [r for r in records if r["clients"] == 10],
                "clients": [r for r in records if r["clients"] != 10]}  # fmt: skip
        names = [f"{y} by {x}" for x in over for y in what]
        figure, axes = panels(names, 2.2, 2.4, "", sharey=False)
        for x, own in over.items():
            for y in what:
                each = axes[f"{y} by {x}"]
                each.plot(
                    [r[x] for r in own], [r[y] for r in own], "o-", color="C0", label="daskfc"
                )
                if y == "fit, s":
                    points = [r["scikit-learn, s"] for r in own]
                    each.plot([r[x] for r in own], points, "o--", color="C1", label="scikit-learn")
                    each.legend()
                each.set(title=y, xlabel=x, xscale="log", yscale="log")
        return figure

    return bool(draw_all({path.name: growing}, list(rows), path.parent))


def main() -> None:
    files = [word for word in sys.argv[1:] if word != "--some"]
    kept = sections(PAGE.read_text("utf-8")) if len(files) < len(sys.argv) - 1 else None
    told, *others = [json.loads(Path(file).read_text("utf-8")) for file in files]
    told["benchmarks"] += [one for other in others for one in other["benchmarks"]]
    rows = tables(told["benchmarks"]).get(SCALE, [])
    drawn = len(rows) > 1 and draw(rows, PAGE.parent / FIGURE)
    PAGE.write_text(page(told, figure=drawn, kept=kept), "utf-8")
    print(f"{PAGE}: {sum(map(len, tables(told['benchmarks']).values()))} rows")


if __name__ == "__main__":
    main()
