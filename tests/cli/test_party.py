import importlib

import pytest

from daskfc.deploy.config.config import SecurityFiles

TCP = ("--scheduler", "tcp://127.0.0.1:1")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["a", *TCP], "--store"),
        (["server", *TCP, "--store", "x"], "holds no data"),
        (["caller", *TCP, "--store", "x"], "'caller'"),
        (["a/b", *TCP, "--store", "x"], "name"),
        (["a", *TCP, "--store", "none.zarr"], "none.zarr"),
        (["server", *TCP, "--memory-limit", "2 fast"], "memory"),
        (["server", *TCP, "--tls-cert", "c.pem"], "together"),
    ],
)
def test_bad_input_is_2_and_one_line(daskfc, words, said):
    result = daskfc("party", *words)
    assert result.exit_code == 2, result.output
    assert said in result.stderr
    assert len(result.stderr.splitlines()) == 1


CERTIFICATES = ["--tls-ca-file", "ca", "--tls-cert", "cert", "--tls-key", "key"]
SCHEDULED = {
    "host": "h", "port": 1, "scheduler_file": "f", "dashboard": "d", "metrics": "m",
}  # fmt: skip
SERVED = {
    "scheduler": "tls://h:1", "scheduler_file": "f", "wait": 60.0, "store": "s",
    "memory_limit": "3GB", "nthreads": 2, "blas_threads": 3, "device": "cpu",
    "workspace": "w", "keep": 9,
    "host": "h", "port": 4, "nanny_port": 5, "contact_address": "c", "metrics": "m", "policy": "p",
    "state": "q", "trusted": True,
}  # fmt: skip


@pytest.mark.parametrize(
    ("command", "names", "options"), [("scheduler", [], SCHEDULED), ("party", ["a"], SERVED)]
)
def test_whoever_serves_is_told_every_option(daskfc, monkeypatch, command, names, options):
    told = {}
    module = importlib.import_module(f"daskfc.cli.sites.{command}")
    monkeypatch.setattr(module, f"serve_{command}", lambda *who, **all: told.update(all, who=who))
    words = [
        word
        for name, value in options.items()
        for word in (f"--{name.replace('_', '-')}", *([] if value is True else [value]))
    ]
    done = daskfc(command, *names, *words, *CERTIFICATES)
    assert done.exit_code == 0, done.output
    security = SecurityFiles(ca="ca", cert="cert", key="key")
    assert told == {**options, "security": security, "narrates": True, "who": tuple(names)}
    assert daskfc(command, *names, *words, *CERTIFICATES, "--log-json").exit_code == 0
    assert told["narrates"] == "json"


def test_a_party_needs_a_scheduler(daskfc):
    assert daskfc("party", "a").exit_code == 2


@pytest.mark.slow
def test_an_unreachable_scheduler_is_75(daskfc):
    result = daskfc("party", "server", *TCP, "--wait", "0.5")
    assert result.exit_code == 75
    assert "tcp://127.0.0.1:1" in result.stderr
