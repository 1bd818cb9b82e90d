"""Follow a pipeline through a run: which files it goes through, and how often it comes back.

A stay is a series of calls in one file that get the pipeline as an argument: its source, what is
made of that, a record that holds it, or an object that has one of these. A return is a stay in a
file that was left before. ``python -m tests.followed`` prints both for a run of one method, and the
way; with ``--each`` every call.
"""

import sys
import tempfile
from pathlib import Path

import daskfc
from daskfc.runs import run

ROOT = Path(daskfc.__file__).parent
PIPELINE = {"method": "OmniFC", "params": {"n_clusters": 3}, "prepare": ["standardise"]}
STORAGE = {"source": {"dataset": "iris"}, "partition": {"scheme": "iid", "clients": 3}}
FORMS = {"Pipeline", "CheckedPipeline"}


def is_pipeline(value):
    """Return whether a value is the pipeline in one of its forms, or a record that holds it."""
    if isinstance(value, dict):
        of_a_run = isinstance(value.get("pipeline"), dict)
        return of_a_run or ({"method", "params"} <= value.keys() and "run_id" not in value)
    return type(value).__name__ in FORMS


def carries(value):
    """Return whether a value is the pipeline, or an object of daskfc that has it."""
    ours = type(value).__module__.startswith("daskfc.")
    return is_pipeline(value) or (
        ours and any(map(is_pipeline, getattr(value, "__dict__", {}).values()))
    )


def arguments(frame):
    """Return the arguments of a call that begins."""
    code = frame.f_code
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return [frame.f_locals[name] for name in names if name in frame.f_locals]


def followed(folder, pipeline=PIPELINE):
    """Return file and function of each call with the pipeline, in their order, of a run there."""
    calls = []

    def called(frame, event, _):
        path = frame.f_code.co_filename
        if event == "call" and path.startswith(str(ROOT)) and any(map(carries, arguments(frame))):
            calls.append((str(Path(path).relative_to(ROOT)), frame.f_code.co_qualname))

    sys.setprofile(called)
    try:
        run(pipeline, storage={**STORAGE, "root": f"{folder}/stores"}, runs_dir=f"{folder}/runs")
    finally:
        sys.setprofile(None)
    return calls


def stays(calls):
    """Return the files of calls, those of one stay once."""
    return [file for i, (file, _) in enumerate(calls) if not i or calls[i - 1][0] != file]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        found = followed(folder)
    way = stays(found)
    print(f"{len(way)} stays in {len(set(way))} files, {len(way) - len(set(way))} returns")
    print(*([": ".join(one) for one in found] if "--each" in sys.argv else way), sep="\n")
