"""The card for a data protection officer says what the run's folder says."""

import hashlib
import json
import re
from pathlib import Path

import pytest

from daskfc.errors import InvalidInput
from daskfc.runs import run
from daskfc.runs.outcome.folder import RunFolder
from daskfc.runs.report.card import card_of
from tests.runs.fakes import PIPELINE


@pytest.fixture
def done(fake, storage, tmp_path):
    return run(PIPELINE, storage=storage, runs_dir=tmp_path / "runs", name="a")


def read(path):
    return Path(path).read_text(encoding="utf-8")


def text_of(page):
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page.split("<body>")[1]))


def test_the_card_is_the_runs_own_facts(done):
    facts, summary, ledger = done.card, done.summary, done.ledger
    assert facts["n_samples"] == summary["n_samples"] == sum(facts["sites"].values())
    assert list(facts["sites"]) == list(summary["quality"]["by_client"])
    assert facts["messages"]["messages"] == len(ledger)  # of all fits and steps, not of one
    assert facts["messages"]["payload_bytes"] == ledger["payload_bytes"].sum()
    assert facts["versions"] == done.config["versions"]
    assert facts["noise"] is None
    assert json.loads(json.dumps(facts)) == facts


def test_digests_are_of_what_lies_there(done):
    hashes = done.card["hashes"]
    for name in ("labels.parquet", "ledger.parquet", "summary.json"):
        assert hashes[name] == hashlib.sha256((done.folder / name).read_bytes()).hexdigest()
    stores = {f"store of {name}": digest for name, digest in done.config["contents"].items()}
    assert hashes.items() >= stores.items()
    assert hashes["settings"] == RunFolder(done.folder).settings


def test_who_learned_what_is_all_that_messages_reveal(done):
    learned = done.card["learns"]
    told = {one for own in learned.values() for one in own}
    assert told == {reveals for reveals in done.ledger["reveals"] if reveals}
    assert set(learned) <= {"client", "server", "caller", "server worker"}


def test_the_page_says_what_nobody_stated_and_then_what_somebody_did(done, tmp_path):
    page = text_of(read(done.write_card()))
    assert "Nobody stated one" in page
    assert "No raw data left a site" in page
    assert "All stores were read on the machine of the caller" in page
    purpose, title = "To plan <beds> & staff", "Patients, autumn"
    done.write_card(purpose=purpose, title=title)
    raw = read(done.folder / "card.html")
    assert "To plan &lt;beds&gt; &amp; staff" in raw
    assert f"<h1>{title}</h1>" in raw
    assert f"<h1>{title}</h1>" in read(done.write_report())
    assert done.card["purpose"] == purpose  # kept, and the settings' digests know nothing of it
    RunFolder(done.folder).check_unedited()
    assert str(tmp_path) not in raw
    assert "http" not in raw
    assert "src=" not in raw


def test_raw_data_are_not_hushed_up(fake, storage, tmp_path):
    found = run({**PIPELINE, "compare": ["FakeRaw"]}, storage=storage, runs_dir=tmp_path / "r")
    assert found.card["policy"]["raw"]
    assert found.card["compared"] == {"FakeRaw": "sees raw data"}
    page = text_of(read(found.write_card()))
    assert "Raw data left the sites" in page
    assert "No raw data" not in page


def test_of_sites_nothing_is_said_that_is_not_known(done):
    folder = RunFolder(done.folder)
    folder.update(cluster={"cluster": "existing"}, contents={}, builds={"client-1": "b1"})
    assert card_of(folder)["hashes"]["store of client-1"] == "b1"
    page = text_of(read(done.write_card()))
    assert "All stores were read" not in page
    assert "the run's folder has no copy" in page
    assert "ledgers are at the sites" in page


def test_a_run_that_is_not_done_has_no_card_and_keeps_no_words(done):
    folder = RunFolder(done.folder)
    folder.update(status="failed")
    with pytest.raises(InvalidInput, match=r"status is 'failed'. Continue it with: daskfc resume"):
        done.write_card(purpose="x")
    assert "purpose" not in folder.record
    assert not (done.folder / "card.html").exists()


@pytest.mark.parametrize("words", ["", "   ", "two\nlines", "x" * 201])
def test_words_of_a_person_are_one_short_line(done, words):
    with pytest.raises(InvalidInput, match="must be one line of 1 to 200 characters"):
        done.write_report(title=words)
    assert "title" not in done.config
