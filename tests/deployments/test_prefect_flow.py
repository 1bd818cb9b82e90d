"""The flow for Prefect, under stand-ins for Prefect's decorators and for daskfc."""

import datetime
import importlib.util
import json
import os
import signal
import subprocess
import sys

import pytest

from tests.deployments.lines import CONFIGS, parsed

FLOW = CONFIGS / "prefect_flow.py"
DAY = "2026-03-01"

# Retries without waiting; a flow hears SIGTERM as an exception, as in Prefect's own processes.
PREFECT = """
import functools, signal

class State:
    def __init__(self, error): self.error = error
    def result(self): raise self.error

class Terminated(BaseException): pass

def task(*, retries, retry_condition_fn, **options):
    assert len(options["retry_delay_seconds"]) == retries
    def decorate(function):
        @functools.wraps(function)
        def call(*given):
            for left in reversed(range(retries + 1)):
                try:
                    return function(*given)
                except Exception as error:
                    if not left or not retry_condition_fn(None, None, State(error)):
                        raise
        return call
    return decorate

def flow(*, name):
    def decorate(function):
        def call(*given, **named):
            def told(*_): raise Terminated
            before = signal.signal(signal.SIGTERM, told)
            try:
                return function(*given, **named)
            finally:
                signal.signal(signal.SIGTERM, before)
        return call
    return decorate
"""
OBJECTS = "class ConcurrencyLimitConfig: pass\nclass ConcurrencyLimitStrategy: pass\n"


@pytest.fixture
def stand_ins(tmp_path, monkeypatch):
    """A folder with packages and programs that stand in for Prefect and daskfc."""
    for part in ("prefect", "prefect/client", "prefect/client/schemas"):
        (tmp_path / part).mkdir()
        (tmp_path / part / "__init__.py").write_text(PREFECT if part == "prefect" else "")
    (tmp_path / "prefect/client/schemas/objects.py").write_text(OBJECTS)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.delenv("DASKFC", raising=False)
    return tmp_path


@pytest.fixture
def flow(stand_ins, monkeypatch):
    monkeypatch.syspath_prepend(stand_ins)
    for name in [name for name in sys.modules if name.split(".")[0] == "prefect"]:
        monkeypatch.delitem(sys.modules, name)
    before = {*sys.modules}
    spec = importlib.util.spec_from_file_location("prefect_flow", FLOW)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    for name in {*sys.modules} - before:
        if name.split(".")[0] == "prefect":
            del sys.modules[name]


@pytest.fixture
def daskfc(stand_ins):
    """Write a daskfc that ends with one code after the other, and stays with the last."""

    def write(*codes, summary='{"metrics": {"OmniFC": {"nmi": 0.5}}}'):
        program = stand_ins / "daskfc"
        chosen = " ".join(map(str, codes))
        program.write_text(
            f'#!/bin/sh\necho "$@" >>{stand_ins}/calls\n'
            f"n=$(wc -l <{stand_ins}/calls); set -- {chosen}\n"
            'while [ "$n" -gt 1 ] && [ $# -gt 1 ]; do shift; n=$((n - 1)); done\n'
            f"echo 'daskfc: why' >&2\n[ $1 -eq 0 ] && echo '{summary}'\nexit $1\n"
        )
        program.chmod(0o755)

    return write


def calls(folder):
    return (folder / "calls").read_text().splitlines()


def start(flow, **given):
    return flow.nightly("p.yaml", "c.yaml", "runs", **{"day": DAY, **given})


def test_a_run_that_is_done_gives_its_scores(flow, daskfc, stand_ins, capsys):
    daskfc(0)
    assert start(flow) == {"OmniFC": {"nmi": 0.5}}
    assert len(calls(stand_ins)) == 1
    assert capsys.readouterr().out == "daskfc: why\n"  # to Prefect's log


def test_a_summary_that_fills_a_pipe_blocks_nobody(flow, daskfc):
    daskfc(0, summary=json.dumps({"metrics": {"x": "y" * 100_000}}))
    assert len(start(flow)["x"]) == 100_000


def test_a_run_that_was_done_before_may_say_nothing(flow, daskfc):
    daskfc(0, summary="")
    assert start(flow) == {}


@pytest.mark.parametrize("code", [1, 75])
def test_what_broke_off_or_found_nobody_is_tried_again(flow, daskfc, stand_ins, code):
    daskfc(code, code, 0)
    assert start(flow)["OmniFC"] == {"nmi": 0.5}
    first, *others = calls(stand_ins)
    assert others == [first, first]  # the same key: a try goes on with the run


@pytest.mark.parametrize(("code", "error"), [(1, "BrokeOff"), (75, "Away")])
def test_tries_come_to_an_end(flow, daskfc, stand_ins, code, error):
    daskfc(code)
    with pytest.raises(getattr(flow, error), match="daskfc: why"):
        start(flow)
    assert len(calls(stand_ins)) == 6


def test_bad_input_is_not_tried_again(flow, daskfc, stand_ins):
    daskfc(2)
    with pytest.raises(flow.BadInput, match="daskfc: why"):
        start(flow)
    assert len(calls(stand_ins)) == 1


def test_the_command_is_one_that_daskfc_has(flow):
    today = datetime.date.today().isoformat()
    for day, key in ((DAY, f"nightly-{DAY}"), (today, "nightly-{date}")):
        program, *words = flow.command_for("p.yaml", "c.yaml", "runs", day, "s.yaml", 30)
        assert program == "daskfc"
        found = parsed(words)
        told = (found["pipeline"], found["storage"], found["cluster"], found["runs_dir"])
        assert told == ("p.yaml", "s.yaml", "c.yaml", "runs")
        assert found["as_json"] is True
        assert key in words
        # Only of a key with {date} are older runs removed; with another it is bad input.
        assert ("--keep" in words) == (day == today)
    assert "--storage" not in flow.command_for("p.yaml", "c.yaml", "runs", DAY, None, 30)


def test_without_a_day_it_is_today(flow, daskfc, stand_ins):
    daskfc(0)
    start(flow, day=None)
    (line,) = calls(stand_ins)
    assert "--run-key nightly-{date} --keep 30" in line


def test_a_try_after_midnight_goes_on_with_the_run_of_the_day_before(flow, daskfc, monkeypatch):
    daskfc(75, 0)
    days = iter(["2026-03-01", "2026-03-01", "2026-03-02"])  # of the flow, and of its two tries
    asked = []

    class Day(datetime.date):
        @classmethod
        def today(cls):
            return cls.fromisoformat(next(days))

    monkeypatch.setattr(flow, "date", Day)
    carry_out = flow.carry_out
    monkeypatch.setattr(flow, "carry_out", lambda words: (asked.append(words), carry_out(words))[1])
    start(flow, day=None)
    assert ["nightly-{date}" in words for words in asked] == [True, False]
    assert "nightly-2026-03-01" in asked[1]


def test_sigterm_reaches_daskfc_and_is_waited_for(stand_ins):
    program = stand_ins / "daskfc"
    program.write_text(
        f"#!/bin/sh\ntrap 'echo told >{stand_ins}/told; exit 1' TERM\necho there >&2\n"
        "while :; do sleep 0.05; done\n"
    )
    program.chmod(0o755)
    code = (
        "import runpy; flow = runpy.run_path(__import__('sys').argv[1]); "
        f"flow['nightly']('p.yaml', 'c.yaml', 'runs', day={DAY!r})"
    )
    environment = {**os.environ, "PYTHONPATH": str(stand_ins), "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(FLOW)], env=environment, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout.readline() == "there\n"
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=60)
    assert (stand_ins / "told").read_text() == "told\n"
    assert process.returncode != 0
    assert errors.rstrip().endswith("Terminated")
