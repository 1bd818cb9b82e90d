import io
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from rich.console import Console

from daskfc.cli import _WITH_COMMANDS, main
from daskfc.cli.terminal.completion import _METHODS, is_completing
from daskfc.cli.terminal.progress import PATIENCE_S, shown_progress
from daskfc.federation.driver.stage import Notice, Stage
from daskfc.runs import known_methods

_ROOT = Path(__file__).parents[2]


def commands(group=main, prefix=()):
    for name, command in group.commands.items():
        path = (*prefix, name)
        yield path, command
        if isinstance(command, click.Group):
            yield from commands(command, path)


@pytest.mark.parametrize("path", [path for path, _ in commands()])
def test_every_command_has_help(daskfc, path):
    result = daskfc(*path, "--help")
    assert result.exit_code == 0
    assert len(result.output) > 150
    assert "\\b" not in result.output  # click's mark for lines that stay as they are


@pytest.mark.parametrize("path", [path for path, _ in commands()])
def test_help_says_what_is_taken_by_default(path):
    command = dict(commands())[path]
    for option in command.params:
        flag = isinstance(option, click.Argument) or option.is_flag
        given = None if flag else option.get_default(click.Context(command), call=False)
        if not isinstance(given, str | int | float):
            continue  # none
        assert option.show_default or "default" in option.help.lower(), option.name


def test_the_list_of_commands_says_what_each_says_of_itself():
    wide = {"terminal_width": 400, "max_content_width": 400}
    listed = CliRunner().invoke(main, ["--help"], **wide).output.partition("\nBegin:\n")[2]
    lines = [line for line in listed.splitlines() if line.startswith("  ")]
    told = [tuple(line.split(maxsplit=1)) for line in lines]
    commands = {name: one.get_short_help_str(400) for name, one in main.commands.items()}
    assert dict(told) == commands
    assert len(told) == len(commands)  # each in one group


def test_help_and_version_import_no_method_and_no_cluster():
    """They answer at once."""
    code = (
        "import sys; from daskfc.cli import main; main([{!r}], standalone_mode=False); "
        "assert not {{'numpy', 'dask', 'rich'}} & set(sys.modules)"
    )
    for option in ("--help", "--version"):
        subprocess.run([sys.executable, "-c", code.format(option)], check=True)


@pytest.fixture
def completed(monkeypatch, tmp_path, capsys):
    """Complete the last word of a line as a shell does; return the words."""
    monkeypatch.chdir(tmp_path)
    for name in ("omnifc-1", "nightly-2", "nightly-3"):
        (tmp_path / "runs" / name).mkdir(parents=True)
        (tmp_path / "runs" / name / "run.json").touch()
        os.utime(tmp_path / "runs" / name / "run.json", (int(name[-1]), int(name[-1])))
    (tmp_path / "runs" / "other").mkdir()

    def words(line):
        monkeypatch.setenv("_DASKFC_COMPLETE", "bash_complete")
        monkeypatch.setenv("COMP_WORDS", line)
        monkeypatch.setenv("COMP_CWORD", str(len(shlex.split(line)) - (line[-1] != " ")))
        with pytest.raises(SystemExit):
            main(prog_name="daskfc")
        return [tuple(one.split(",", 1)) for one in capsys.readouterr().out.splitlines()]

    return words


def test_names_that_a_shell_would_read_as_more_are_not_completed(completed, tmp_path):
    for name in ("my run-8", "a$(touch x)-9"):
        (tmp_path / "runs" / name).mkdir(parents=True)
        (tmp_path / "runs" / name / "run.json").touch()
    assert {name for _, name in completed("daskfc status ")} == {
        "runs/nightly-3", "runs/nightly-2", "runs/omnifc-1"
    }  # fmt: skip


def test_an_empty_variable_asks_for_no_completion(monkeypatch):
    monkeypatch.setenv("_DASKFC_COMPLETE", "")
    assert not is_completing()


@pytest.mark.parametrize("command", ["status", "report", "resume", "audit", "card", "labels"])
def test_a_shell_completes_names_of_runs_the_newest_first(completed, command):
    newest = ["runs/nightly-3", "runs/nightly-2", "runs/omnifc-1"]
    for line in (f"daskfc {command} ", f"daskfc {command} ru", f"daskfc {command} runs/"):
        assert completed(line) == [("plain", name) for name in newest]
    assert completed(f"daskfc {command} runs/o") == [("plain", "runs/omnifc-1")]
    assert completed(f"daskfc {command} nig") == [("plain", name) for name in newest[:2]]
    assert completed(f"daskfc {command} ../els")[0][0] == "file"
    assert completed(f"daskfc {command} --out ")[0][0] == "file"


def test_a_shell_completes_what_else_there_is(completed):
    assert completed("daskfc compare runs/nightly-2 runs/o") == [("plain", "runs/omnifc-1")]
    assert completed("daskfc run p.yaml --since runs/nightly-2") == [("plain", "runs/nightly-2")]
    assert completed("daskfc run ") == [("file", "")]
    assert completed("daskfc re") == [("plain", "report"), ("plain", "resume")]
    assert completed("daskfc status --j") == [("plain", "--json")]
    assert ("plain", "add") in completed("daskfc stores a")
    assert completed("daskfc methods fedsc") == [("plain", "FedSC")]


def test_what_completes_knows_all_methods_and_all_groups():
    own = [name for name, kind in known_methods().items() if kind.__module__[:7] == "daskfc."]
    assert sorted(_METHODS, key=str.casefold) == sorted(own, key=str.casefold) == list(_METHODS)
    groups = {name for name, one in main.commands.items() if isinstance(one, click.Group)}
    assert groups == _WITH_COMMANDS


def test_a_tab_imports_no_command(completed):
    code = (
        "import sys; from daskfc.cli import main\n"
        "try: main(prog_name='daskfc')\n"
        "except SystemExit: assert not {'numpy', 'dask', 'rich', 'yaml'} & set(sys.modules)"
    )
    for line in ("daskfc status ", "daskfc s", "daskfc run pipelines/"):
        completed(line)  # sets the shell's variables
        subprocess.run([sys.executable, "-c", code], check=True, cwd=_ROOT)


def test_the_promised_commands_exist():
    assert {" ".join(path) for path, _ in commands()} >= {
        "run", "resume", "report", "stores build", "stores inspect", "stores check", "party",
        "methods", "labels", "predict", "compare", "card",
    }  # fmt: skip


def test_every_option_has_help():
    for path, command in commands():
        for parameter in command.params:
            if isinstance(parameter, click.Option):
                assert parameter.help, (path, parameter.name)


def test_methods_lists_all(daskfc):
    result = daskfc("methods")
    assert result.exit_code == 0
    for name in ("OmniFC", "k-FED", "MUFC", "FFCM", "FedMAvg", "central", "n_clusters"):
        assert name in result.output
    assert "different samples" in result.output


def test_version(daskfc):
    assert daskfc("--version").output.startswith("daskfc, version")


@pytest.mark.slow
def test_the_module_is_the_command():
    done = subprocess.run(
        [sys.executable, "-m", "daskfc", "--help"], capture_output=True, text=True, check=True
    )
    assert "Exit codes" in done.stdout


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def stages(terminal):
    clock, console = Clock(), Console(file=io.StringIO(), force_terminal=terminal, width=100)
    with shown_progress(console, clock) as progress:
        progress("early", 0, 0)
        clock.now = PATIENCE_S + 1
        progress("encoding", 1, 10)
        progress("encoding", 2, 10)
        progress("clustering", 0, 0)
    return console.file.getvalue()


def test_without_a_terminal_every_stage_is_one_line():
    assert [line.split("s  ")[1] for line in stages(False).splitlines()] == [
        "encoding  1 of 10, 10%",
        "clustering",
    ]


@pytest.mark.parametrize("terminal", [True, False])
def test_a_notice_is_a_line_of_its_own_at_once(terminal):
    clock, console = Clock(), Console(file=io.StringIO(), force_terminal=terminal, width=100)
    with shown_progress(console, clock) as progress:
        progress(Notice("http://here"), 0, 0)
    assert "http://here" in console.file.getvalue()
    assert console.file.getvalue().count("\n") == 1


def test_without_a_terminal_a_line_comes_at_least_every_ten_seconds():
    clock, console = Clock(), Console(file=io.StringIO(), force_terminal=False, width=100)
    with shown_progress(console, clock) as progress:
        clock.now = 3.0
        progress(Stage("averaging", "rounds"), 0, 200)
        for clock.now in (12.9, 13.0, 22.0):
            progress(Stage("averaging", "rounds"), 50, 200)
            progress.tell_again()
        clock.now = 33.0
        progress(Stage("averaging", "rounds"), 100, 200)
        progress.tell_again()
    clock.now = 99.0
    progress.tell_again()  # nothing, once it is over
    assert console.file.getvalue().splitlines() == [
        "    3 s  averaging (rounds)",
        "   13 s  averaging (rounds)  50 of 200, 25%, about 30 s left",
        "   33 s  averaging (rounds)  100 of 200, 50%, about 30 s left",
    ]


def test_a_line_stays_for_each_stage_that_took_long():
    clock, console = Clock(), Console(file=io.StringIO(), force_terminal=True, highlight=False)
    with shown_progress(console, clock) as progress:
        progress("planning", 0, 0)
        for clock.now, stage in ((1.0, "sharing"), (9.0, "decoding"), (10.5, "clustering")):
            progress(stage, 0, 0)
        clock.now = 100.0
    assert re.findall(r"\d+ s  \w+", console.file.getvalue()) == [
        "8 s  sharing",
        "90 s  clustering",
    ]


def shares_of(*told):
    """Return the shares, in %, that a terminal's bar showed of these stages, a second each."""
    clock, console = Clock(), Console(file=io.StringIO(), force_terminal=True, width=100)
    with shown_progress(console, clock) as progress:
        for clock.now, (stage, done, total) in enumerate(told, start=3):
            progress(stage, done, total)
            progress._bar.refresh()
    return [int(one) for one in re.findall(r"(\d+)%", console.file.getvalue())]


def test_one_bar_is_that_of_the_whole():
    """It goes on where a stage ends, and stages beside it are told by their counts."""
    told = [
        (Stage("averaging", "rounds", 0.1), 9, 10),
        (Stage("clustering", share=0.2), 0, 0),
        (Stage("labels", share=0.99), 1, 1000),
    ]
    shown = shares_of(*told)
    assert shown == sorted(shown)
    assert {10, 20, 99} <= {*shown}
    assert not {90, 100} & {*shown}


def test_a_long_stage_has_a_bar_before_it_tells_more():
    clock, console = Clock(), Console(file=io.StringIO(), force_terminal=True, width=100)
    with shown_progress(console, clock) as progress:
        progress(Stage("starting the workers", share=0.0), 0, 0)
        progress.tell_again()
        assert console.file.getvalue() == ""
        clock.now = PATIENCE_S
        progress.tell_again()
        progress._bar.refresh()
        assert "starting the workers" in console.file.getvalue()
    before = console.file.getvalue()
    progress.tell_again()  # nothing, once it is over
    assert console.file.getvalue() == before


def test_a_bar_of_stages_is_that_of_each():
    assert {90, 10} <= {*shares_of(("averaging", 9, 10), ("labels", 1, 10))}


def test_lines_of_a_log_are_the_same_with_a_share_of_the_whole():
    clock, console = Clock(), Console(file=io.StringIO(), force_terminal=False, width=100)
    with shown_progress(console, clock) as progress:
        clock.now = 3.0
        progress(Stage("averaging", "rounds", 0.3), 1, 4)
    assert console.file.getvalue() == "    3 s  averaging (rounds)  1 of 4, 25%\n"


def test_a_terminal_gets_a_bar():
    text = stages(True)
    assert text.count("early") == 1  # the line that stays
    assert "encoding" in text
    assert "1 of 10" in text
    assert "0:00:00" in text
