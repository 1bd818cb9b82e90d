"""Where a server keeps the last result of fits that are alike, and which fits those are."""

import dataclasses

import numpy as np
import pytest

from daskfc.errors import InvalidInput
from daskfc.federation.party.options import PartyOptions, RunSettings
from tests.faults import tears

REQUEST = {
    "method": "FFCM",
    "package": "daskfc",
    "parameters": {"n_clusters": 3},
    "preparation": [],
    "columns": None,
    "submitter": None,
}
RUN = RunSettings(
    "first", 0, workspace="/of/the/driver", builds={"a": "1", "b": "2"}, request=REQUEST
)


def server(tmp_path, *, run=RUN, submitter="ana", **changes):
    run = dataclasses.replace(run, **changes)
    return PartyOptions(
        "server", "server", str(tmp_path), folder=str(tmp_path / "own"), run=run,
        submitter=submitter,
    )  # fmt: skip


def test_the_next_run_starts_from_what_the_last_one_kept(tmp_path):
    first = server(tmp_path).last_result()
    assert first.start() is None
    first.keep({"centers": np.ones((3, 2))})
    first.keep({"centers": np.full((3, 2), 2.0)})
    # another identity, another folder of the driver, and stores that have grown
    then = {"run_id": "second", "workspace": "/another", "builds": {"a": "8", "b": "9"}}
    np.testing.assert_array_equal(
        server(tmp_path, **then).last_result().start()["centers"], np.full((3, 2), 2.0)
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"request": {**REQUEST, "parameters": {"n_clusters": 4}}},
        {"request": {**REQUEST, "method": "FedSC"}},
        {"request": {**REQUEST, "package": "other"}},
        {"request": {**REQUEST, "preparation": [{"standardise": {}}]}},
        {"request": {**REQUEST, "columns": ["age"]}},
        {"random_state": 1},
        {"builds": {"a": "1"}},
        {"submitter": "eve"},
        {"submitter": None},
    ],
    ids=str,
)
def test_what_is_not_alike_starts_anew(tmp_path, changes):
    server(tmp_path).last_result().keep({"centers": np.ones((3, 2))})
    other = server(tmp_path, **{"workspace": "/another", **changes})
    assert other.last_result().start() is None


def test_a_fit_that_is_begun_again_starts_from_where_it_did(tmp_path):
    other = server(tmp_path, workspace="/another").last_result()
    assert server(tmp_path).last_result().start() is None
    other.keep({"centers": np.ones((3, 2))})
    assert server(tmp_path, start="again").last_result().start() is None
    started = server(tmp_path, workspace="/third").last_result()
    np.testing.assert_array_equal(started.start()["centers"], np.ones((3, 2)))
    other.keep({"centers": np.zeros((3, 2))})
    np.testing.assert_array_equal(started.start()["centers"], np.ones((3, 2)))


@tears
def test_a_torn_result_is_the_one_before(tmp_path, tear):
    result = server(tmp_path).last_result()
    for value in range(2):
        result.keep({"centers": np.full((3, 2), float(value))})
    tear(max(result.folder.iterdir()))
    np.testing.assert_array_equal(result.start()["centers"], np.zeros((3, 2)))


def test_a_server_without_a_folder_keeps_it_where_the_run_says(tmp_path):
    options = dataclasses.replace(server(tmp_path, results=str(tmp_path / "runs")), folder=None)
    options = dataclasses.replace(
        options, run=dataclasses.replace(options.run, workspace=str(tmp_path / "run"))
    )
    result = options.last_result()
    assert result.start() is None
    assert result.folder.parent == tmp_path / "runs"
    assert result.folder.stat().st_mode & 0o077 == 0


def test_a_server_with_a_folder_takes_no_place_from_the_caller(tmp_path):
    result = server(tmp_path, results="/of/the/caller").last_result()
    assert result.folder.is_relative_to(tmp_path / "own" / "last-results")


def test_without_any_place_it_is_refused(tmp_path):
    run = dataclasses.replace(RUN, workspace=str(tmp_path / "run"))
    options = PartyOptions("server", "server", str(tmp_path), run=run)
    with pytest.raises(InvalidInput, match="--workspace"):
        options.last_result().start()
