"""Sections on what the paper leaves open: noise, attacks, scale, times, rounds."""

from collections.abc import Iterator, Sequence
from statistics import fmean

from daskfc.linalg.symmetric import packed_size
from pipelines.papers.fk_kmeans.attack import CLOSE, MOST_STARTS, STARTS
from pipelines.papers.fk_kmeans.fits import DELTA, NOISY_ROUNDS
from pipelines.papers.fk_kmeans.scale import LANDMARKS
from pipelines.papers.fk_kmeans.text import ATTACK_FIGURE, MEANS, NOISE_FIGURE, command, names_of
from pipelines.papers.journal import Record
from pipelines.papers.means import of_kind
from pipelines.papers.results import figure_link, markdown_table, number

__all__ = ["attack", "noise", "rounds", "scale", "speed"]


def noise(records: Sequence[Record]) -> Iterator[str]:
    """Return NMI beside ε."""
    found = of_kind(records, "noise")
    if not found:
        return
    rows = []
    for data in names_of(found):
        own = of_kind(found, "noise", data=data)
        plain = MEANS.of(of_kind(own, "noise", epsilon=None), "nmi")
        for epsilon in dict.fromkeys(r["epsilon"] for r in own):
            runs = of_kind(own, "noise", epsilon=epsilon)
            here = MEANS.of(runs, "nmi")
            row = [data, "∞" if epsilon is None else f"{epsilon:g}", f"{runs[0]['n']:,}"]
            row += [f"{runs[0]['multiplier']:.2f}", str(len(runs)), MEANS.text(here)]
            rows.append([*row, f"{here[0] - plain[0]:+.3f}" if here and plain else "–"])
    yield "## Noise (ε, δ)\n"
    yield figure_link(NOISE_FIGURE, "NMI beside ε")
    head = ["data", "ε", "N", "multiplier", "runs", "NMI", "to ∞"]
    yield markdown_table(head, rows) + "\n"
    yield (
        f"The paper leaves differential privacy to later work. δ = {DELTA:g}, a sample replaced; "
        f"noise on the sums of WᵀW of {found[0]['iterations']} iterations and on {NOISY_ROUNDS} "
        "rounds of k-means by sums, all within ε; *multiplier*: standard deviation of each sum's "
        "noise over its sensitivity. D and s of Table 1. The width of the kernel is taken for "
        "public. Mean ± standard deviation; noise is the operating system's, so that another run "
        f"finds other numbers. {command('noise')}\n"
    )


def attack(records: Sequence[Record]) -> Iterator[str]:
    """Return what the server finds of a client's samples."""
    found = of_kind(records, "attack")
    if not found:
        return
    rows = []
    for data in names_of(found):
        for D in dict.fromkeys(r["D"] for r in of_kind(found, "attack", data=data)):
            for size in dict.fromkeys(r["size"] for r in of_kind(found, "attack", data=data, D=D)):
                row = [data, str(D), str(size)]
                for masked in (False, True):
                    own = of_kind(found, "attack", data=data, D=D, size=size, masked=masked)
                    row += [f"{max(r['rank'] for r in own)}" if own else "–"]
                    row += [f"{fmean(r['share'] for r in own):.0%}" if own else "–"]
                rows.append(row)
    yield "## Samples from Gram matrices (Theorem 4)\n"
    yield figure_link(ATTACK_FIGURE, "Share of a client's samples that the server finds")
    head = ["data", "D", "n_m", "rank, one client", "found", "rank, sum", "found"]
    yield markdown_table(head, rows) + "\n"
    columns = ", ".join(
        f"{data} {of_kind(found, 'attack', data=data)[0]['columns']}" for data in names_of(found)
    )
    yield (
        "The paper holds that AᵀA of a client says nothing of its A, any rotation of which "
        "gives the same. The server has drawn the features, though, and looks for samples whose "
        "features lie in the span (`daskfc.protocols.fk_kmeans.privacy.rows_in_span`). *found*: "
        "share of a client's n_m samples that some search ends near, within "
        f"{CLOSE:.0%} of the mean interpoint distance, mean over seeds; *one client*: from its "
        "own matrix of the first iteration, as in the paper; *sum*: from that over five clients "
        f"of n_m samples, what masks leave the server; {STARTS} starts a sample of the matrix, "
        f"at most {MOST_STARTS}. With d columns ({columns}) it needs rank + d < D at "
        "least, and more where samples lie so close that features of others are nearly in the "
        "span as well: with masks the samples of all clients count, without them those of one. "
        f"{command('attack')}\n"
    )


def scale(records: Sequence[Record]) -> Iterator[str]:
    """Speed, memory and uploads beside the number of samples."""
    found = of_kind(records, "scale")
    if not found:
        return
    rows = [
        [
            f"{r['n']:,}",
            number(60.0 * r["iterations"] / r["iterating"], 1),
            number(r["seconds"], 1),
            number(r["client"] / 1e6, 0),
            number(r["server"] / 1e6, 0),
            f"{fmean(r['bytes']):,.0f}",
            f"{r['all_bytes']:,}",
            MEANS.text((r["nmi"], 0.0)).split(" ")[0],
        ]
        for r in found
    ]
    yield "## Samples in covtype's shape, parties of 2 GB\n"
    head = ["N", "iterations a minute", "fit, s", "client, MB", "server, MB"]
    head += ["uploaded an iteration, bytes", "in all, bytes", "NMI"]
    yield markdown_table(head, rows) + "\n"
    yield (
        f"Generated, 54 columns, D = 30, s = 10, {found[0]['iterations']} iterations by one sum; "
        "fresh processes for each N, *MB* the largest peak of a process, all of it counted. Five "
        f"clients and the server on two cores. {command('scale')}\n"
    )


def speed(records: Sequence[Record]) -> Iterator[str]:
    """Seconds beside scikit-learn's."""
    found = of_kind(records, "speed")
    if not found:
        return
    rows = []
    for r in found:
        central = r["nystroem"] + r["kmeans"]
        row = [str(r["seed"]), number(r["ours"], 1), number(r["iterating"], 1)]
        row += [number(r["clustering"], 1), number(r["nystroem"], 1), number(r["kmeans"], 1)]
        row += [number(central, 1), number(r["ours"] / central), number(r["nmi"], 3)]
        rows.append([*row, number(r["pooled_nmi"], 3)])
    ratio = max(r["ours"] / (r["nystroem"] + r["kmeans"]) for r in found)
    yield f"## Seconds on {found[0]['n']:,} images of MNIST\n"
    head = ["seed", "ours, s", "iterating", "clustering", "Nystroem, s", "KMeans, s", "both"]
    yield markdown_table([*head, "ratio", "NMI, ours", "NMI, pooled"], rows) + "\n"
    yield (
        f"{found[0]['iterations']} iterations (one sum) and a coreset, against scikit-learn's "
        f"Nystroem({LANDMARKS}) and KMeans(n_init=10) on the pooled rows, one after the other on "
        f"two cores. Ours: {found[0]['clients']} clients and a server, processes of one thread; "
        f"scikit-learn: {found[0]['threads']}. The largest ratio is {ratio:.2f} (goal: at most 2). "
        f"{command('speed')}\n"
    )


def rounds(records: Sequence[Record]) -> Iterator[str]:
    """Messages, bytes and milliseconds."""
    found = of_kind(records, "rounds")
    if not found:
        return
    rows = []
    for r in found:
        M, D = r["clients"], r["D"]
        T = len(r["bytes"])
        triangle = fmean(8.0 * M * packed_size(D + rank) for rank in r["ranks"])
        products = fmean(
            8.0 * M * (D + rank) * Q for rank, Q in zip(r["ranks"], r["asked"], strict=True)
        )
        block = r["block"]
        wanted = products if block else triangle
        here = fmean(r["bytes"])
        row = [str(D), f"Lanczos, {block}" if block else "one sum", f"{r['rounds'] / T:.1f}"]
        row += [f"{fmean(r['needed']):.1f}" if block else "–", f"{wanted:,.0f}", f"{here:,.0f}"]
        row += [f"{here / wanted - 1.0:+.1%}", f"{r['messages_a_round']:.0f}"]
        times = [r["median_ms"], r["mean_ms"]] if block else [None, None]
        rows.append([*row, *(number(ms, 1) for ms in times)])
    yield "## Rounds and bytes of an iteration\n"
    head = ["D", "solver", "rounds", "products", "numbers × 8", "payload, bytes", "more"]
    yield markdown_table([*head, "messages", "ms, median", "ms, mean"], rows, left=2) + "\n"
    yield (
        f"{found[0]['data']}, means over {len(found[0]['bytes'])} iterations, all clients. "
        "*numbers × 8*: M (D + r_t)(D + r_t + 1) / 2 for one sum, M (D + r_t) for each product "
        "asked for, at 8 bytes a masked number; *more*: the keys and tags that go with them. "
        "*messages*: in a round trip, out and back. *ms*: from one product of a client to its "
        "next; the median where the next one was asked for ahead, the mean with the "
        f"caller's questions whether it is enough. {command('rounds')}\n"
    )
