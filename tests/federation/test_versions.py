"""What another version at the scheduler or at a party leads to."""

import linecache
import re
from importlib import metadata

import pytest
from distributed.versions import get_versions

from daskfc.errors import ClusterError
from daskfc.federation.identity import versions
from daskfc.federation.identity.versions import HERE, check_party_versions, check_scheduler_versions

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


def test_a_scheduler_that_cannot_tell_daskfc_is_compared_with_who_cannot_either(monkeypatch):
    silent = {**SCHEDULER, "daskfc": None}
    monkeypatch.setattr(
        versions, "get_versions", lambda packages: {"packages": dict.fromkeys(packages)}
    )
    check_scheduler_versions(silent)
    with pytest.raises(
        ClusterError, match=r"^the scheduler runs daskfc 9 and this process unknown"
    ):
        check_scheduler_versions({**SCHEDULER, "daskfc": "9"})


def test_versions_are_those_of_the_packages_that_are_installed():
    assert HERE["dask"] == metadata.version("dask")
    assert versions._installed("distributed") == metadata.version("distributed")
    assert versions._installed("no-such-package-as-this") == "not installed"


def test_the_warning_points_to_who_opens_the_federation():
    with pytest.warns(UserWarning, match="runs dask") as caught:
        opens_a_federation({"a": {**HERE, "dask": f"{RELEASE}.99"}})
    (warning,) = caught
    assert warning.category is UserWarning
    assert warning.filename == __file__
    assert linecache.getline(__file__, warning.lineno).strip() == "opening(theirs)"


def opens_a_federation(theirs):
    opening(theirs)


def opening(theirs):
    check_party_versions(theirs)
