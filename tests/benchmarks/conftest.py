from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.hookimpl(wrapper=True, tryfirst=True)  # outside of what saves them
def pytest_sessionfinish(session):
    """Leave out what failed before it had a time: else nothing of all the others is saved."""
    found = getattr(session.config, "_benchmarksession", None)
    if found is not None:
        found.benchmarks = [one for one in found.benchmarks if one.stats.data]
    return (yield)


def pytest_collection_modifyitems(items):
    """Leave benchmarks out of `make test`; `make bench` runs all of them."""
    for item in items:
        if "benchmark" in getattr(item, "fixturenames", ()) and item.path.parent == HERE:
            item.add_marker(pytest.mark.long)
