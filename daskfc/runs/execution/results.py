"""Describe the clusters of a run, and write its results into its folder."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import xarray as xr

from daskfc.errors import PolicyRefused
from daskfc.federation import Federation
from daskfc.runs.outcome.evaluate import Truth
from daskfc.runs.outcome.fits import Fit, labels_cube
from daskfc.runs.outcome.folder import RunFolder
from daskfc.runs.outcome.labels import write_tables
from daskfc.runs.outcome.quality import told_by_one_column
from daskfc.runs.outcome.summary import summary_of
from daskfc.runs.pipeline.methods import CheckedPipeline
from daskfc.runs.report.changes import changes_since
from daskfc.runs.report.report import report_html
from daskfc.secure.profiles import ClusterProfiles, Profile


def profiles_of(
    federation: Federation, profile: Profile | None, labels: xr.DataArray
) -> tuple[ClusterProfiles | None, str]:
    """Return profiles of a first fit's clusters if asked for, or the reason why a site refuses."""
    if profile is None:
        return None, ""
    federation.report_progress("describing the clusters", 0, 0)
    try:
        return profile.fit(federation, labels), ""
    except PolicyRefused as error:  # a site's; the labels stay usable then
        return None, f"clusters are not described: {error}"


def write_results(
    folder: RunFolder,
    checked: CheckedPipeline,
    fits: Sequence[Fit],
    truth: Truth,
    total_s: float,
    others: Mapping[str, pd.DataFrame],
    made: Mapping[str, Any],
    missing: str,
) -> None:
    """Write all files of a finished run; `missing` says why clusters are not described."""
    record = folder.record
    if missing:
        record["warnings"] = [*record.get("warnings", ()), missing]
    cube = labels_cube(fits)  # first, so that labels are kept if a table or the page fails
    folder.write_labels(cube)
    write_tables(folder, cube["labels"])
    rows = [fit.ledger.assign(method=fit.method, seed=fit.seed) for fit in fits]
    rows += [ledger.assign(method=name, seed=-1) for name, ledger in others.items() if len(ledger)]
    every = pd.concat(rows, ignore_index=True)
    folder.write_ledger(every)
    prepared = others.get("preparation")
    found = summary_of(record, checked, fits, truth, total_s=total_s, preparation=prepared)
    by_rows = checked.own.split == "samples"
    changes = changes_since(record, fits[0].labels, made["profiles"], by_rows=by_rows)
    found["quality"]["warnings"] += told_by_one_column(made["profiles"])
    summary = {**found, **made, "changes": changes}
    done: dict[str, Any] = {"status": "done", "error": None, "resumable": False}
    folder.write_summary(summary)
    folder.write_text("report.html", report_html({**record, **done}, summary, every))
    if missing:
        done["warnings"] = record["warnings"]
    folder.update(**done)  # last: "done" promises the rest
