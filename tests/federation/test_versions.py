"""What another version at the scheduler or at a party leads to."""

import re

import pytest
from distributed.versions import get_versions

from daskfc.errors import ClusterError
from daskfc.federation.versions import HERE, check_party_versions, check_scheduler_versions

RELEASE = ".".join(HERE["dask"].split(".")[:2])
MINOR = ".".join(HERE["python"].split(".")[:2])
SCHEDULER = {**HERE, **get_versions(packages=["daskfc"])["packages"]}  # as a scheduler answers


def test_the_same_and_another_patch_of_python_pass_silently():
    check_party_versions({"a": HERE, "b": {**HERE, "python": f"{MINOR}.99"}})
    check_scheduler_versions({**SCHEDULER, "python": f"{MINOR}.99.final.0"})


@pytest.mark.parametrize(
    ("package", "other"),
    [
        ("daskfc", HERE["daskfc"] + ".post1"),
        ("daskfc", None),
        ("python", "3.1.7"),
        ("dask", "2024.1.0"),
        ("distributed", "2024.1.0"),
    ],
)
def test_another_version_is_refused_and_named(package, other):
    with pytest.raises(ClusterError) as refusal:
        check_party_versions({"a": HERE, "b": {**HERE, package: other}})
    assert str(refusal.value) == (
        f"party 'b' runs {package} {other or 'unknown'} and this process {HERE[package]}; "
        "a federation needs one version of daskfc, one minor version of Python and one release of "
        "Dask. Install there what is installed here, or the other way round."
    )


def test_all_that_differs_is_named_at_once():
    with pytest.raises(ClusterError, match=r"party 'a' runs daskfc 0 .*, party 'b' runs dask 1 "):
        check_party_versions({"a": {**HERE, "daskfc": "0"}, "b": {**HERE, "dask": "1"}})


def test_a_party_that_tells_no_versions_is_refused():
    with pytest.raises(ClusterError, match="party 'a' runs daskfc unknown"):
        check_party_versions({"a": {}})


def test_another_patch_of_dask_is_a_warning():
    other = {**HERE, "dask": f"{RELEASE}.99"}
    said = re.escape(f"party 'a' runs dask {RELEASE}.99 and this process {HERE['dask']}; patches")
    with pytest.warns(UserWarning, match=said):
        check_party_versions({"a": other, "b": HERE})
    with pytest.warns(UserWarning, match=f"the scheduler runs dask {RELEASE}.99 "):
        check_scheduler_versions({**SCHEDULER, "dask": f"{RELEASE}.99"})


def test_the_scheduler_reads_graphs_and_needs_the_same_too():
    check_scheduler_versions({**SCHEDULER, "msgpack": "9"})
    for package, other in {"distributed": "2024.1.0", "python": None, "daskfc": "0"}.items():
        with pytest.raises(ClusterError, match=f"^the scheduler runs {package} {other or 'unkn'}"):
            check_scheduler_versions({**SCHEDULER, package: other})
