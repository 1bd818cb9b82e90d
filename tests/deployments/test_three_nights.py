"""docs/deploy/cron.md, "Three nights, played": cron, the shipped lines, and sites over TLS."""

import csv
import os
import re
import shlex
import subprocess
import sys
from datetime import UTC, datetime, time, timedelta, timezone
from functools import partial
from pathlib import Path

import numpy as np
import psutil
import pytest
from click.testing import CliRunner

import daskfc as fc
from daskfc.cli import main
from daskfc.deploy.connections.reaching import address_in
from daskfc.examples import hospital_tables
from daskfc.runs import Run, list_runs, status_of
from tests.deployments.cron_daemon import Cron, why_no_cron
from tests.deployments.lines import CONFIGS, PAGES, ROOT
from tests.deployments.slurm_cluster import until
from tests.test_three_sites import Terminal, blocks, commands

PAGE = PAGES / "cron.md"
CLIENTS = ("hospital-a", "hospital-b", "hospital-c")
COLUMNS = "age,bmi,systolic,heart_rate"
LONGEST_S = 600  # two of cron's minutes and a run, on a busy machine
NEW = 40
# The clock is the machine's; a night passes since cron's lines get another time zone. None of the
# three is a whole day away, which Python does not take, so that all are played off midnight.
ZONES = [timedelta(hours=hours) for hours in (-23.5, 0, 23.5)]


def why_not():
    if not time(0, 40) < datetime.now(UTC).time() < time(23, 10):
        return "no three days are three time zones away near midnight UTC"
    return why_no_cron()


pytestmark = [
    pytest.mark.deploy,
    pytest.mark.slow,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(bool(why_not()), reason=why_not()),
]


def section():
    _, found, rest = PAGE.read_text("utf-8").partition("\n## Three nights, played\n")
    assert found
    return rest.partition("\n## ")[0]


def daskfc(*words):
    done = CliRunner().invoke(main, [str(word) for word in words])
    assert done.exit_code == 0, done.output


class Sites:
    """A scheduler, a server and three hospitals, each in its own folder, and a submitter's."""

    def __init__(self, folder):
        self.folder = folder
        self.nightly = folder / "nightly"
        self.running = {}
        daskfc("init", "--example", "hospitals", "trial")
        daskfc("certs", "init")
        roles = {"scheduler": "scheduler", "server": "server", "ana": "submitter"}
        for name, role in {**roles, **dict.fromkeys(CLIENTS, "client")}.items():
            (folder / name).mkdir()
            daskfc("certs", "issue", "--role", role, name)
        for name in CLIENTS:
            daskfc(
                *("stores", "add", name, f"trial/data/{name}.csv", "--id", "patient"),
                *("--columns", COLUMNS, "--store", self.store(name)),
            )

    def store(self, name):
        return str(self.folder / name / "own.zarr")

    def start(self, name, *words):
        own = self.folder / "ca" / "parties" / name
        files = {"ca-file": "ca", "cert": "cert", "key": "key"}
        words = [*words, *(f"--tls-{key}={own / f'{file}.pem'}" for key, file in files.items())]
        with (self.folder / name / "log").open("a") as log:
            self.running[name] = subprocess.Popen(
                [sys.executable, "-m", "daskfc", *words],
                cwd=self.folder / name, env={**os.environ, "NIGHTLY": str(self.nightly)},
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip

    def start_all(self):
        """Return the scheduler's address."""
        file = self.folder / "scheduler" / "scheduler.json"
        self.start("scheduler", "scheduler", "--port=0", f"--scheduler-file={file}")
        self.address = address_in(str(file), wait=LONGEST_S)
        self.start_parties("server", *CLIENTS)

    def start_parties(self, *names):
        """Return once all have joined."""
        before = {name: len(self.told(name)) for name in names}
        for name in names:
            words = ["party", name, "--scheduler", self.address, "--workspace=files", "--wait=10m"]
            self.start(name, *words, *([] if name == "server" else ["--store", self.store(name)]))
        for name in names:
            joined = partial(self.told, name)
            until(
                lambda: "joined; waits for" in joined()[before[name] :],  # noqa: B023
                joined,
                limit=LONGEST_S,
            )

    def told(self, name):
        log = self.folder / name / "log"
        return log.read_text() if log.exists() else ""

    def end(self, *names):
        """End processes, and return their exit codes."""
        processes = [self.running.pop(name) for name in names]
        for process in processes:
            process.terminate()
        return [process.wait(60) for process in processes]


class Nights:
    """The page's files and lines, with the places and the dates of this test."""

    def __init__(self, sites, cron):
        self.sites, self.cron = sites, cron
        today = datetime.now(UTC)
        days = [today.astimezone(timezone(zone)).date() for zone in ZONES]
        self.names = [f"nightly-{day:%Y-%m-%d}" for day in days]
        self.page = section()
        for number, name in enumerate(self.names, start=1):
            self.page = self.page.replace(f"nightly-2026-03-0{number}", name)
        self.terminal = Terminal(sites.folder)
        self.runs = sites.nightly / "runs"

    def install(self):
        """Put what the page says a submitter needs where it says."""
        own = self.sites.folder / "ca" / "parties" / "ana"
        text = (CONFIGS / "tls-sites.yaml").read_text("utf-8")
        for said, meant in (
            ("tls://10.0.0.1:8786", self.sites.address),
            ("startup: 5 minutes", "startup: 20s"),
            ("connect: 15s", "connect: 60s"),  # on a busy machine
        ):
            assert said in text
            text = text.replace(said, meant)
        (own / "tls-sites.yaml").write_text(text)
        for kind, block in blocks(self.page):
            if kind == "yaml":
                (own / block.partition("\n")[0].removeprefix("# ")).write_text(block)
        typed = re.findall(r"^ {4}(install .+)$", PAGE.read_text("utf-8"), re.MULTILINE)
        assert len(typed) == 2
        for line in typed:
            words = shlex.split(line.replace("/srv/daskfc/nightly", str(self.sites.nightly)))
            subprocess.run(words, cwd=own, check=True)

    def crontab(self, night, *changes):
        """Let cron have the shipped lines, for a night; the last start's is of a day that is not.

        Of these lines alone the times, the places and `changes` are another.
        """
        text = (CONFIGS / "cron").read_text("utf-8")
        for said, meant in (
            ("/srv/daskfc/nightly", str(self.sites.nightly)),
            ("/opt/daskfc/bin", str(Path(sys.executable).parent)),
            ("\n30 2-6 * * *", "\n* * * * *"),
            ("\n30 7 * * *", "\n30 7 30 2 *"),
            ("--keep 30", "--keep 30 --notify ./told.sh"),
            *changes,
        ):
            assert said in text
            text = text.replace(said, meant)
        zone = -ZONES[night] // timedelta(minutes=30)  # a TZ counts to the west
        sign = "-" if zone < 0 else "+"
        own = f"TZ=NGT{sign}{abs(zone) // 2}:{30 * (abs(zone) % 2):02}\nPYTHONPATH={ROOT}\n"
        self.cron.install(own + text)

    def type(self, title):
        """Type a part of the page: what stands below a heading."""
        _, found, rest = self.page.partition(f"\n### {title}\n")
        assert found, title
        for kind, text in blocks(rest.partition("\n### ")[0]):
            if kind == "console":
                for place, command, told in commands(text):
                    self.terminal.types(place, command, told)
        assert self.terminal.code == 0, self.terminal.transcript

    def told(self, night, how):
        """Return whether the hook was told that a night's start ended so."""
        file = self.sites.nightly / "told"
        text = file.read_text() if file.exists() else ""
        return f"{self.names[night]}: {how}" in text.splitlines()

    def seen(self):
        """Return what helps to see why something did not happen."""
        log = self.sites.nightly / "log"
        told = log.read_text()[-3000:] if log.exists() else "no log"
        return f"cron runs: {self.cron.runs()}\n{told}\n{self.cron.mail.read_text()}"

    def wait(self, true):
        until(true, self.seen, limit=LONGEST_S)


@pytest.fixture
def sites(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sites = Sites(tmp_path)
    try:
        sites.start_all()
        yield sites
    finally:
        sites.end(*sites.running)


def of_this_test(folder):
    """Return processes, other than this one, that were started within a folder's night."""
    found = []
    for process in psutil.process_iter():
        try:
            environment = process.environ()
        except psutil.Error:
            continue
        if environment.get("NIGHTLY") == str(folder) and process.pid != os.getpid():
            found.append(process)
    return found


def new_patients(sites, name, seed):
    """Write a file of patients that a hospital does not have."""
    head, *rows = hospital_tables(seed=seed)[name]
    with (sites.folder / name / "new.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([head, *([f"new-{row[0]}", *row[1:]] for row in rows[:NEW])])


def undisturbed(sites):
    stores = {name: {"store": sites.store(name)} for name in CLIENTS}
    pipeline = str(sites.nightly / "pipeline.yaml")
    return fc.run(pipeline, storage={"clients": stores}, runs_dir=sites.folder / "others")


def check_same(run, other):
    found, wanted = run.all_labels, other.all_labels
    np.testing.assert_array_equal(found["client"], wanted["client"])
    np.testing.assert_array_equal(found, wanted)
    assert np.unique(found).size == 3


def test_three_nights(sites, tmp_path):
    with Cron(tmp_path) as cron:
        nights = Nights(sites, cron)
        nights.install()
        nights.type("Before")
        play(nights, sites)
        nights.crontab(2, ("* * * * * cd", "30 7 30 2 * cd"))  # from now on nothing starts
        parties = {process.pid for process in sites.running.values()}
        until(lambda: not jobs(sites, parties), nights.seen)
    codes = sites.end(*CLIENTS, "server", "scheduler")
    assert codes == [0] * 5
    until(lambda: not of_this_test(sites.nightly), lambda: of_this_test(sites.nightly))
    # One mail in all: of the driver that was killed.
    assert cron.mail.read_text().count("\nSubject: ") == 1


def jobs(sites, parties):
    """Return the processes that cron started and that are still there."""
    ours = {child.pid for pid in parties for child in psutil.Process(pid).children(recursive=True)}
    return [one for one in of_this_test(sites.nightly) if one.pid not in parties | ours]


def play(nights, sites):
    one, two, three = (nights.runs / name for name in nights.names)

    nights.crontab(0)
    nights.wait(lambda: nights.told(0, "done, 0"))
    nights.type("The first night")

    new_patients(sites, "hospital-a", seed=1)
    nights.type("The second, in which the driver is killed")
    nights.crontab(1)
    nights.wait(lambda: len(list((two / "fits").glob("OmniFC-*"))) >= 1)
    psutil.Process(status_of(two)["progress"]["pid"]).kill()
    kept = len(list((two / "fits").glob("OmniFC-*")))
    assert kept < len(Run(one).config["pipeline"]["seeds"])
    nights.wait(lambda: "\nSubject: " in nights.cron.mail.read_text())
    nights.type("It is told by mail, and by the folder")
    nights.wait(lambda: nights.told(1, "done, 0"))
    nights.type("And goes on")
    assert (two / "log.txt").read_text().count("done before, kept") >= kept
    check_same(Run(two), undisturbed(sites))

    new_patients(sites, "hospital-c", seed=2)
    nights.type("The third, in which a hospital is away")
    assert sites.end("hospital-b") == [0]
    nights.crontab(2)
    nights.wait(lambda: nights.told(2, "not started, 75"))
    assert not three.exists()
    nights.type("Nobody is mailed")
    sites.start_parties("hospital-b")
    nights.wait(lambda: nights.told(2, "done, 0"))
    nights.type("And it comes")
    listed = list_runs(nights.runs)
    assert list(listed["name"]) == nights.names[::-1]
    assert set(listed["state"]) == {"done"}
    assert [Run(run).summary["n_samples"] for run in (one, two, three)] == [420, 460, 500]
    kept = [(run / "summary.json").read_bytes() for run in (two, three)]
    nights.crontab(2, ("--keep 30", "--keep 2"))
    left = lambda: sorted(path.name for path in nights.runs.iterdir())  # noqa: E731
    nights.wait(lambda: left() == nights.names[1:])  # one that goes has another name at last
    nights.type("And old ones go")
    assert [(run / "summary.json").read_bytes() for run in (two, three)] == kept
    assert sites.told("hospital-a").count("run opening") == 4  # as before: nothing runs again
