"""Draw small changes from every file of some rooms, and list those that no test notices.

``make mutants SAMPLE=300 ROOMS="stores site" SEED=0`` draws as many of each room, a file by its
length and a change in it by chance, of all that mutmut knows: in functions with a decorator, in
classes and modules as well. Each is written into a copy of the tree, so that all processes have it.
First all quick tests run once, and are asked which functions they call (`reached`). Each change
then gets those that call its function, the most special first, in a process that is warm (`warm`),
and the nearest to the file by how few imports lie between. What survived gets more, and slow ones.
What needs longer than its limit is unfinished, and so is what fails by a time limit and not again
with three times as long: the machine may be busy. Tests that fail without any change count for
nothing. It ends after ``MINUTES=60`` and goes on where it was; ``AGAIN=1`` tries again what was not
caught. Rows lie in ``.mutants/sample/rows.jsonl``; ``make mutants-report`` prints the table, and
what survived.

Survivors that no test can tell from the source, or that cannot be reached, are listed in
``accepted.toml``: ``[[accepted]]`` with ``file``, the ``old`` and the ``new`` line, a ``reason``. A
whole kind of them is ``[[kind]]`` with a regular expression of ``lines``, the old before the new.
"""

import argparse
import ast
import difflib
import json
import os
import random
import re
import subprocess
import sys
import time
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import repeat
from pathlib import Path
from typing import Any

import grimp

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.deploy.forked import Forked, Launcher
from tests.mutations.run import HERE, ROOT, copy_tree, run_tests, write

PLACE = ROOT / ".mutants" / "sample"
ROWS = PLACE / "rows.jsonl"
REACHED = PLACE / "reached"
PACKAGE = ROOT / "daskfc"
MESSAGES = [r'^\s*f?".*"$', r"^\s*raise "]  # lines of text: the tests hold errors to a part of it
TOP = "top"  # the room of files that lie beside the packages
QUICK_S, SLOW_S, TEST_S = 90, 150, 60  # of a change, and of one of its tests
NEAREST = 8  # files of tests
CALLING, ALIKE = 60, 4  # tests that call a function, and cases of one of them
QUICK = "not slow and not deploy"
ELSEWHERE = {"benchmarks", "deployments"}  # that measure, or need other programs


def rooms() -> list[str]:
    """Return the packages, and `TOP`."""
    found = (path.name for path in PACKAGE.iterdir() if (path / "__init__.py").is_file())
    return [*sorted(found), TOP]


def files_of(room: str) -> list[Path]:
    """Return a room's files, of which those without code may be many."""
    if room == TOP:
        return sorted(PACKAGE.glob("*.py"))
    return sorted((PACKAGE / room).rglob("*.py"))


# -- the nearest tests --------------------------------------------------------------------------


def name_of(path: Path) -> str:
    """Return a file's name as a module."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def _offered(package: str) -> Mapping[str, str]:
    """Return the modules of what a package with a stub imports when it is asked for."""
    stub = ROOT / package.replace(".", "/") / "__init__.pyi"
    if not stub.is_file():
        return {}
    nodes = ast.walk(ast.parse(stub.read_text(encoding="utf-8")))
    imports = [node for node in nodes if isinstance(node, ast.ImportFrom)]
    return {one.name: f"{package}.{node.module}" for node in imports for one in node.names}


@cache
def _names_in(path: Path) -> frozenset[str]:
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
            names |= {_offered(node.module).get(alias.name, "") for alias in node.names}
    return frozenset(names)


@cache
def _imported(path: Path) -> frozenset[str]:
    """Return all names that a file of tests imports, by way of other files of tests as well."""
    names, files = set(), [path]
    for one in files:  # grows meanwhile
        names |= (new := _names_in(one))
        beside = (ROOT / f"{name.replace('.', '/')}.py" for name in new if name[:6] == "tests.")
        files += [file for file in beside if file.is_file() and file not in files]
    return frozenset(names)


@cache
def _chains(module: str) -> Mapping[str, int]:
    """Return how many imports lie between each module that needs a module and it."""
    graph, far = _graph(), {module: 0}
    reached = [module]
    for one in reached:  # grows meanwhile
        for by in sorted(graph.find_modules_that_directly_import(one) - set(far)):
            far[by] = far[one] + 1
            reached.append(by)
    return far


@cache
def _graph() -> Any:
    return grimp.build_graph("daskfc", cache_dir=None)


def nearest_tests(path: Path) -> list[str]:
    """Return the examples of a file, and the files of tests that are nearest to it."""
    module, inside = name_of(path), path.relative_to(PACKAGE).parent.parts
    far = _chains(module)

    def place(file: Path) -> tuple[int, str]:
        needed = min((far[name] for name in _imported(file) if name in far), default=99)
        if file.stem == f"test_{path.stem}":
            needed = min(needed, 1) - 3  # commands are imported when they are called
        folders = file.relative_to(ROOT / "tests").parent.parts
        beside = sum(one == other for one, other in zip(folders, inside, strict=False))
        return needed - 2 * beside, str(file)

    every = (ROOT / "tests").rglob("test_*.py")
    tests = sorted((one for one in every if ELSEWHERE.isdisjoint(one.parts)), key=place)
    own = [str(path.relative_to(ROOT))]
    return own + [str(file.relative_to(ROOT)) for file in tests[:NEAREST]]


# -- the tests that call it ---------------------------------------------------------------------


def note_reached(tree: Path) -> None:
    """Run the quick tests of each folder that were not run yet, and keep what they call."""
    REACHED.mkdir(parents=True, exist_ok=True)
    beside = [path for path in (ROOT / "tests").iterdir() if path.name not in ELSEWHERE]
    tests = {path for path in beside if path.is_dir() and any(path.rglob("test_*.py"))}
    tests |= {path for path in beside if path.name.startswith("test_")} | {PACKAGE}
    for path in sorted(tests):
        kept = REACHED / f"{path.stem}.txt"
        if not kept.exists():
            os.environ["DASKFC_REACHED"] = str(partial := kept.with_suffix(".new"))
            partial.write_text("", encoding="utf-8")
            options = ["--maxfail=0", "-m", QUICK, "-p", "tests.mutations.reached"]
            told = run_tests(tree, [str(path.relative_to(ROOT))], options, 3600)
            print(f"what they call: {path.name} {told[:200]}", flush=True)
            partial.rename(kept)


@cache
def reached() -> Mapping[str, Sequence[str]]:
    """Return by function, as ``FILE:NAME``, the tests that call it, those that call least first."""
    tests: dict[str, list[str]] = {}
    for path in sorted(REACHED.glob("*.txt")):
        places = []
        for line in path.read_text(encoding="utf-8").splitlines():
            test, tab, numbers = line.partition("\t")
            if tab:
                tests[test] = [places[int(number)] for number in numbers.split()]
            else:
                places.append(line)
    found: dict[str, list[str]] = {}
    for test in sorted(tests, key=lambda test: (len(tests[test]), test)):
        for place in tests[test]:
            found.setdefault(place, []).append(test)
    return found


def calling_tests(path: Path, line: int) -> list[str]:
    """Return tests that call the function around a line of a file; none where nothing is known."""
    module = ast.parse(path.read_text(encoding="utf-8"))
    for name in reversed(_around(module, line)):  # the innermost that some test calls
        calling = reached().get(f"{path.relative_to(ROOT)}:{name}", ())
        cases: Counter[str] = Counter()
        chosen = []
        for test in calling:
            cases[name := test.partition("[")[0]] += 1
            if cases[name] <= ALIKE:
                chosen.append(test)
        if chosen:
            return chosen[:CALLING]
    return []


def _around(node: ast.AST, line: int, inside: str = "") -> list[str]:
    """Return the names of the functions around a line, as code calls itself, the outer first."""
    found = []
    for child in ast.iter_child_nodes(node):
        named = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        if isinstance(child, ast.stmt) and child.lineno <= line <= (child.end_lineno or 0):
            name = f"{inside}{child.name}" if named else inside
            a_class = isinstance(child, ast.ClassDef)
            found += [name] if named and not a_class else []
            below = inside if not named else f"{name}." if a_class else f"{name}.<locals>."
            found += _around(child, line, below)
        elif not isinstance(child, ast.stmt):  # branches of a match, handlers
            found += _around(child, line, inside)
    return found


# -- the changes --------------------------------------------------------------------------------


@cache
def changes_of(path: Path) -> tuple[Any, Sequence[tuple[Any, Any]]]:
    """Return a file as libcst reads it, and its nodes with what mutmut puts in their place."""
    import libcst
    from libcst.metadata import MetadataWrapper, PositionProvider
    from mutmut.mutation.mutators import mutation_operators

    text = path.read_text(encoding="utf-8")
    lines = enumerate(text.splitlines(), start=1)
    told = {n for n, line in lines if any(re.match(message, line) for message in MESSAGES)}
    found = []

    class Everywhere(libcst.CSTVisitor):
        """In whatever can be reached; mutmut itself leaves out what it cannot swap in a process."""

        METADATA_DEPENDENCIES = (PositionProvider,)

        def on_visit(self, node: Any) -> bool:
            place = self.get_metadata(PositionProvider, node, None)
            if isinstance(node, libcst.Annotation | libcst.Decorator) or _is_a_name(node):
                return False
            if place and place.start.line in told and isinstance(node, libcst.BaseExpression):
                return False
            for kind, changed in mutation_operators:
                if isinstance(node, kind):
                    found.extend((node, other) for other in changed(node))
            return True

    def _is_a_name(node: Any) -> bool:
        """Whether a list of names, or a type, is called something."""
        target = node.targets[0].target if isinstance(node, libcst.Assign) else None
        if not isinstance(target, libcst.Name):
            return False
        name = target.value
        a_type = isinstance(node.value, libcst.Subscript) and name == name.title() != name.upper()
        return name == "__all__" or a_type

    wrapper = MetadataWrapper(libcst.parse_module(text))
    wrapper.visit(Everywhere())
    return wrapper.module, found


def drawn(room: str, count: int, seed: int) -> Iterator[dict[str, Any]]:
    """Yield changes of a room: file, number in it, the lines that go and come, and the new text."""
    files = files_of(room)
    weights = [len(path.read_text(encoding="utf-8").splitlines()) for path in files]
    chance, seen = random.Random(f"{room} {seed}"), set()
    for _ in range(20 * count):
        if len(seen) == count:
            return
        path = chance.choices(files, weights)[0]
        module, changes = changes_of(path)
        number = chance.randrange(len(changes)) if changes else -1
        if number < 0 or (path, number) in seen:
            continue
        seen.add((path, number))
        text = module.deep_replace(*changes[number]).code
        lines = difflib.unified_diff(module.code.splitlines(), text.splitlines(), n=0, lineterm="")
        new_lines = [line for line in lines if line[:3] not in ("---", "+++")]
        old, new = (
            "\n".join(line[1:].strip() for line in new_lines if line[:1] == sign) for sign in "-+"
        )
        (line,) = re.findall(r"^@@ -(\d+)", "\n".join(new_lines), re.MULTILINE)[:1]
        yield {"room": room, "file": str(path.relative_to(ROOT)), "old": old, "new": new,
               "number": number, "line": int(line), "text": text}  # fmt: skip


# -- running them -------------------------------------------------------------------------------


def judged(tree: Path, tests: Sequence[str], marks: str, limit_s: float, start: Any) -> str:
    """Return what tests say, once more of a test that failed by its time alone."""
    busy = min(max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1)), 5.0)
    options = ["-m", marks, f"--timeout={busy * TEST_S:.0f}"]
    told = run_tests(tree, list(tests), options, busy * limit_s, start)
    if told.startswith("failed") and "Timeout" in told and (name := failing(told)):
        again = [f"--timeout={3 * busy * TEST_S:.0f}"]
        told = run_tests(tree, [name], again, 4 * busy * TEST_S, start)
        return told if told.startswith("failed") else "hung"
    return told


def failing(told: str) -> str:
    """Return the name of the test that failed, whichever its case, or nothing."""
    found = re.match(r"failed: .(\S+?\.py::[\w:.]+)", told)
    return found[1] if found else ""


def try_out(tree: Path, change: Mapping[str, Any], slow: bool, start: Any) -> dict[str, Any]:
    """Return the row of a change, by quick tests or by all that are near."""
    file, began = ROOT / change["file"], time.monotonic()
    source = tree / change["file"]
    clean = source.read_text(encoding="utf-8")
    near = nearest_tests(file)
    turns, marks, limit_s = [near[:3], near[3:]], "not long", SLOW_S
    if not slow:
        turns, marks, limit_s = [calling_tests(file, change["line"]), near[:3]], QUICK, QUICK_S
    write(source, change["text"])
    try:
        for tests in filter(None, turns):
            if not (told := judged(tree, tests, marks, limit_s, start)).startswith("passed"):
                break
    finally:
        write(source, clean)
    verdict = "unfinished" if told == "hung" else "survived"
    if told.startswith("pytest said") and "not found" in told:
        raise RuntimeError(told)  # no such test
    nothing = re.search("deselected|no tests ran", told)
    if told.startswith("failed") or (told.startswith("pytest said") and not nothing):
        verdict = "caught"  # in the second case the package cannot be imported
    row = {key: value for key, value in change.items() if key != "text"}
    took = round(time.monotonic() - began, 1)
    return {**row, "verdict": verdict, "told": told[:300], "seconds": took, "slow": slow,
            "commit": commit()}  # fmt: skip


@cache
def commit() -> str:
    """Return the commit that is tried."""
    words = ["git", "rev-parse", "--short=8", "HEAD"]
    return subprocess.run(words, cwd=ROOT, check=True, capture_output=True, text=True).stdout[:8]


def key_of(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return what tells changes apart."""
    return tuple(row[name] for name in ("file", "old", "new", "number"))


def rows() -> dict[tuple[Any, ...], dict[str, Any]]:
    """Return the last row of each change."""
    if not ROWS.exists():
        return {}
    lines = ROWS.read_text(encoding="utf-8").splitlines()
    return {key_of(row): row for row in map(json.loads, lines)}


def explore(asked: argparse.Namespace) -> None:
    """Try changes until the time is over, as many at once as asked."""
    PLACE.mkdir(parents=True, exist_ok=True)
    trees = [PLACE / str(number) for number in range(asked.jobs)]
    for tree in trees:
        copy_tree(tree)
    note_reached(trees[0])
    end = time.monotonic() + 60 * asked.minutes
    each = -(-asked.sample // len(asked.rooms))
    of_rooms = [list(drawn(room, each, asked.seed)) for room in asked.rooms]
    changes = [one for turn in zip_all(of_rooms) for one in turn]
    is_accepted = accepted()
    for slow in (False, True):
        left = []
        for change in changes:
            before = rows().get(key_of(change))
            missed = (
                before
                and before["verdict"] != "caught"
                and not is_accepted(change["file"], change["old"], change["new"])
            )
            if before is None or (missed and (asked.again or (slow and not before.get("slow")))):
                left.append(change)
        print(f"{len(left)} changes are to be tried by {'all' if slow else 'quick'} tests near")
        shares = [left[number :: asked.jobs] for number in range(asked.jobs)]
        with ThreadPoolExecutor(asked.jobs) as pool:
            list(pool.map(_work, trees, shares, repeat(slow), repeat(end)))
    forget_what_always_fails(trees[0], 60 * asked.minutes)


def _work(tree: Path, changes: Iterable[Mapping[str, Any]], slow: bool, end: float) -> None:
    """Try changes in one copy of the tree, a row each."""
    launcher = Launcher(Path(__file__).with_name("warm.py"))

    def start(command: list[str], *, cwd: Path, env: Any, stdout: Any, **_: Any) -> Forked:
        return launcher.start(command[1:], stdout.name, cwd=str(cwd), env=env)

    if (told := run_tests(tree, ["tests/test_naming.py"], start=start)) != "passed":
        raise RuntimeError(f"without any change: {told}")
    for change in changes:
        if time.monotonic() > end:
            break
        keep(row := try_out(tree, change, slow, start))
        print(f"{row['verdict']:10}{row['seconds']:6.0f} s  {row['file']}", flush=True)
    launcher.end()


def keep(row: Mapping[str, Any]) -> None:
    """Add a row to those on the disk."""
    with ROWS.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row, ensure_ascii=False) + "\n")


def forget_what_always_fails(tree: Path, limit_s: float) -> None:
    """Take back what tests caught that fail without any change."""
    caught = [row for row in rows().values() if row["verdict"] == "caught" and not row.get("sure")]
    names = sorted({name for row in caught if (name := failing(row["told"]))})
    told = run_tests(tree, names, ["--maxfail=0"], limit_s) if names else "passed"
    log = (tree / "pytest.log").read_text(encoding="utf-8") if told != "passed" else ""
    print(f"without any change these tests: {told}")
    if told == "hung":
        return
    for row in caught:
        if (name := failing(row["told"])) and re.search(rf"^(FAILED|ERROR) {re.escape(name)}", log,
                                                        re.MULTILINE):  # fmt: skip
            keep({**row, "verdict": "unfinished"})
        else:
            keep({**row, "sure": True})


def zip_all(lists: Iterable[Sequence[Any]]) -> Iterator[list[Any]]:
    """Yield the first of all lists, then the second of those that have one, and so on."""
    held = list(lists)
    for number in range(max(map(len, held), default=0)):
        yield [one[number] for one in held if number < len(one)]


def accepted() -> Callable[[str, str, str], bool]:
    """Return what tells whether a survivor is listed, of its file and its old and new lines."""
    listed = tomllib.loads((HERE / "accepted.toml").read_text(encoding="utf-8"))
    single = {(entry["file"], entry["old"], entry["new"]) for entry in listed["accepted"]}
    kinds = [re.compile(kind["lines"], re.DOTALL) for kind in listed["kind"]]

    def is_accepted(file: str, old: str, new: str) -> bool:
        return (file, old, new) in single or any(k.fullmatch(f"{old}\n{new}") for k in kinds)

    return is_accepted


def table(found: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the table by room, in Markdown, and the survivors without a reason."""
    is_accepted = accepted()
    head = ("room", "drawn", "accepted", "unfinished", "survived", "caught", "share caught")
    counts: dict[str, dict[str, int]] = {}
    left = []
    for row in found:
        verdict = row["verdict"]
        if verdict != "caught" and is_accepted(row["file"], row["old"], row["new"]):
            verdict = "accepted"
        for room in (row["room"], "all"):
            counts.setdefault(room, dict.fromkeys(head[2:6], 0))
            counts[room][verdict] += 1
        if verdict in ("survived", "unfinished"):
            left.append(f"{row['file']} ({verdict})\n  - {row['old']}\n  + {row['new']}")
    lines = [f"| {' | '.join(head)} |", "|--" * len(head) + "|"]
    for room, own in sorted(counts.items(), key=lambda entry: (entry[0] == "all", entry[0])):
        tried = own["caught"] + own["survived"]
        share = f"{own['caught'] / tried:.0%}" if tried else ""
        numbers = [sum(own.values()), *(own[one] for one in head[2:6])]
        lines.append(f"| `{room}` | {' | '.join(map(str, [*numbers, share]))} |")
    return [*lines, "", *left]


def main(words: list[str]) -> int:
    """Try changes, or print what is known."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rooms", nargs="+", default=rooms())
    parser.add_argument("--sample", type=int, default=300, help="changes of all rooms together")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--again", action="store_true", help="what was not caught as well")
    parser.add_argument("--report", action="store_true", help="print what is known alone")
    asked = parser.parse_args(words)
    if not asked.report:
        explore(asked)
    print(*table(rows().values()), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
