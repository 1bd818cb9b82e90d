"""A user's table whose sexes are the plainest clusters, and not the ones that were looked for."""

import numpy as np
import pandas as pd
import pytest

from daskfc.runs import run

pytestmark = pytest.mark.slow


def table(n, seed):
    """Return patients of four groups by age and body mass index, of both sexes alike."""
    random = np.random.default_rng(seed)
    group = random.integers(0, 4, n)
    days = random.integers(0, 700, n).astype("timedelta64[D]")
    return pd.DataFrame(
        {
            "patient": [f"p{seed}-{i}" for i in range(n)],
            "age": np.array([30.0, 30, 70, 70])[group] + random.normal(size=n) * 12,
            "bmi": np.array([22.0, 36, 22, 36])[group] + random.normal(size=n) * 4,
            "sex": random.integers(0, 2, n),
            "admission": np.datetime64("2023-01-01") + days,
            "group": group,
        }
    )


@pytest.fixture(scope="module")
def clients(tmp_path_factory):
    folder = tmp_path_factory.mktemp("one-column")
    sources = {}
    for i, name in enumerate(("hospital-a", "hospital-b", "hospital-c")):
        table(150, i).to_csv(folder / f"{name}.csv", index=False)
        columns = ["age", "bmi", "sex", "admission"]
        source = {"path": str(folder / f"{name}.csv"), "ids": "patient", "columns": columns}
        sources[name] = {"source": {**source, "dates": ["admission"], "labels": "group"}}
    return sources


@pytest.mark.parametrize(("columns", "named"), [(4, True), (2, False)])
def test_the_column_that_makes_the_clusters_is_named(tmp_path, clients, columns, named):
    """Two clusters are men and women; without the column they are of several columns."""
    kept = ["age", "bmi", "sex", "admission"][:columns]
    own = {
        name: {
            "source": {
                **one["source"],
                "columns": kept,
                "dates": ["admission"] if "admission" in kept else None,
            }
        }
        for name, one in clients.items()
    }
    pipeline = {
        "method": "OmniFC",
        "params": {"n_clusters": 2 if named else 4, "clusterer": "k-means"},
        "prepare": ["impute", "one-hot", "standardise"],
        "profiles": True,
    }
    done = run(pipeline, storage={"clients": own}, runs_dir=str(tmp_path / "runs"))
    quality = done.summary["quality"]
    told = [line for line in quality["warnings"] if "alone makes the clusters" in line]
    assert bool(told) == named
    if named:
        assert told[0].startswith("column 'sex' alone makes the clusters: 100%")
        assert told[0] in (done.folder / "report.html").read_text().replace("&#39;", "'")
    else:
        assert done.summary["metrics"]["OmniFC"]["ari"]["mean"] > 0.5
    assert quality["sites"] == pytest.approx(0.0, abs=0.02)
