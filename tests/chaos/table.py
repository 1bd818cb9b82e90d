"""Write docs/chaos.md of a campaign's rows: ``python -m tests.chaos.table FILE``."""

import argparse
import json
import os
import platform
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from pipelines.papers.results import markdown_table, wrapped

PAGE = Path("docs/chaos.md")
OUTCOMES = ("done", "resumed", "refused", "too late", "skipped", "BAD")


def told_of(options: argparse.Namespace) -> dict[str, Any]:
    """Return the line that each start of a campaign writes: where, with what, by what chance."""
    names = ("daskfc", "dask", "distributed", "numpy", "zarr")
    return {
        "seed": options.seed,
        "only": options.only,
        "method": options.method,
        "commit": _commit(),
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.release().partition('-')[0]}",
        "python": platform.python_version(),
        "versions": {name: version(name) for name in names},
        "jobs": options.jobs,
    }


def _commit() -> str:
    """Return which commit it is, "unknown" outside a repository."""
    asked = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short", "HEAD"]
    try:
        return subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def read(file: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return what the last start of a campaign told, and rows by number; a torn line is none."""
    about: dict[str, Any] = {}
    rows: dict[int, dict[str, Any]] = {}
    for line in file.read_text().splitlines():
        try:
            found = json.loads(line)
        except ValueError:  # the campaign was killed as it wrote
            continue
        if "number" in found:
            rows[found["number"]] = found
        else:
            about = found
    return about, [rows[number] for number in sorted(rows)]


def read_rows(file: Path, about: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the rows that a campaign goes on after.

    Raises
    ------
    SystemExit
        When they are of another campaign: its numbers stand for other faults.
    """
    if not file.exists():
        return []
    told, rows = read(file)
    for name in ("seed", "only", "method"):
        if told.get(name) != about[name]:
            raise SystemExit(
                f"{file}: its rows are of a campaign with {name} {told.get(name)!r}, and this one "
                f"has {about[name]!r}. Give another file."
            )
    text = file.read_text()
    if text and not text.endswith("\n"):  # a torn line ends here, and no row is appended to it
        file.write_text(text + "\n")
    return rows


# -- the page ---------------------------------------------------------------------------------


def facts_of() -> list[tuple[str, str]]:
    """Return every kind of fault with what its class says of it."""
    from tests.chaos.run import KINDS  # which imports this module

    told = {kind.__name__: (kind.__doc__ or "").strip().splitlines()[0] for kind, _ in KINDS}
    return list(told.items())


def counted(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return how rows ended, as "12 done, 3 resumed".

    Examples
    --------
    >>> from tests.chaos.table import counted
    >>> counted([{"outcome": "resumed"}, {"outcome": "done"}, {"outcome": "resumed"}])
    '1 done, 2 resumed'
    """
    found = Counter(row["outcome"] for row in rows)
    return ", ".join(f"{found[name]} {name}" for name in OUTCOMES if found[name]) or "–"


def by_fault(rows: Sequence[Mapping[str, Any]], facts: Sequence[tuple[str, str]]) -> str:
    """Return the table of kinds of faults: what strikes, how often, how it ended."""
    body = []
    for name, told in facts:
        own = [row for row in rows if row["fault"] == name]
        if own:
            slowest = f"{max(row['seconds'] for row in own):.0f}"
            body.append([name, told.rstrip("."), counted(own), str(len(own)), slowest])
    return markdown_table(
        ["fault", "what happens", "outcomes", "faults", "longest, s"], body, left=3
    )


def by_method(rows: Sequence[Mapping[str, Any]], facts: Sequence[tuple[str, str]]) -> str:
    """Return the table of faults over methods: how many runs of each were struck by each."""
    methods = list(dict.fromkeys(row["method"] for row in rows))
    body = []
    for name, _ in facts:
        own = [row for row in rows if row["fault"] == name]
        if own:
            cells = [[row for row in own if row["method"] == method] for method in methods]
            body.append([name, *(_cell(cell) for cell in cells)])
    return markdown_table(["fault", *methods], body)


def _cell(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return outcomes by their first letters, such as "2d 1r"."""
    found = Counter(row["outcome"] for row in rows)
    return " ".join(f"{found[name]}{_letter(name)}" for name in OUTCOMES if found[name]) or "–"


def _letter(outcome: str) -> str:
    return {"refused": "f", "BAD": "BAD"}.get(outcome, outcome[0])


def page(about: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the page."""
    facts = facts_of()
    bad = [row for row in rows if row["bad"]]

    def parts() -> Iterator[str]:
        yield INTRO
        yield wrapped(_measured(about, rows)) + "\n"
        yield "## What came of each fault\n"
        yield wrapped(OUTCOMES_TOLD) + "\n"
        yield by_fault(rows, facts) + "\n"
        if bad:
            yield "## What must not be and was\n"
            for row in bad:
                where = f"{row['fault']} of {row['party']}, {row['method']}, number {row['number']}"
                yield wrapped(f"- {where}: {row['bad']}.") + "\n"
        yield "## Faults and methods\n"
        yield wrapped(LETTERS) + "\n"
        yield by_method(rows, facts) + "\n"
        yield LIMITS

    return "\n".join(parts())


def _measured(about: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> str:
    versions = ", ".join(f"{name} {number}" for name, number in about["versions"].items())
    bad = sum(bool(row["bad"]) for row in rows)
    late = sum(row["outcome"] == "too late" for row in rows)
    load = sorted(row["load"] for row in rows if "load" in row)
    keys = sum(row.get("keys", 0) for row in rows)
    busy = f", load averages of {load[0]:.0f} to {load[-1]:.0f}" if load else ""
    return (
        f"{len(rows)} faults of seed {about['seed']}, {late} of them too late to strike; {bad} "
        f"ended as they must not. {keys:,} keys were noted. Struck {about['date']}, commit "
        f"{about['commit']}, {about['jobs']} at once, on {about['cores']} cores{busy}; "
        f"{about['system']}, Python {about['python']}, {versions}."
    )


INTRO = """\
# Faults

Written by `make chaos`; do not edit. A campaign strikes small runs of every method, each in
processes of its own, and looks at what comes of them. Seed and number of a fault decide which fault
it is, whom it strikes, in a run of which method, and when.

A run that was struck must end in time: with the labels of an undisturbed run, or with one sentence
that says what happened and how to go on; `daskfc resume` must then give those labels. After every
fault the campaign looks for

- runs that hang: more than five minutes, on a machine that does much else, with a deadline of
  8 s where a party stays away;
- processes and temporary files that are left, and files in a client's workspace or in the run's
  folder that only a run under way needs;
- stores with another byte than before, and run folders that `daskfc runs` and `daskfc status`
  cannot read or tell untruly of, or whose labels and ledger do not match their checksums;
- masks, shares and noise whose key hid two arrays: every process notes digests of both, in a hook
  of the campaign, outside daskfc;
- budgets: the ε that a site's memory counts may never get less.
"""
OUTCOMES_TOLD = (
    "*done*: the run that was struck went on and ended well. *resumed*: it was killed, or ended "
    "with a sentence, and a resume ended well. *refused*: a sentence says why there is no way to "
    "go on, where that is right: files or stores were changed, or a budget of noise for one fit "
    "is spent (*FedSC, budget*). *too late*: the run had ended before. The time is from the fault "
    "to the end of the run that it struck."
)
LETTERS = (
    "How many faults ended how: d done, r resumed, f refused, t too late, s skipped. Methods take "
    "turns; a campaign of more faults fills more cells."
)
LIMITS = """\
## What this does not show

- Data are small, so that fits take seconds: faults strike starts, messages and ends of fits more
  often than long computations.
- All parties are on one machine. A network that is cut is a relay that holds back what it should
  pass on, between one party and the scheduler and from the others to that party; what the party
  asks of others directly still arrives. Links have no TLS here, clocks do not jump, and no machine
  loses power, though some processes do at once.
- Labels of FedSC under noise are compared as groups that lie far apart, since each start draws
  noise of its own.
- Keys are noted where masks are added, rows are shared out and noise is added. The polynomials
  that hide OmniFC's answers are not among them.
- Parties have memory limits of 1.1 times what the plan foresees, or 310 MB. The fault *MemoryLimit*
  is that of the operating system on one process, set in the middle of a run.
- A server that was struck itself may keep in its workspace what a resumed run would need.
- Baselines that pool all rows at the server are not struck.
"""


def main() -> int:
    """Write the page of a file of rows."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--page", type=Path, default=PAGE)
    options = parser.parse_args()
    about, rows = read(options.file)
    options.page.write_text(page(about, rows))
    print(f"{options.page}: {len(rows)} faults")
    return 0


if __name__ == "__main__":
    sys.exit(main())
