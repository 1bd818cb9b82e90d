"""The image and the trial federation of containers: what their files say, and that they run.

DASKFC_PODMAN_BUILD has options for `podman build`: another base (`--build-arg BASE=...`) where
the usual one cannot be fetched.
"""

import json
import os
import re
import shlex
import subprocess
import sys
import tomllib

import pytest
import yaml
from click.testing import CliRunner

from daskfc.cli import main
from daskfc.deploy.certificates.party_list import FederationList
from tests.deployments import manifests
from tests.deployments.lines import CONFIGS, PAGES, ROOT, parsed
from tests.deployments.programs import which
from tests.ports import free_port

FOLDER = CONFIGS / "containers"
COMPOSE = yaml.safe_load((FOLDER / "compose.yaml").read_text("utf-8"))
SERVICES = COMPOSE["services"]
each_service = pytest.mark.parametrize("name", SERVICES)


def instructions():
    text = (FOLDER / "Containerfile").read_text("utf-8").replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [tuple(line.split(maxsplit=1)) for line in lines]


def test_the_image_is_no_root_and_compiled_with_pins():
    found = instructions()
    assert ("ARG", "BASE=docker.io/library/python:3.12-slim") in found
    kinds = [kind for kind, _ in found]
    user = int(dict(found)["USER"].partition(":")[0])
    assert user >= 10000
    assert kinds.index("USER") > max(at for at, kind in enumerate(kinds) if kind == "RUN")
    built = dict(found)["RUN"]
    assert "--constraint constraints.txt" in built
    assert "-m compileall" in built
    environment = dict(pair.split("=", 1) for pair in dict(found)["ENV"].split())
    assert environment["NUMBA_CACHE_DIR"].startswith("/tmp/")
    assert dict(found)["ENTRYPOINT"] == '["daskfc"]'


def test_the_image_copies_what_is_there():
    for kind, given in instructions():
        if kind == "COPY":
            *sources, _ = given.split()
            assert all((ROOT / source).exists() for source in sources)
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    (asked,) = re.findall(r"'\.\[(\w+)\]'", (FOLDER / "Containerfile").read_text("utf-8"))
    assert asked in extras["optional-dependencies"]


def test_all_files_name_the_same_image_of_this_version():
    version = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    images = {service["image"] for service in SERVICES.values()}
    for name in manifests.MANIFESTS:
        images |= {pod.container["image"].rpartition("/")[2] for pod in manifests.pods(name)}
    assert images == {f"daskfc:{version}"}
    assert f"--tag daskfc:{version} ." in (FOLDER / "Containerfile").read_text("utf-8")


@each_service
def test_a_container_has_no_rights(name):
    service = SERVICES[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["user"].startswith("${DASKFC_USER:?")
    assert service["pids_limit"] > 0
    assert service["stop_grace_period"] == "30s"  # a party takes some seconds to end
    assert service["init"] is True
    assert service["mem_limit"] in ("1g", "3g")
    assert service["networks"] == ["federation"]
    assert COMPOSE["networks"]["federation"] == {"internal": True}
    assert any(where.startswith("/tmp:") for where in service["tmpfs"])


def mounts(name):
    """Return what each folder of a container is outside, and how it is mounted."""
    found = {}
    for volume in SERVICES[name]["volumes"]:
        outside, inside, *how = volume.split(":")
        found[inside] = (outside, how)
    return found


def mounted(name, path):
    """Return where a path of a container lies outside, and how."""
    (inside,) = [one for one in mounts(name) if path == one or path.startswith(f"{one}/")]
    outside, how = mounts(name)[inside]
    return outside + path[len(inside) :], how


@each_service
def test_what_a_command_names_is_mounted(name):
    options = parsed(SERVICES[name]["command"])
    for key in ("store", "policy", "pipeline", "cluster", "tls_ca_file", "tls_cert", "tls_key"):
        if options.get(key):
            assert mounted(name, options[key])[1] == ["ro"]
    for key in ("workspace", "runs_dir"):
        if options.get(key):
            assert mounted(name, options[key])[1] == []


def test_parties_find_the_scheduler_by_its_name():
    options = {name: parsed(service["command"]) for name, service in SERVICES.items()}
    where = options["scheduler"]
    assert where["host"] == "scheduler"
    for found in options.values():
        if found["command"] == "party":
            assert found["scheduler"] == f"tls://{where['host']}:{where['port']}"
    page = (PAGES / "containers.md").read_text("utf-8")
    assert f"\nscheduler: {{host: {where['host']}}}\n" in page
    assert where["port"] == FederationList.model_fields["scheduler"].annotation(host="a").port


def typed():
    """Return what the page has one type before the containers start, a command each."""
    page = (PAGES / "containers.md").read_text("utf-8")
    (block,) = re.findall(r"^```console\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    return [command.rstrip("\n") for command in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]]


@pytest.fixture
def trial(tmp_path, monkeypatch):
    """The folder that the page's commands make."""
    (tmp_path / "cluster-configs").symlink_to(CONFIGS)
    monkeypatch.chdir(tmp_path)
    for command in typed():
        program, *words = shlex.split(command.splitlines()[0])
        if program == "daskfc":
            done = CliRunner().invoke(main, words)
            assert done.exit_code == 0, done.output
        elif program == "cd":
            monkeypatch.chdir(words[0])
        else:
            subprocess.run(["/bin/sh", "-euc", command], check=True)
    return tmp_path / "trial"


@pytest.mark.slow
def test_the_page_makes_every_folder_that_is_mounted(trial):
    for name in SERVICES:
        for outside, _ in mounts(name).values():
            assert (trial / outside).is_dir(), (name, outside)
        options = parsed(SERVICES[name]["command"])
        for key in ("store", "policy", "pipeline", "cluster", "tls_ca_file", "tls_cert", "tls_key"):
            if options.get(key):
                assert (trial / mounted(name, options[key])[0]).exists(), (name, key)


def as_process(trial, name, port):
    """Return the command of a service with what it names outside of its container."""
    words = []
    for word in SERVICES[name]["command"]:
        option, equals, value = word.rpartition("=")
        if value.startswith("/"):
            value = str(trial / mounted(name, value)[0])
        value = value.replace("tls://scheduler:8786", f"tls://127.0.0.1:{port}")
        value = {"--host": "127.0.0.1", "--port": str(port)}.get(option, value)
        words.append(option + equals + value)
    return [sys.executable, "-m", "daskfc", *words]


@pytest.mark.deploy
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_trial_runs_as_plain_processes(trial):
    port = free_port()
    cluster = trial / "ca" / "parties" / "ana" / "cluster.yaml"
    text = cluster.read_text().replace("tls://scheduler:8786", f"tls://127.0.0.1:{port}")
    cluster.write_text(text)
    staying = [
        subprocess.Popen(as_process(trial, name, port), cwd=trial, stderr=subprocess.DEVNULL)
        for name, service in SERVICES.items()
        if "profiles" not in service
    ]
    try:
        done = subprocess.run(
            as_process(trial, "run", port), cwd=trial, capture_output=True, text=True, check=False
        )
    finally:
        for process in staying:
            process.terminate()
        codes = [process.wait(60) for process in staying]
    assert done.returncode == 0, done.stderr
    assert "OmniFC on 420 samples of 3 clients" in done.stdout
    assert list((trial / "runs").glob("*/report.html"))
    assert (trial / "files" / "hospital-a" / "state.sqlite").exists()
    assert codes == [0] * 5


# With podman


def podman(*words, **options):
    done = subprocess.run(
        ["podman", *words], capture_output=True, text=True, check=False, **options
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def page_types(program):
    """Return what the page has one type of a program, the words of a line each."""
    page = (PAGES / "containers.md").read_text("utf-8")
    return [shlex.split(line) for line in re.findall(rf"^    {program} (.*)$", page, re.MULTILINE)]


@pytest.fixture
def image():
    """The image of this checkout, built as the page says."""
    for program in ("podman", "podman-compose"):
        if which(program) is None:
            pytest.skip(f"there is no {program} here")
    options = os.environ.get("DASKFC_PODMAN_BUILD", "")
    if "BASE=" not in options:
        base = dict(instructions())["ARG"].partition("=")[2]
        pulled = subprocess.run(["podman", "pull", base], capture_output=True, check=False)
        if pulled.returncode:
            pytest.skip(f"{base} cannot be fetched, and DASKFC_PODMAN_BUILD names no other base")
    (built,) = page_types("podman")
    podman(*built[:-1], *shlex.split(options), built[-1], cwd=ROOT)


@pytest.fixture
def compose(image, trial):
    """Run podman-compose in the trial's folder, as a user without rights."""
    environment = {**os.environ, "DASKFC_USER": f"{os.getuid()}:{os.getgid()}"}
    if os.getuid() == 0:
        environment["DASKFC_USER"] = "10001:10001"
        subprocess.run(["chown", "--recursive", "10001:10001", str(trial)], check=True)
    else:
        environment["PODMAN_USERNS"] = "keep-id"

    def run(words):
        return subprocess.run(
            [which("podman-compose"), *words],
            cwd=trial, env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip

    yield run
    run(["down"])


def containers():
    """Return all containers of the trial that stay, by the names of their services."""
    label = "label=io.podman.compose.project=daskfc-trial"
    found = json.loads(podman("ps", "--all", "--filter", label, "--format=json"))
    named = {one["Labels"]["com.docker.compose.service"]: one for one in found}
    return {name: one for name, one in named.items() if "profiles" not in SERVICES[name]}


@pytest.mark.deploy
@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_trial_runs_in_containers(compose, trial):
    up, run, down = page_types("podman-compose")
    started = compose(up)
    assert started.returncode == 0, started.stderr
    done = compose(run)
    assert done.returncode == 0, done.stdout + done.stderr
    (summary,) = (trial / "runs").glob("*/summary.json")
    told = json.loads(summary.read_text())
    assert (told["status"], told["n_samples"], told["n_clients"]) == ("done", 420, 3)
    assert summary.with_name("report.html").exists()
    assert (trial / "files" / "hospital-a" / "state.sqlite").exists()

    networks = set()
    for one in containers().values():
        status = podman("exec", one["Id"], "cat", "/proc/self/status")
        rights = dict(re.findall(r"^(Cap\w+):\s*(\w+)$", status, re.MULTILINE))
        assert {rights["CapEff"], rights["CapBnd"]} == {"0" * 16}
        assert re.findall(r"^NoNewPrivs:\s*(\d)$", status, re.MULTILINE) == ["1"]
        assert re.findall(r"^Uid:\s*(\d+)", status, re.MULTILINE) != ["0"]
        networks.add(podman("exec", one["Id"], "readlink", "/proc/self/ns/net"))
        mounts = podman("exec", one["Id"], "cat", "/proc/mounts")
        assert re.findall(r"^\S+ / \S+ (ro|rw),", mounts, re.MULTILINE) == ["ro"]

    assert len(networks) == 5
    assert compose(["stop"]).returncode == 0
    assert {name: one["ExitCode"] for name, one in containers().items()} == dict.fromkeys(
        containers(), 0
    )
    assert compose(down).returncode == 0
    assert containers() == {}
