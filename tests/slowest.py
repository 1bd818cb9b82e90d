"""The ten files of tests that take longest, as a table: ``python -m tests.slowest RESULTS.xml...``.

Results are those of ``make tests PYTEST_ARGS=--junit-xml=RESULTS.xml``.
"""

import sys
from collections import defaultdict
from xml.etree import ElementTree


def slowest(results, n=10):
    """Return the rows of a table: file, seconds of all its tests, and the longest of them."""
    files = defaultdict(list)
    for case in (one for file in results for one in ElementTree.parse(file).iter("testcase")):
        # a test in a class has the class after the module's name
        parts = [part for part in case.get("classname").split(".") if not part[:1].isupper()]
        name = case.get("name").partition("[")[0]
        files["/".join(parts) + ".py"].append((float(case.get("time")), name))
    ranked = sorted(files.items(), key=lambda item: -sum(seconds for seconds, _ in item[1]))
    for file, cases in ranked[:n]:
        total, (longest, name) = sum(seconds for seconds, _ in cases), max(cases)
        yield f"| `{file}` | {len(cases)} | {total:.0f} | `{name}`, {longest:.0f} s |"


if __name__ == "__main__":
    print("| file | tests | seconds | the longest |")
    print("|------|------:|--------:|-------------|")
    print(*slowest(sys.argv[1:]), sep="\n")
