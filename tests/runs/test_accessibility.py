"""The report in a browser: axe finds nothing, and a phone shows all of it."""

import numpy as np
import pandas as pd
import pytest

from daskfc.federation import Ledger
from daskfc.runs.outcome.communication import communication_of, ledger_frame
from daskfc.runs.report.card import card_page
from daskfc.runs.report.report import report_html
from tests.runs.browser import looked_at, pages_on_paper
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
        "method": "FedSC", "status": "done", "seeds": [0, 1], "n_samples": 4000, "n_clients": 4,
        "metrics": {m: {s: {"mean": 0.5, "std": 0.01} for s in ("kappa", "nmi", "ari", "acc", "f1")}
                    for m in ("FedSC", "central")},
        "methods": {"central": {"note": "sees raw data"}},
        "quality": {"sizes": sizes, "by_client": by_client, "noise": 0.1, "stability": 0.9,
                    "silhouette": 0.4, "sites": 0.2, "silhouettes": dict.fromkeys(clusters, 0.31),
                    "warnings": ["cluster 3 has samples of one client only."]},
        "confusion": {"classes": [f"a long name of class {i}" for i in range(12)],
                      "clusters": clusters, "counts": rng.integers(0, 50, (12, 12)).tolist()},
        "profiles": {"columns": [f"column-{i}" for i in range(30)], "clusters": clusters,
                     "means": rng.normal(size=(12, 30)).tolist(),
                     "stds": rng.random((12, 30)).tolist(),
                     "standardised": rng.normal(size=(12, 30)).tolist(),
                     "overall_mean": rng.normal(size=30).tolist(),
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
        "choices": {"distances": "columns: distances to some samples give all others"},
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
        "card": card(),
    }


def card():
    """Return a card on which nothing that one can show is missing."""
    ledger = [ledger_row(), ledger_row(sender="server", receiver="caller", message="Labels")]
    sites = {"hospital-a": 1200, "hospital-b": 800}
    return card_page({
        "run": "night", "title": "Patients of two hospitals, autumn", "purpose": "To plan beds",
        "begun": "2026-11-23T10:00:00+00:00", "method": "FedSC", "compared": {"k-FED": "no noise"},
        "seeds": [0, 1], "prepared": ["impute", {"standardise": {"within": "site"}}],
        "n_samples": 2000, "n_sites": 2, "sites": sites, "columns": ["age", "bmi"],
        "where": "sites", "statement": "the server learns much.",
        "policy": {"raw": True, "ids": "clear", "smallest": {"samples": 5, "clients": 2},
                   "not_described": {"3": "it has fewer than 5 samples"}},
        "noise": {"kind": "data", "sigma": 2.0, "delta": 1e-5, "epsilon": 3.0, "fits": 1},
        "messages": communication_of(ledger_frame(Ledger(ledger))),
        "learns": {"client": ["means"], "server": ["distances"], "caller": ["labels"]},
        "ledgers": {"keys": {"server": ["ab" * 32]}, "holds": False, "findings": ["a line fails."]},
        "warnings": ["clusters are nearly sites."], "versions": {"dask": "2026.1"},
        "hashes": {"settings": "cd" * 32, "store of hospital-a": "ef" * 32},
    })  # fmt: skip


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("page", ["everything", "failed", "nothing found", "card"])
def test_axe_finds_nothing_and_a_phone_shows_all_of_it(page, dark, tmp_path):
    told = looked_at(pages()[page], tmp_path, WIDTHS, dark=dark)
    for width, found in told.items():
        assert found["violations"] == []
        assert {"color-contrast", "document-title", "region"} <= set(found["passes"])
        assert found["dark"] is dark
        assert found["wide"] <= width


def test_a_pointer_over_the_map_is_told_the_cluster(tmp_path):
    hovered = looked_at(of_everything(), tmp_path, [1200])[1200]["hovered"]
    assert len(hovered) == 13  # noise, and twelve clusters
    assert sum(told is not None for told in hovered) == 13
    assert any(told.startswith("cluster 7: ") for told in hovered)


def test_the_first_part_is_two_sheets_of_paper_and_a_card_two(tmp_path):
    """With twelve clusters at four sites, as many as have a sentence."""
    first = of_everything().partition('<section class="appendix">')[0] + "</main></body></html>"
    assert pages_on_paper(first, tmp_path) <= 2
    assert pages_on_paper(of_everything(), tmp_path) > 2
    assert pages_on_paper(card(), tmp_path) <= 2


def test_what_axe_must_find_is_found(tmp_path):
    """The same way of looking, at a page with faults: too pale, and an image without words."""
    page = report_html({"run_id": "r", "status": "done"}, {})
    faulty = page.replace("<footer>", '<p style="color: #ccc; background: #fff">pale</p><img>')
    wide = faulty.replace("<main>", '<main><div style="width: 700px">wide</div>')
    found = looked_at(wide, tmp_path, [400])[400]
    kinds = {violation.split(":")[0] for violation in found["violations"]}
    assert {"color-contrast", "image-alt"} <= kinds
    assert found["wide"] > 400
