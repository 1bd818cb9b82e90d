"""The page of UMAP on MNIST, from runs that are done."""

import json
import sys

from pipelines.papers.omnifc import umap_mnist
from tests.pipelines.papers.pages import row_of


def test_runs_that_are_done_are_read(tmp_path, monkeypatch):
    found = {"ari": 0.92, "nmi": 0.91, "kappa": 0.9, "clusters": 10, "noise": 7, "seconds": 12.0}
    (tmp_path / "umap-umap-learn-7000.json").write_text(json.dumps(found))
    (tmp_path / "umap-OmniFC-7000.json").write_text(json.dumps({**found, "server": 5 * 10**8}))
    page = tmp_path / "page.md"
    asked = ["--samples", "7000", "--only", "umap-learn", "--out", str(page)]
    monkeypatch.setattr(sys, "argv", ["umap_mnist", *asked, "--runs-dir", str(tmp_path)])
    umap_mnist.main()
    text = page.read_text(encoding="utf-8")
    assert "7,000 × 784 samples" in text
    assert "min_cluster_size 50" in " ".join(text.split())
    assert row_of(text, "OmniFC")[2:] == ["0.920", "0.910", "0.900", "10", "7", "12", "500"]
    assert row_of(text, "umap-learn")[-1] == "–"
    assert "| central" not in text
