"""Which commands have workers' libraries loaded beside their own."""

import os

import pytest

from daskfc.cli import _starts_workers

FILES = {
    "local.yaml": "# mine\ncluster: local\nworker: {memory_limit: 1GB}\n",
    "settings.yaml": "cluster: local\ndask: {distributed.comm.timeouts.connect: 5s}\n",
    "existing.yaml": "cluster: existing\nscheduler: tcp://10.0.0.1:8786\n",
}


@pytest.mark.parametrize(
    ("words", "starts"),
    [
        (["run", "a.yaml", "--storage", "b.yaml"], True),
        (["demo", "--no-open"], True),
        (["run", "a.yaml", "--cluster", "local.yaml"], True),
        (["run", "--cluster=local.yaml", "a.yaml"], True),
        (["run", "a.yaml", "--cluster", "settings.yaml"], False),
        (["run", "a.yaml", "--cluster", "existing.yaml"], False),
        (["run", "a.yaml", "--cluster=existing.yaml"], False),
        (["run", "a.yaml", "--cluster", "absent.yaml"], False),
        (["run", "a.yaml", "--cluster"], True),  # which ends in a sentence
        (["run", "--help"], False),
        (["demo", "-h"], False),
        (["plan", "a.yaml"], False),
        ([], False),
    ],
    ids=str,
)
def test_what_starts_workers_with_default_settings(tmp_path, monkeypatch, words, starts):
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    assert _starts_workers(words) == starts


@pytest.mark.parametrize("name", ["x" * 300, "a\0b", "."])
def test_names_of_no_file_are_the_commands_to_refuse(name):
    assert not _starts_workers(["run", "a.yaml", "--cluster", name])


def test_a_pipe_is_left_to_the_command(tmp_path):
    os.mkfifo(tmp_path / "pipe")  # to open it would wait for a writer
    assert not _starts_workers(["run", "a.yaml", "--cluster", str(tmp_path / "pipe")])
