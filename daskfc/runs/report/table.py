"""Print a run's outcome as tables in a terminal."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Console, Group, RenderableType
from rich.filesize import decimal
from rich.table import Table
from rich.text import Text

from daskfc.runs.report.changes import HEAD, changes_in_words, changes_rows
from daskfc.runs.report.clusters_in_words import clusters_in_words
from daskfc.runs.report.profile_rows import cells_in_words, profile_head, profile_rows


def seconds_in_words(seconds: float) -> str:
    """Return seconds, or minutes and seconds above two minutes."""
    if seconds < 120:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s"


def stage_rows(timing: Mapping[str, float]) -> list[list[str]]:
    """Return each stage of a summary's ``timing`` with its time, both in words."""
    return [
        [key.removesuffix("_s").replace("_", " "), seconds_in_words(seconds)]
        for key, seconds in timing.items()
        if seconds is not None  # JSON has no NaN, which another package's method may have told
    ]


def titled_table(
    title: str, *columns: str, rows: Iterable[Sequence[str]] = (), right_from: int = 1
) -> Table:
    """Return a table with a bold title, of text as it is; columns from a number on align right."""
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, title_style="bold")
    for i, column in enumerate(columns):
        table.add_column(column, justify="left" if i < right_from else "right")
    for row in rows:
        table.add_row(*map(Text, row))
    return table


def score_rows(summary: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Return the metrics' names, and by method its name with a note and its scores in words."""
    scores, several = summary["metrics"], len(summary["seeds"]) > 1
    names = list(dict.fromkeys(name for row in scores.values() for name in row))
    rows = []
    for method, row in scores.items():
        note = summary.get("methods", {}).get(method, {}).get("note", "")
        told = (
            f"{row[name]['mean']:.4f}" + (f" ± {row[name]['std']:.3f}" if several else "")
            for name in names
        )
        rows.append([f"{method} ({note})" if note else method, *told])
    return names, rows


def message_rows(found: Mapping[str, Any]) -> list[list[str]]:
    """Return for each kind of message of `communication_of`, and for all, what tables tell."""

    def amounts(row: Mapping[str, Any]) -> list[str]:
        sizes = (decimal(row[key]) for key in ("payload_bytes", "wire_bytes"))
        return [f"{row['messages']:,}", *sizes]

    rows = [
        [name, row["route"], row["protection"], row["reveals"], *amounts(row)]
        for name, row in found["by_message"].items()
    ]
    return [*rows, ["all", "", "", "", *amounts(found)]]


def _scores(summary: Mapping[str, Any]) -> Table:
    names, rows = score_rows(summary)
    seeds = summary["seeds"]
    over = f"mean ± std over {len(seeds)} seeds" if len(seeds) > 1 else f"seed {seeds[0]}"
    return titled_table(f"Agreement with the true labels ({over})", "method", *names, rows=rows)


_WIDE = 92  # ours: characters of a terminal with room for the bytes on the wire


def _messages(summary: Mapping[str, Any], width: int) -> Table:
    titles = ["message", "route", "protection", "count", "payload", "on the wire"]
    shown = titles if width >= _WIDE else titles[:-1]
    rows = ([*row[:3], *row[4:]] for row in message_rows(summary["communication"]))
    *kinds, every = (row[: len(shown)] for row in rows)
    title = f"What left a party in one fit of {summary['method']}"
    table = titled_table(title, *shown, rows=kinds, right_from=3)
    for column in table.columns:
        column.no_wrap = True  # a name that is cut is no message's
    table.add_section()
    table.add_row(*every)
    return table


def _timing(summary: Mapping[str, Any]) -> Table:
    stages = {key: value for key, value in summary["timing"].items() if key != "total_s"}
    table = titled_table("Time", "stage", "", rows=stage_rows(stages))
    table.add_section()
    table.add_row("the whole run", seconds_in_words(summary["timing"]["total_s"]))
    return table


def _memory(summary: Mapping[str, Any]) -> Table:
    peaks = summary["peak_memory_bytes"].items()
    rows = [(party, decimal(peak)) for party, peak in peaks]
    return titled_table("Peak memory", "party", "", rows=rows)


def summary_tables(summary: Mapping[str, Any], folder: object, width: int) -> RenderableType:
    """Return a finished run's tables, for a terminal so wide: scores, messages, time, folder."""
    side = Table.grid(padding=(0, 4))
    side.add_row(_timing(summary), _memory(summary))
    head = Text.assemble(
        (summary["method"], "bold"),
        f" on {summary['n_samples']:,} samples of {summary['n_clients']} clients",
    )
    parts: list[RenderableType] = [head, ""]
    if summary["metrics"]:
        parts.append(_scores(summary))
    else:
        parts.append(f"No scores: {summary.get('unscored') or 'the run did not end.'}\n")
    if summary.get("quality"):
        parts += _quality(summary)
    if summary.get("changes"):
        parts += _changes(summary["changes"])
    if summary.get("n_clusters_choice"):
        parts.append(Text(f"{choice_in_words(summary['n_clusters_choice'])}\n"))
    if summary.get("profiles"):
        parts += _profiles(summary["profiles"])
    parts += [_messages(summary, width), side]
    for what, chosen in summary.get("choices", {}).items():
        parts.append(Text(f"Chosen {what}: {chosen}\n"))
    note = summary["privacy"].get("statement")
    if note:
        parts.append(Text(f"Privacy: {note}\n"))
    noise = summary["privacy"].get("noise")
    if noise:
        parts.append(Text(f"Noise: {noise_in_words(noise)}\n"))
    reconstruction = summary["privacy"].get("reconstruction")
    if reconstruction:
        parts.append(_reconstruction(reconstruction))
    parts.append(Text(f"The run's folder: {folder}\nThe report:       {folder}/report.html"))
    return Group(*parts)


def _changes(changes: Mapping[str, Any]) -> list[RenderableType]:
    """Return what changed since an earlier run: a row for each cluster, and a sentence."""
    rows = changes_rows(changes)
    table = titled_table("What changed", *HEAD, rows=rows[:_ROWS])
    return [*([table] if rows else []), Text(f"{changes_in_words(changes)}\n")]


_ROWS = 20  # ours: clusters that have a line in a terminal
_SITES = 6  # ours: clients that have a column of their own in a terminal


def _quality(summary: Mapping[str, Any]) -> list[RenderableType]:
    """Return the clusters' sizes, what sets each apart, how good they are, and warnings."""
    quality = summary["quality"]
    sizes, clients = quality["sizes"], quality["by_client"]
    shown = list(clients) if 1 < len(clients) <= _SITES else []
    total = sum(sizes.values()) / max(1.0 - quality["noise"], 1e-9)
    rows = []
    for cluster, size in list(sizes.items())[:_ROWS]:
        own = (f"{clients[name][cluster]:,}" for name in shown)
        rows.append([cluster, f"{size:,}", f"{size / total:.1%}" if total else "", *own])
    parts: list[RenderableType] = [
        titled_table("Clusters", "cluster", "samples", "share", *shown, rows=rows)
    ]
    if len(sizes) > _ROWS:
        parts.append(Text(f"and {len(sizes) - _ROWS} more clusters; summary.json has all.\n"))
    for one in clusters_in_words(summary)[:_ROWS]:
        if one.sentence:
            parts.append(Text(f"Cluster {one.number}: {one.sentence}\n"))
    if quality["noise"]:
        parts.append(Text(f"Noise, in no cluster: {quality['noise']:.1%} of the samples.\n"))
    if quality.get("silhouette") is not None:
        parts.append(Text(f"Silhouette: {quality['silhouette']:.3f}, of -1 to 1.\n"))
    if quality.get("sites") is not None:
        told = f"adjusted mutual information {quality['sites']:.3f}, 0 by chance and at most 1"
        parts.append(Text(f"Clusters and sites: {told}.\n"))
    if quality["stability"] is not None:
        parts.append(
            Text(f"Stability: adjusted Rand index {quality['stability']:.3f} between seeds.\n")
        )
    parts += [Text(f"Note: {warning}\n", style="bold") for warning in quality["warnings"]]
    return parts


def choice_in_words(choice: Mapping[str, Any]) -> str:
    """Return the number of clusters that was chosen, and by what, as sentences."""
    errors = {k: f" ± {error:.3f}" for k, error in choice.get("errors", {}).items()}
    scores = ", ".join(
        f"{k}: {'none' if score is None else format(score, '.3f')}{errors.get(k, '')}"
        for k, score in choice["scores"].items()
    )
    chosen, tried = choice["n_clusters"], [int(k) for k in choice["scores"]]
    head = f"Chosen number of clusters: {chosen}, by {choice['by']}"
    told = f"{head}: {choice['why']}. {scores}."
    if len(tried) > 1 and chosen == max(tried):
        told += (
            " It is the largest that was tried, so that more may fit better: "
            f"n_clusters: [{min(tried)}, {2 * chosen}] looks further."
        )
    return told


_FEATURES = 10  # ours: features of a profile that are in a terminal


def _profiles(profiles: Mapping[str, Any]) -> list[RenderableType]:
    """Return the features that separate clusters best, and which clusters are withheld."""
    parts: list[RenderableType] = []
    if profiles["clusters"]:
        title = "What tells the clusters apart (mean ± standard deviation, or share)"
        rows = profile_rows(profiles, _SITES, _FEATURES)
        parts.append(titled_table(title, *profile_head(profiles, _SITES), rows=rows))
    left = (len(profiles["columns"]) - _FEATURES, len(profiles["clusters"]) - _SITES)
    if profiles["clusters"] and max(left) > 0:
        parts.append(Text("summary.json has all features and clusters.\n"))
    if told := cells_in_words(profiles):
        parts.append(Text(f"{told}\n"))
    for cluster, why in profiles["withheld"].items():
        parts.append(Text(f"Cluster {cluster} is not described: {why}.\n"))
    return parts


def _reconstruction(clients: Mapping[str, Mapping[str, float | None]]) -> Table:
    title = "How far similarities are from the true ones, at each client"
    rows = []
    for name, errors in clients.items():
        numbers = (errors[key] for key in ("error", "rms", "bound"))
        rows.append([name, *("" if one is None else f"{one:.3g}" for one in numbers)])
    return titled_table(title, "client", "largest", "rms", "bound", rows=rows)


def noise_in_words(noise: Mapping[str, Any]) -> str:
    """Return what the noise of a run was and what it guarantees, as a sentence."""
    known = {"kind", "epsilon", "delta", "fits", "epsilon_of_all_fits"}
    sizes = [f"{k.replace('_', ' ')} {v:.4g}" for k, v in noise.items() if k not in known and v]
    head = ", ".join([f"on {noise['kind']}", *sizes])
    if noise.get("delta") is None:
        return f"{head}; it guarantees no (ε, δ)."
    each = f"ε = {noise['epsilon']:.4g} at δ = {noise['delta']:g} for each client's rows in a fit"
    if noise["fits"] == 1:
        return f"{head}; {each}."
    return f"{head}; {each}, ε = {noise['epsilon_of_all_fits']:.4g} in all {noise['fits']} fits."


def print_summary(summary: Mapping[str, Any], folder: object, console: Console) -> None:
    """Print a run's tables, or why it has none.

    Parameters
    ----------
    summary : mapping
        What ``summary.json`` holds.
    folder : path
        The run's folder.
    console : rich.console.Console
        Where to print.

    Examples
    --------
    >>> from rich.console import Console
    >>> from daskfc.runs.report.table import print_summary
    >>> failed = {"run_id": "r", "status": "failed", "error": "no disk", "resumable": False}
    >>> print_summary(failed, "runs/r", Console())
    r: failed: no disk
    """
    if summary.get("status") == "done":
        console.print(summary_tables(summary, folder, console.width))
        return
    why = f": {summary['error']}" if summary.get("error") else ""
    line = f"{summary['run_id']}: {summary['status']}{why}"
    console.print(Text(line), soft_wrap=True)
    if summary.get("resumable"):
        console.print(Text(f"resume with: daskfc resume {folder}"), soft_wrap=True)
