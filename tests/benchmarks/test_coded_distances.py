"""Coded distances against plain float64 ones, measured in the same interleaved run.

Coded: encoding, the answers of all R = 2l + 3 evaluators (t = 2; l = 1 by default, which has no
segments to hide, or l = 2) on the upper triangle of blocks, reconstruction, and real distances.
Plain: scikit-learn's `euclidean_distances(squared=True)` in float64 with the BLAS's own threads,
and our own tiled, symmetric, two-thread dgemm version. The coded and the tiled version run on two
Python threads with one BLAS or onnxruntime thread each.

Each round runs every variant once; printed are medians of the ratios within a round, of wall
time and of processor time. On a busy machine wall times mean little and processor times more.

As an ordinary test it runs on a small n. The issue's size:

    python tests/benchmarks/test_coded_distances.py           # n = 8000, d = 784
    DASKFC_BENCHMARK_N=8000 pytest tests/benchmarks/test_coded_distances.py -s
"""

import argparse
import os
import statistics
import threading
import time
from collections.abc import Callable, Iterable

import numpy as np
import pytest
from sklearn.metrics.pairwise import euclidean_distances
from threadpoolctl import threadpool_info, threadpool_limits

from daskfc.coding import (
    BYTE_PRIMES,
    HidingPolynomial,
    LagrangeCode,
    ResidueSystem,
    SecretKey,
    coded_distances,
    prepare,
    quantise,
    reconstruct,
    select_engine,
)

CODES = {1: LagrangeCode(1, 2, 5), 2: LagrangeCode(2, 2, 7)}  # by l


def pixels(n: int, d: int) -> np.ndarray:
    """Sparse bytes like handwritten digits: 19 % ink, whole numbers up to 255."""
    rng = np.random.default_rng(0)
    return np.where(rng.random((n, d)) < 0.19, rng.integers(0, 256, (n, d)), 0).astype(np.float64)


def residue_system(X: np.ndarray, r: int) -> ResidueSystem:
    """r primes for whole numbers; the bound of section 2 of the design needs r >= 4 at d = 784."""
    return ResidueSystem(
        BYTE_PRIMES[:r], scale=1.0, bound=int(4 * np.einsum("ij,ij->i", X, X).max())
    )


def is_used(engine_name: str) -> bool:
    """Return whether an engine is there and exact here: int8 may saturate without VNNI."""
    return select_engine(ResidueSystem(BYTE_PRIMES, 1.0, 1), 786, engine_name).name == engine_name


def on_two_threads(jobs: Iterable[Callable[[], None]]) -> None:
    """Two threads pull jobs until none is left; the first error is raised again."""
    queue = iter(list(jobs))
    lock = threading.Lock()
    errors: list[BaseException] = []

    def work() -> None:
        while not errors:
            with lock:
                job = next(queue, None)
            if job is None:
                return
            try:
                job()
            except BaseException as error:
                errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def panels(n: int, size: int) -> list[slice]:
    return [slice(start, min(start + size, n)) for start in range(0, n, size)]


def tiled_plain(X: np.ndarray, tile: int = 512) -> np.ndarray:
    """Squared distances by symmetric tiles: gemm, norms, clipping, mirrored."""
    n = len(X)
    D = np.empty((n, n))
    norms = np.einsum("ij,ij->i", X, X)
    parts = panels(n, tile)

    def block(rows: slice, columns: slice) -> None:
        G = X[rows] @ X[columns].T
        G *= -2.0
        G += norms[rows, None]
        G += norms[columns]
        np.maximum(G, 0.0, out=G)
        D[rows, columns] = G
        if rows != columns:
            D[columns, rows] = G.T

    with threadpool_limits(1, user_api="blas"):
        on_two_threads(
            [lambda a=a, b=b: block(a, b) for i, a in enumerate(parts) for b in parts[i:]]
        )
    np.fill_diagonal(D, 0.0)
    return D


def coded(
    X: np.ndarray,
    system: ResidueSystem,
    engine_name: str,
    code: LagrangeCode,
    *,
    hidden: bool,
    panel: int = 512,
    dtype: type = np.float32,
    times: dict[str, float] | None = None,
) -> np.ndarray:
    """The whole protocol, all parties on this machine; returns real squared distances."""
    n, d = X.shape
    m = code.n_evaluators
    spent = {} if times is None else times
    parts = panels(n, panel)
    shares: list[np.ndarray] = [np.empty(0)] * len(parts)
    operands: dict = {}
    key = SecretKey.from_os()
    engine = select_engine(system, code.n_columns(d), engine_name)
    assert engine.name == engine_name
    D = np.empty((n, n), dtype=dtype)
    buffers = threading.local()  # answers and distances of one block for each thread

    def encode(i: int) -> None:
        rows = quantise(X[parts[i]], system)
        shares[i] = code.encode(rows, system, key.derive("noise", i))

    def ready(j: int, i: int) -> None:
        for side in ("left", "right"):
            operands[j, i, side] = prepare(shares[i][j], system, engine, side)

    def timed(name: str, start: float) -> float:
        now = time.perf_counter()
        spent[name] = spent.get(name, 0.0) + (now - start) / 2
        return now

    def block(i: int, i2: int) -> None:
        """Answers of the evaluators for one block, then the server's part."""
        start = time.perf_counter()
        shape = (parts[i].stop - parts[i].start, parts[i2].stop - parts[i2].start)
        if not hasattr(buffers, "answers"):
            buffers.answers = np.empty(m * len(system.primes) * panel**2, dtype=system.dtype)
            buffers.integers = np.empty(panel**2, dtype=np.int64)
        size = shape[0] * shape[1]
        answers = buffers.answers[: m * len(system.primes) * size]
        answers = answers.reshape(m, len(system.primes), *shape)
        for j in range(m):
            hiding = (
                HidingPolynomial(code, system, j, key.derive("hide"), (i, i2)) if hidden else None
            )
            coded_distances(
                operands[j, i, "left"], operands[j, i2, "right"], system, engine,
                hiding=hiding, symmetric=i == i2, out=answers[j],
            )  # fmt: skip
        start = timed("evaluate", start)
        integers = buffers.integers[:size].reshape(shape)
        reconstruct(answers, range(m), code, system, out=integers)
        real = system.to_real(integers)
        D[parts[i], parts[i2]] = real
        if i != i2:
            D[parts[i2], parts[i]] = real.T
        timed("reconstruct", start)

    with threadpool_limits(1, user_api="blas"):
        start = time.perf_counter()
        on_two_threads(lambda i=i: encode(i) for i in range(len(parts)))
        now = time.perf_counter()
        spent["encode"] = spent.get("encode", 0.0) + now - start
        on_two_threads(lambda j=j, i=i: ready(j, i) for j in range(m) for i in range(len(parts)))
        spent["prepare"] = spent.get("prepare", 0.0) + time.perf_counter() - now
        blocks = [(i, i2) for i in range(len(parts)) for i2 in range(i, len(parts))]
        blocks.sort(key=lambda ij: ij[0] == ij[1])  # the cheaper diagonal ones last
        on_two_threads(lambda ij=ij: block(*ij) for ij in blocks)
    return D


def blas_in_use() -> str:
    libraries = [
        f"{x['internal_api']} {x['version']} {x.get('architecture', '')} x{x['num_threads']}"
        for x in threadpool_info()
        if x["user_api"] == "blas"
    ]
    forced = os.environ.get("OPENBLAS_CORETYPE", "not set")
    return f"{', '.join(sorted(set(libraries)))}; OPENBLAS_CORETYPE {forced}"


def compare(n: int, d: int, rounds: int, variants: list[tuple[str, int, bool, int]]) -> dict:
    X = pixels(n, d)
    systems = {r: residue_system(X, r) for _, r, _, _ in variants}
    exact = X[:200] @ X.T * -2 + (X[:200] ** 2).sum(1)[:, None] + (X**2).sum(1)
    phases: dict = {v: {} for v in variants}
    names = ["sklearn", "tiled", *variants]
    wall: dict = {name: [] for name in names}
    processor: dict = {name: [] for name in names}

    def measure(name: object, function: Callable[[], object]) -> object:
        start, used = time.perf_counter(), time.process_time()
        result = function()
        processor[name].append(time.process_time() - used)
        wall[name].append(time.perf_counter() - start)
        return result

    for v in variants:  # compile, test engines, touch pages
        coded(X[: min(n, 600)], systems[v[1]], v[0], CODES[v[3]], hidden=v[2])
    for _ in range(rounds):
        measure("sklearn", lambda: euclidean_distances(X, squared=True))
        measure("tiled", lambda: tiled_plain(X))
        for v in variants:
            D = measure(
                v,
                lambda v=v: coded(
                    X, systems[v[1]], v[0], CODES[v[3]], hidden=v[2], times=phases[v]
                ),
            )
            assert np.abs(D[:200] - exact).max() <= 6e-8 * exact.max()
            del D
    print(f"\nBLAS: {blas_in_use()}")
    print(f"n={n}, d={d}, t=2, 2l + 3 evaluators, {rounds} interleaved rounds, medians")
    for base in ("sklearn", "tiled"):
        print(f"{base} {statistics.median(wall[base]):.2f} s, "
              f"{statistics.median(processor[base]):.2f} s of processor")  # fmt: skip
    bases = "x sklearn (processor)  x tiled (processor)"
    print(f"{'engine':8}{'r':>3} {'l':>2} {'hiding':7} {bases}   phases")
    result = {}
    for v in variants:
        ratios = [
            statistics.median(a / b for a, b in zip(times[v], times[base], strict=True))
            for base in ("sklearn", "tiled") for times in (wall, processor)
        ]  # fmt: skip
        whole = sum(wall[v])
        split = ", ".join(f"{name} {value / whole:.0%}" for name, value in phases[v].items())
        numbers = "{:11.2f} {:11.2f} {:8.2f} {:11.2f}".format(*ratios)
        print(f"{v[0]:8}{v[1]:3d} {v[3]:2d} {'on' if v[2] else 'off':7}{numbers}   {split}")
        result[v] = ratios
    for r in sorted(systems):
        for segments in sorted({v[3] for v in variants}):
            print(f"wire, r={r}, l={segments}: {r * CODES[segments].n_evaluators} bytes per pair")
    return result


@pytest.mark.parametrize(
    ("segments", "hidden"), [(1, False), (2, False), (2, True)], ids=["default", "plain", "hidden"]
)
@pytest.mark.parametrize("engine_name", ["int8", "f32", "f64"])
def test_coded_distances(benchmark, engine_name, segments, hidden):
    if not is_used(engine_name):
        pytest.skip(f"the engine {engine_name} is missing, or not exact on this processor")
    n = int(os.environ.get("DASKFC_BENCHMARK_N", "300"))
    X = pixels(n, 784)
    system = residue_system(X, 4)
    D = benchmark(
        lambda: coded(
            X, system, engine_name, CODES[segments], hidden=hidden, panel=256, dtype=np.float64
        )
    )
    np.testing.assert_array_equal(D, tiled_plain(X, tile=128))  # whole numbers: exact in float64


def test_beside_scikit_learn(benchmark):
    n, rounds = (8000, 3) if benchmark.enabled else (300, 1)
    engines = [name for name in ("int8", "f32") if is_used(name)]
    variants = [(name, 4, False, 1) for name in engines] + [("f32", 4, True, 2)]
    benchmark.group = "Coded distances of all pairs"
    found = benchmark.pedantic(compare, (n, 784, rounds, variants))
    benchmark.extra_info["rows"] = [
        {"engine": v[0], "segments": v[3], "x scikit-learn": ratios[0], "of processor": ratios[1]}
        for v, ratios in found.items()
    ]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=8000)
    parser.add_argument("--d", type=int, default=784)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--engines", default="int8,f32")
    parser.add_argument("--primes", default="4,6")
    arguments = parser.parse_args()
    compare(
        arguments.n, arguments.d, arguments.rounds,
        [(name, int(r), hidden, segments) for name in arguments.engines.split(",")
         for r in arguments.primes.split(",")
         for segments, hidden in ((1, False), (2, False), (2, True))],
    )  # fmt: skip
