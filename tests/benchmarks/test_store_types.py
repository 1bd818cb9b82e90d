"""What choosing the type of a store costs: bytes on disk and seconds, beside float32 by hand.

Rows wait as float64 until all are there, and are then written in the type that they need. With
benchmarks off: few samples.
"""

import time

import numpy as np
import pandas as pd
import pytest

from daskfc.stores import add_store

N, D = 100_000, 20


def csv_of(path, offset, scale, n):
    X = np.random.default_rng(0).normal(offset, scale, size=(n, D))
    pd.DataFrame(X).to_csv(path, index=False)
    return str(path)


def built(file, url, dtype, turns):
    """Return the row of a store, and the least seconds of several turns."""
    seconds = []
    for _ in range(turns):
        start = time.perf_counter()
        row = add_store("a", [file], url, source={}, dtype=dtype, overwrite=True)
        seconds.append(time.perf_counter() - start)
    return row, min(seconds)


def rows_of(folder, n, turns):
    rows = []
    for data, offset, scale in [("fractions", 0.0, 1.0), ("time stamps", 1.65e9, 1e4)]:
        file = csv_of(folder / f"{offset}.csv", offset, scale, n)
        for dtype in ("float32", "float64", None):
            if (data, dtype) == ("time stamps", "float32"):
                continue  # refused
            row, seconds = built(file, f"{folder}/{offset}-{dtype}.zarr", dtype, turns)
            found = {"data": data, "by hand": dtype or "–", "stored": row["dtype"]}
            rows.append({**found, "MB": row["bytes_on_disk"] / 1e6, "s": seconds})
    for row in rows:
        row |= {"bytes, ratio": row["MB"] / rows[0]["MB"], "time, ratio": row["s"] / rows[0]["s"]}
    return rows


@pytest.mark.slow
def test_store_types(benchmark, tmp_path):
    n, turns = (N, 3) if benchmark.enabled else (2000, 1)
    benchmark.group = "Stores whose type is chosen"
    benchmark.extra_info["rows"] = rows = benchmark.pedantic(rows_of, args=(tmp_path, n, turns))
    assert [row["stored"] for row in rows] == ["float32", "float64", "float32", *["float64"] * 2]
    assert rows[2]["bytes, ratio"] == pytest.approx(1, abs=0.01)
