"""Every daskfc command in a file that users copy is one that daskfc has, with these options."""

import click
import pytest
import yaml

from tests.deployments import manifests
from tests.deployments.lines import (
    CONFIGS,
    PAGES,
    of_crontab,
    of_page,
    of_unit,
    parsed,
)

NIGHTLY = "nightly-{date}"


def compose():
    return yaml.safe_load((CONFIGS / "containers" / "compose.yaml").read_text("utf-8"))


def lines():
    for name in ("party", "nightly"):
        path = CONFIGS / "systemd" / f"daskfc-{name}.service"
        yield pytest.param(of_unit(path), id=path.name)
    for number, words in enumerate(of_crontab(CONFIGS / "cron")):
        yield pytest.param(words, id=f"cron-{number}")
    for name in manifests.MANIFESTS:
        for pod in manifests.pods(name):
            yield pytest.param(pod.words, id=f"{name}-{pod.name}")
    for name, service in compose()["services"].items():
        yield pytest.param(service["command"], id=f"compose-{name}")
    for page in sorted(PAGES.glob("*.md")):
        for number, words in enumerate(of_page(page)):
            yield pytest.param(words, id=f"{page.stem}-{number}")


LINES = list(lines())


@pytest.mark.parametrize("words", LINES)
def test_a_command_can_be_read(words):
    known = ("party", "scheduler", "run", "init", "issue", "build", "add", "new")
    assert parsed(words)["command"] in known


def test_every_scheduled_run_is_one_a_night():
    found = [parsed(one.values[0]) for one in LINES if "--resume-or-start" in one.values[0]]
    assert len(found) >= 7  # a unit, two lines of cron, a CronJob, and their pages
    for options in found:
        assert options["run_key"] == NIGHTLY
        assert options["resume_or_start"] is True
        assert options["keep"] == 30


def test_an_option_that_is_gone_is_noticed():
    with pytest.raises(click.NoSuchOption):
        parsed(["party", "hospital-a", "--nanny-prot=8791"])
    with pytest.raises(click.MissingParameter):
        parsed(["party", "--port=8790"])
