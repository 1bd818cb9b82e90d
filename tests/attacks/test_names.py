"""Names of a submitter's choice that lead out of a party's folder."""

import numpy as np
import pytest

from daskfc.baselines.pooled.central import cluster_pool, place_rows
from daskfc.errors import InvalidInput
from daskfc.pairwise import SymmetricGrid
from daskfc.protocols.fk_kmeans.party import iterate
from daskfc.secure.distances.parties.server import open_tiles


def tiles(name, folder):
    grid = SymmetricGrid(4, 2)
    return open_tiles(folder, name=name, grid=grid, n_neighbors=None, radius2=None)


STEPS = {
    "distances": tiles,
    "rows": lambda name, folder: iterate(None, None, (), None, None, name, folder),
    "pool": lambda name, folder: place_rows(
        {}, {}, 0, start=0, shape=(1, 1), run=name, workspace=folder
    ),
    "a pool that is removed": lambda name, folder: cluster_pool(
        1, clusterer=None, n_clusters=2, seed=0, run=name, workspace=folder
    ),
}


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("name", ["../victim", "x/../../victim", "..", "{}/victim"])
def test_a_name_leads_no_step_out_of_its_folder(tmp_path, step, name):
    """A group of another run was written over, and rows lay in a folder of the caller's choice."""
    own, victim = tmp_path / "own", tmp_path / "victim"
    (own / "x").mkdir(parents=True)
    victim.mkdir()
    np.save(victim / "rows.npy", np.ones(3))
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(InvalidInput, match="must be usable as the name of a folder"):
        STEPS[step](name.format(tmp_path), str(own))
    assert sorted(tmp_path.rglob("*")) == before
