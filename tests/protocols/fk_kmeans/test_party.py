"""The rows of an iteration: there for as long as a step needs them, in whatever order steps run."""

from dataclasses import replace

import numpy as np

from daskfc.protocols.fk_kmeans.features import FeatureSettings
from daskfc.protocols.fk_kmeans.messages import FeaturePlan
from daskfc.protocols.fk_kmeans.party import embedding, iterate
from daskfc.protocols.fk_kmeans.server import told_eigenpairs
from daskfc.stores import ClientStore
from daskfc.testing.federation import stores_of

ROWS = np.random.default_rng(0).normal(size=(30, 3))
SETTINGS = FeatureSettings("gaussian", 3, 8, 0)


def eigenpairs(gram, before=None):
    values, vectors = np.linalg.eigh(gram)
    return told_eigenpairs(values[::-1], vectors[:, ::-1], before, 3, 3)


def test_what_is_made_of_other_things_is_told_apart(tmp_path):
    """By what noise is drawn from: one noise on two Gram matrices would tell their difference."""
    data = ClientStore.open(stores_of(tmp_path, {"a": ROWS})["a"])
    plan = FeaturePlan(1.0, len(ROWS), np.empty(0))

    def made(before=None, past=(), plan=plan, settings=SETTINGS):
        return iterate(data, before, past, plan, settings, "fit", str(tmp_path / "own"))

    first = made()
    found = eigenpairs(first.gram)
    assert made().made_of == first.made_of
    others = [
        made(settings=replace(SETTINGS, random_state=1)),
        made(settings=replace(SETTINGS, kernel="laplacian")),
        made(plan=FeaturePlan(1e12, len(ROWS), np.empty(0))),
        made(plan=FeaturePlan(1.0, len(ROWS), np.ones(3))),
        made(first, [found]),
        made(made(plan=FeaturePlan(2.0, len(ROWS), np.empty(0))), [found]),
        made(first, [replace(found, threshold=2.0 * found.threshold)]),
        made(first, [replace(found, values=2.0 * found.values)]),
        made(first, [replace(found, vectors=found.vectors[:, ::-1].copy())]),
    ]
    assert len({one.made_of for one in (first, *others)}) == 1 + len(others)


def test_rows_are_read_after_an_earlier_iteration_was_repeated(tmp_path):
    """Dask repeats them where a server dies, while later iterations are there and go on."""
    data = ClientStore.open(stores_of(tmp_path, {"a": ROWS})["a"])

    def step(before, past, run="fit"):
        plan = FeaturePlan(1.0, len(ROWS), np.empty(0))
        return iterate(data, before, past, plan, SETTINGS, run, str(tmp_path / "own"))

    def files():
        return sorted((tmp_path / "own").glob("*/iteration-*"))

    first = step(None, [])
    of_first = eigenpairs(first.gram)
    second = step(first, [of_first])
    past = [of_first, eigenpairs(second.gram, of_first)]
    third = step(second, past[-1:])
    last = [*past, eigenpairs(third.gram, past[-1])]
    whole = embedding(third, last[-1], 3)
    del first, third  # as Dask does when no step that is left needs them
    assert len(files()) == 1
    repeated = step(None, [])
    np.testing.assert_array_equal(eigenpairs(repeated.gram).vectors, of_first.vectors)
    third = step(second, past[-1:])
    np.testing.assert_array_equal(embedding(third, last[-1], 3), whole)
    from_the_start = step(None, past)
    np.testing.assert_allclose(embedding(from_the_start, last[-1], 3), whole, atol=1e-12)
    (left,) = {file.parent for file in files()}
    (left / "iteration-9-left.zarr").mkdir()  # of a process that was killed
    del second, repeated, third, from_the_start
    assert [file.name for file in files()] == ["iteration-9-left.zarr"]
    kept = step(None, [], run="another fit")
    assert len(files()) == 1
    del kept
    assert not files()
