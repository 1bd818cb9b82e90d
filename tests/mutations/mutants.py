"""Change the source in every small way that mutmut knows, and list what no test notices.

``make mutants`` works on the folders of `FOLDERS`, or on those of ``MUTANTS="coding privacy"``; it
takes an hour or two, may be stopped at any time, and goes on where it was. ``make mutants-report``
prints what is known so far. ``MUTANTS="again privacy"`` tries those again that survived without a
reason: there may be new tests. ``MUTANTS="some 37 federation"`` tries those whose number ends in 3
or 7, one in five. Results lie in ``.mutants/``. A mutant runs the tests of its own folder that call
the changed function, in whatever process (see `processes`), with a timeout; functions with a
decorator are left as they are.

Survivors that no test can tell from the source, or that cannot be reached, are listed in
``accepted.toml``: ``[[accepted]]`` with ``file``, the ``old`` and the ``new`` line, a ``reason``. A
whole kind of them is ``[[kind]]`` with a regular expression of ``lines``, the old before the new.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterator
from contextlib import chdir
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.mutations.run import HERE, ROOT, copy_tree

RESULTS = ROOT / ".mutants"
FOLDERS = {  # and which of their tests
    "coding": ["-m", "not slow"],
    "secure/sums": [],
    "privacy": ["-m", "not slow"],
    "protocols/fedsc/privacy": ["-m", "not slow"],
    # mutmut's own frames lie between a warning and whom it points to
    "federation": ["-m", "not slow", "-k", "not the_warning_points_to"],
}

SURVIVED = {"survived", "no tests"}
NOTICED = {"timeout", "segfault", "suspicious"}  # it hung, or its process crashed
MESSAGES = [r'^\s*f?".*"$', r"^\s*raise "]  # lines of text: the tests hold errors to a part of it


def prepare(folder: str) -> Path:
    """Bring the copy of the tree up to date, with the settings of mutmut for a folder."""
    tree = RESULTS / folder.replace("/", "-")
    copy_tree(tree)
    options = ["-p", "no:randomly", "-p", "no:cacheprovider", "-p", "tests.mutations.processes"]
    options += FOLDERS[folder]
    settings = f"""
[tool.mutmut]
source_paths = ["daskfc/"]
only_mutate = ["daskfc/{folder}/*.py"]
pytest_add_cli_args_test_selection = ["tests/{folder}"]
pytest_add_cli_args = {json.dumps(options)}
also_copy = ["tests", "pyproject.toml", "README.md"]
do_not_mutate_patterns = {json.dumps(MESSAGES)}
process_isolation = "forkserver"
timeout_constant = 15.0  # starting processes is not counted as part of a test
timeout_multiplier = 4.0
"""
    with (tree / "pyproject.toml").open("a", encoding="utf-8") as file:
        file.write(settings)
    (tree / "mutants").mkdir(exist_ok=True)  # imported from, once Python looked for it
    with (tree / "daskfc" / "__init__.py").open("a", encoding="utf-8") as file:
        file.write("\nfrom tests.mutations import processes\n\nprocesses.tell()\n")
    return tree


def explore(tree: Path, *mutants: str) -> int:
    """Run mutmut in a copy, which alone is imported; what it found before stays, but of these."""
    command = [sys.executable, "-m", "mutmut", "run", *mutants]
    with tempfile.TemporaryDirectory() as hits:
        env = {**os.environ, "PYTHONPATH": str(tree / "mutants"), "DASKFC_HITS": hits}
        return subprocess.run(command, cwd=tree, env=env, check=False).returncode


def results_of(tree: Path) -> Iterator[tuple[str, str, str]]:
    """Yield file, name and kind of every mutant of a copy."""
    from mutmut.stats import status_by_exit_code

    for meta in sorted(tree.glob("mutants/daskfc/**/*.py.meta")):
        file = str(meta.relative_to(tree / "mutants"))[: -len(".meta")]
        for mutant, code in json.loads(meta.read_text())["exit_code_by_key"].items():
            kind = "not run" if code is None else status_by_exit_code[code]
            yield file, mutant, "killed" if kind in NOTICED else kind


def changed(tree: Path, file: str, mutant: str) -> tuple[str, str]:
    """Return the lines that a mutant takes away and puts in."""
    from mutmut.mutation.diff_apply import get_diff_for_mutant

    with chdir(tree):
        lines = get_diff_for_mutant(mutant, path=file).splitlines()
    old, new = (
        "\n".join(line[1:].strip() for line in lines if line[:1] == sign and line[:3] != sign * 3)
        for sign in "-+"
    )
    return old, new


def accepted() -> Callable[[str, str, str], bool]:
    """Return what tells whether a survivor is listed, of its file and its old and new lines."""
    listed = tomllib.loads((HERE / "accepted.toml").read_text(encoding="utf-8"))
    single = {(entry["file"], entry["old"], entry["new"]) for entry in listed["accepted"]}
    kinds = [re.compile(kind["lines"], re.DOTALL) for kind in listed["kind"]]

    def is_accepted(file: str, old: str, new: str) -> bool:
        return (file, old, new) in single or any(k.fullmatch(f"{old}\n{new}") for k in kinds)

    return is_accepted


def survivors(tree: Path) -> list[str]:
    """Return the names of a copy's mutants that survived without a reason."""
    is_accepted = accepted()
    return [
        name
        for file, name, kind in results_of(tree)
        if kind in SURVIVED and not is_accepted(file, *changed(tree, file, name))
    ]


def report() -> None:
    """Print a table by file, and the survivors that are not accepted."""
    is_accepted = accepted()
    kinds = ("killed", "survived", "accepted", "no tests", "other", "not run")
    print(f"{'file':44}", *(f"{kind:>9}" for kind in kinds), "   caught")
    survivors: list[str] = []
    table: dict[str, dict[str, int]] = {}
    for tree in sorted(RESULTS.iterdir()):
        for file, mutant, found in results_of(tree):
            kind = found if found in kinds else "other"
            if kind in SURVIVED:
                old, new = changed(tree, file, mutant)
                if is_accepted(file, old, new):
                    kind = "accepted"
                else:
                    survivors.append(f"{mutant} ({kind})\n  - {old}\n  + {new}")
            for row in (file, str(Path(file).parent), "all"):
                table.setdefault(row, dict.fromkeys(kinds, 0))[kind] += 1
    for row, counts in sorted(table.items(), key=lambda entry: (entry[0] == "all", entry[0])):
        run = sum(counts.values()) - counts["not run"] - counts["accepted"]
        share = f"{counts['killed'] / run:8.1%}" if run else ""
        print(f"{row:44}", *(f"{counts[kind]:9}" for kind in kinds), share)
    print("", *survivors, sep="\n")


def main(arguments: list[str]) -> int:
    """Run mutants of some folders: all, those with some last digits, or those that survived."""
    if arguments[:1] == ["report"]:
        report()
        return 0
    how = arguments[0] if arguments[:1] in (["again"], ["some"]) else "all"
    for folder in arguments[{"all": 0, "again": 1, "some": 2}[how] :] or FOLDERS:
        tree = prepare(folder)
        names: list[str] = []
        if how == "again":
            names = survivors(tree)
        elif how == "some":
            names = [f"*[{arguments[1]}]"]  # the last digit of its number
        if (names or how == "all") and (code := explore(tree, *names)):
            return code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
