"""The report in a browser: axe finds nothing, and a phone shows all of it."""

import numpy as np
import pandas as pd
import pytest

from daskfc.federation import Ledger
from daskfc.runs.outcome.communication import communication_of, ledger_frame
from daskfc.runs.report.report import report_html
from tests.runs.browser import looked_at
from tests.runs.fakes import ledger_row

pytestmark = pytest.mark.slow

WIDTHS = [400, 1200]


def of_everything():
    """Return a page on which nothing that a report can show is missing."""
    rng = np.random.default_rng(0)
    clients = [f"hospital-{name}" for name in ("amsterdam", "berlin", "chur", "dakar")]
    rows = [
        ledger_row(sender=a, receiver=b, message=kind, payload_bytes=int(10 ** rng.uniform(1, 6)),
                   time=float(rng.uniform(0, 5)), task=f"{a}{b}{kind}",
                   noise_multiplier=3.0 if kind == "NoisyMoments" else None)
        for a in clients for b in ("server", "caller")
        for kind in ("NoisyMoments", "LabelledSamples", "SampleSummary")
    ]  # fmt: skip
    rows += [ledger_row(sender="server", receiver=c, message="ClientLabels") for c in clients]
    ledger = ledger_frame(Ledger(rows)).assign(method="FedSC", seed=0)
    clusters = [str(i) for i in range(12)]
    by_client = {name: {c: int(rng.integers(0, 90)) for c in clusters} for name in clients}
    sizes = {c: sum(own[c] for own in by_client.values()) for c in clusters}
    summary = {
        "method": "FedSC", "status": "done", "seeds": [0], "n_samples": 4000, "n_clients": 4,
        "metrics": {m: {s: {"mean": 0.5, "std": 0.01} for s in ("kappa", "nmi", "ari", "acc", "f1")}
                    for m in ("FedSC", "central")},
        "methods": {"central": {"note": "sees raw data"}},
        "quality": {"sizes": sizes, "by_client": by_client, "noise": 0.1, "stability": 0.9,
                    "silhouette": 0.4, "warnings": ["cluster 3 has samples of one client only."]},
        "confusion": {"classes": [f"a long name of class {i}" for i in range(12)],
                      "clusters": clusters, "counts": rng.integers(0, 50, (12, 12)).tolist()},
        "profiles": {"columns": [f"column-{i}" for i in range(30)], "clusters": clusters,
                     "means": rng.normal(size=(12, 30)).tolist(),
                     "stds": rng.random((12, 30)).tolist(),
                     "standardised": rng.normal(size=(12, 30)).tolist(),
                     "separation": rng.random(30).tolist(),
                     "withheld": {"12": "it has fewer than 5 samples"}},
        "n_clusters_choice": {"n_clusters": 12, "by": "silhouette", "why": "it is the largest",
                              "scores": {"11": 0.25, "12": 0.5}},
        "map": {"positions": rng.integers(0, 256, (500, 2)).tolist(),
                "labels": rng.integers(-1, 12, 500).tolist(), "told": "What a map shows."},
        "communication": communication_of(ledger),
        "privacy": {"statement": "the server learns much.", "noise": {
            "kind": "data", "sigma": 2.0, "delta": 1e-5, "epsilon": 3.0, "fits": 1}},
        "timing": {"total_s": 5.0, "planning_s": 1.0, "rounds_s": 4.0},
        "stages": [["planning", 0.0, 1.0], ["rounds", 1.0, 5.0]],
        "peak_memory_bytes": {**dict.fromkeys(clients, 3e8), "server": 5e8},
        "histories": {"Loss": {c: [3.0, 2.0, 1.0] for c in clients}},
        "choices": {"distances": "columns: they give coordinates of all samples"},
    }  # fmt: skip
    settings = {"path": "/a/very/long/path/" * 12}
    record = {
        "run_id": "a-run-whose-name-says-everything-20261123-125326", "status": "done",
        "created": "2026-11-23", "error": None, "pipeline": settings,
        "versions": {"dask": "2026.1"},
    }  # fmt: skip
    return report_html(record, summary, ledger)


def pages():
    failed = {"run_id": "r", "status": "failed", "error": "no disk", "created": "2026-11-23"}
    summary = {"method": "OmniFC", "metrics": {}, "unscored": "client 'a' lacks true labels."}
    return {
        "everything": of_everything(),
        "failed": report_html(failed, {}),
        "nothing found": report_html(failed, summary, pd.DataFrame()),
    }


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("page", ["everything", "failed", "nothing found"])
def test_axe_finds_nothing_and_a_phone_shows_all_of_it(page, dark, tmp_path):
    told = looked_at(pages()[page], tmp_path, WIDTHS, dark=dark)
    for width, found in told.items():
        assert found["violations"] == []
        assert {"color-contrast", "document-title", "region"} <= set(found["passes"])
        assert found["dark"] is dark
        assert found["wide"] <= width


def test_what_axe_must_find_is_found(tmp_path):
    """The same way of looking, at a page with faults: too pale, and an image without words."""
    page = report_html({"run_id": "r", "status": "done"}, {})
    faulty = page.replace("<footer>", '<p style="color: #ccc; background: #fff">pale</p><img>')
    wide = faulty.replace("<main>", '<main><div style="width: 700px">wide</div>')
    found = looked_at(wide, tmp_path, [400])[400]
    kinds = {violation.split(":")[0] for violation in found["violations"]}
    assert {"color-contrast", "image-alt"} <= kinds
    assert found["wide"] > 400
