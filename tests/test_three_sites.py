"""The walk-through of docs/guides/three-sites.md, typed as it stands there: real processes, TLS.

A `yaml` block is a file, which its first line names. What follows a `$` in a `console` block is
typed, in the folder that stands before it; what is below is compared with what the command prints,
where `...` stands for anything. A command that ends with `&` stays, as a process of its own.
"""

import doctest
import os
import queue
import re
import shlex
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from click.testing import CliRunner

from daskfc.cli import main
from tests.ports import free_port

pytestmark = pytest.mark.slow

PAGE = Path(__file__).parents[1] / "docs" / "guides" / "three-sites.md"
PORT = "8786"  # on the page
LONGEST_S = 120  # until what a process tells at its start is there, on a busy machine
_BLOCK = re.compile(r"^```(yaml|console)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_TYPED = re.compile(r"^([\w-]*)\$ (.*)$")
_WAITING = re.compile(r"^ +\d+ s  .*\n", re.MULTILINE)  # progress, where it takes long
_COMPARED = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def blocks(text):
    return [(found[1], found[2]) for found in _BLOCK.finditer(text)]


def commands(block):
    """Return folder, command and what it prints, for each command of a console block."""
    found = []
    for line in re.sub(r" \\\n +", " ", block).splitlines():
        if typed := _TYPED.match(line):
            found.append([*typed.groups(), ""])
        else:
            found[-1][2] += f"{line}\n"
    return found


def is_as_told(told, printed):
    """Return whether it is; a first line of dots stands for progress, or for nothing."""
    printed = _WAITING.sub("", printed)
    wanted = (told, told.removeprefix("...\n"))
    check = doctest.OutputChecker().check_output
    return not told or any(check(one, printed, _COMPARED) for one in wanted)


class Staying:
    """A process that a command started, with all that it has told."""

    def __init__(self, words, folder):
        self.folder = folder
        self.process = subprocess.Popen(
            [sys.executable, "-m", *words],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.told = ""
        self._lines = queue.Queue()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self):
        for line in self.process.stdout:
            self._lines.put(line)
        self._lines.put(None)

    def wait_for(self, told):
        while not is_as_told(told, self.told):
            try:
                line = self._lines.get(timeout=LONGEST_S)
            except queue.Empty:
                line = None
            assert line is not None, f"{told!r} is not in {self.told!r}"
            self.told += line

    def end(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(120)
        finally:
            if self.process.poll() is None:
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            self._reader.join()
            self.process.stdout.close()


class Terminal:
    """Types what the page says."""

    def __init__(self, folder):
        self.folder = folder
        self.staying = []
        self.transcript = []
        self.code = 0

    def types(self, place, command, told):
        os.chdir(self.folder / place)
        self.transcript.append(f"{place}$ {command}")
        if command == "echo $?":
            printed, self.code = f"{self.code}\n", 0
        elif command == "kill %1":
            (own, *_) = [one for one in self.staying if one.folder == self.folder / place]
            self.staying.remove(own)
            # Sent away by the scheduler (2), or on its way out when it was told to end.
            assert own.end() in (0, 2, -signal.SIGTERM)
            printed = ""
        elif command.endswith(" &"):
            words = shlex.split(command.removesuffix(" &"))
            self.staying.append(Staying(words, self.folder / place))
            self.staying[-1].wait_for(told)
            printed = self.staying[-1].told
        else:
            assert self.code == 0, "\n".join(self.transcript)
            self.code, printed = self._done(command)
        self.transcript.append(printed)
        assert is_as_told(told, printed), "\n".join(self.transcript)

    def _done(self, command):
        if command.startswith("daskfc "):
            runner = CliRunner(env={"COLUMNS": "100"})  # and whoever is asked says yes
            result = runner.invoke(main, shlex.split(command)[1:], input="y\n")
            return result.exit_code, result.output
        done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr


@pytest.fixture
def terminal(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    terminal = Terminal(tmp_path)
    yield terminal
    codes = [one.end() for one in reversed(terminal.staying)]
    assert set(codes) == {0}, codes


@pytest.mark.long
@pytest.mark.timeout(900)  # every party starts by itself, where other tests run
def test_the_walk_through_is_what_happens(terminal):
    page = PAGE.read_text(encoding="utf-8").replace(PORT, str(free_port()))
    for kind, text in blocks(page):
        if kind == "yaml":
            name = text.partition("\n")[0].removeprefix("# ")
            (terminal.folder / name).write_text(text)
        else:
            for place, command, told in commands(text):
                terminal.types(place, command, told)
    assert terminal.code == 0
    scheduler = terminal.staying[0]
    scheduler.wait_for("...party 'hospital-b' left...")


def test_a_page_that_says_something_else_is_noticed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    terminal = Terminal(tmp_path)
    terminal.types("", "echo a", "a\n")
    with pytest.raises(AssertionError):
        terminal.types("", "echo a", "b\n")
    terminal.types("", "false", "")
    with pytest.raises(AssertionError):  # nobody asked for its exit code
        terminal.types("", "echo a", "a\n")
