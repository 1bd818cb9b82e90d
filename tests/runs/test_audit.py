"""The audit of real ledgers of a small run: whatever somebody does to them is found."""

import json
import os
import shutil
import signal

import pytest
from click.testing import CliRunner

from daskfc.cli import main
from daskfc.coding import SecretKey
from daskfc.errors import InvalidInput
from daskfc.federation.ledger.chain import Head, linked, read_chain
from daskfc.federation.ledger.key import LedgerKey
from daskfc.runs import audit, prepare
from daskfc.runs.execution import execution
from daskfc.runs.outcome.folder import RunFolder

pytestmark = pytest.mark.slow

PIPELINE = {
    "method": "OmniFC",
    "params": {"n_clusters": 3, "clusterer": "hierarchical"},
    "compare": ["k-FED"],
    "map": False,
}
STRANGER = LedgerKey(SecretKey.from_bytes(bytes(32)))


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("audited")


def prepared(place, name):
    storage = {
        "source": {"dataset": "iris"},
        "partition": {"scheme": "iid", "clients": 3, "seed": 0},
        "root": str(place / "stores"),
    }
    cluster = {"cluster": "local", "startup": "300s", "deadline": "120s"}
    return prepare(PIPELINE, storage=storage, cluster=cluster, runs_dir=place, name=name)


@pytest.fixture(scope="module")
def done(place):
    prepared(place, "done").resume()
    return place / "done"


@pytest.fixture
def folder(done, tmp_path):
    """A copy to be spoilt."""
    return shutil.copytree(done, tmp_path / "run")


def ledger(folder, party="client-1", method="OmniFC"):
    return folder / "ledgers" / method / f"{party}.jsonl"


def findings(folder, **options):
    return " | ".join(audit(folder, **options).findings)


def lines_of(path):
    return path.read_bytes().splitlines(keepends=True)


def rewritten(path, change, key=STRANGER):
    """Write a ledger anew, every line chained and signed, as its party could with its own key."""
    lines = [dict(line) for line in read_chain(path).lines]
    lines = change(lines) or lines
    head, text = Head(), b""
    for line in lines:
        bare = {name: value for name, value in line.items() if name not in ("before", "signature")}
        if bare["kind"] == "start":
            bare["key"] = key.public
        part, head = linked([bare], head, key)
        text += part
    path.write_bytes(text)


def nothing(lines):
    return None


def numbers(lines, kind, **such):
    return [
        number
        for number, line in enumerate(lines)
        if line["kind"] == kind and all(line.get(name) == value for name, value in such.items())
    ]


def test_a_clean_run_has_no_findings(done):
    found = audit(done)
    assert found.findings == ()
    assert found.holds
    assert [party.name for party in found.parties] == ["client-1", "client-2", "client-3", "server"]
    assert [party.files for party in found.parties] == [3] * 4
    rows = RunFolder(done).read_ledger()
    assert sum(party.sent for party in found.parties) == len(rows)
    assert sum(party.received for party in found.parties) == (rows["receiver"] != "caller").sum()
    (note,) = found.notes
    assert f"{(rows['receiver'] == 'caller').sum()} messages to the caller" in note
    assert not (done / "work").exists()
    told = CliRunner().invoke(main, ["audit", str(done)])
    assert told.exit_code == 0
    assert told.stdout.splitlines()[-1] == "All ledgers are whole, and agree."


def test_a_flipped_byte_is_found(folder):
    path = ledger(folder)
    text = path.read_bytes()
    at = text.index(b'"payload_bytes":') + 16
    path.write_bytes(text[:at] + bytes([text[at] ^ 1]) + text[at + 1 :])
    assert "the ledger of client-1 is not as it was written" in findings(folder)
    told = CliRunner().invoke(main, ["audit", str(folder)])
    assert told.exit_code == 1
    assert told.stdout.splitlines()[-1].endswith("findings.")
    told = CliRunner().invoke(main, ["audit", str(folder), "--json"])
    assert told.exit_code == 1
    assert json.loads(told.stdout)["holds"] is False


def test_a_deleted_line_is_found(folder):
    lines = lines_of(ledger(folder))
    ledger(folder).write_bytes(b"".join(lines[:3] + lines[4:]))
    assert "the ledger of client-1 is not as it was written: line 4 does not" in findings(folder)


def test_swapped_lines_are_found(folder):
    lines = lines_of(ledger(folder))
    lines[2], lines[3] = lines[3], lines[2]
    ledger(folder).write_bytes(b"".join(lines))
    assert "lines 3, 4 and 5 do not follow" in findings(folder)


def test_an_added_line_is_found(folder):
    with ledger(folder).open("ab") as file:
        file.write(b'{"kind":"end","run":"r","start":"s","time":1.0}\n')
    assert "the ledger of client-1 has no chain in line" in findings(folder)


@pytest.mark.parametrize("left", [1, 2, 5, 8])
def test_a_shortened_ledger_is_found(folder, left):
    ledger(folder).write_bytes(b"".join(lines_of(ledger(folder))[:left]))
    found = findings(folder)
    assert "ledger.parquet has" in found
    assert "the ledger of client-1 has not or has otherwise" in found


def test_a_ledger_cut_within_a_line_is_found(folder):
    ledger(folder).write_bytes(ledger(folder).read_bytes()[:-30])
    assert "bytes of a line that is not whole" in findings(folder)


def test_a_missing_ledger_is_found(folder):
    for path in folder.glob("ledgers/*/client-2.jsonl"):
        path.unlink()
    assert "no ledger of client-2 was given, so that" in findings(folder)


def test_a_ledger_under_another_key_is_found(folder):
    rewritten(ledger(folder), nothing)
    assert read_chain(ledger(folder)).faults == ()
    found = findings(folder)
    assert "under another key than that of the ledger which was given for client-1" in found
    assert "not as it was written" not in found


def test_the_key_that_was_agreed_on_is_asked_for(folder):
    for path in folder.glob("ledgers/*/client-1.jsonl"):
        rewritten(path, nothing)
    agreed = {"client-1": STRANGER.public}
    assert "was agreed on" not in findings(folder, keys=agreed)
    assert "was agreed on" in findings(folder, keys={"client-1": "00" * 32})
    assert "a key was given for nobody" in findings(folder, keys={"nobody": "00" * 32})


def test_one_ledger_of_several_under_another_key_than_was_agreed_on_is_found(folder):
    last, *others = sorted(folder.glob("ledgers/*/client-1.jsonl"))
    for path in others:
        rewritten(path, nothing)
    agreed = {"client-1": STRANGER.public.upper()}
    assert "was agreed on" in findings(folder, keys=agreed)
    rewritten(last, nothing)
    assert "was agreed on" not in findings(folder, keys=agreed)


def test_other_bytes_on_the_wire_than_the_run_counted_are_found(folder):
    def change(lines):
        number = next(at for at, line in enumerate(lines) if line["kind"] == "sent")
        lines[number]["wire_bytes"] += 1

    rewritten(ledger(folder), change)
    found = findings(folder)
    assert "the run's ledger.parquet has 1 message that the ledger of client-1 has not or" in found


def test_another_partys_ledger_is_found(folder):
    shutil.copy(ledger(folder, "client-2"), ledger(folder))
    assert "the ledger that was given for client-1 is that of client-2" in findings(folder)


@pytest.mark.parametrize("side", ["client-1", "server"])
def test_a_digest_that_one_side_changed_is_found(folder, side):
    def change(lines):
        kind = "message" if side == "client-1" else "receipt"
        such = {"receiver": "server"} if side == "client-1" else {"sender": "client-1"}
        number = numbers(lines, kind, **such)[0]
        lines[number]["digest"] = "0" * 64

    rewritten(ledger(folder, side), change)
    found = findings(folder)
    assert "not as it was written" not in found
    assert "which client-1 sent to server, has another digest in the receipt of server" in found


def test_a_message_that_one_side_invents_is_found(folder):
    def change(lines):
        (number, *_) = numbers(lines, "message", receiver="server")
        more = {**lines[number], "id": STRANGER.new_id(), "mark": "more", "task": "more"}
        whole = {"kind": "sent", "mark": "more", "wire_bytes": 1000}
        return [*lines[:-1], more, whole, lines[-1]]

    rewritten(ledger(folder, "client-1"), change)
    found = findings(folder)
    assert "client-1 says that it sent server the message" in found
    assert "the ledger of server has no receipt of it" in found


def test_a_message_that_the_sender_conceals_is_found(folder):
    def change(lines):
        (number, *_) = numbers(lines, "message", receiver="server")
        return lines[:number] + lines[number + 1 :]

    rewritten(ledger(folder, "client-1"), change)
    found = findings(folder)
    assert "server says that it got from client-1 the message" in found
    assert "the ledger of client-1 has no such message" in found
    assert "the run's ledger.parquet has 1 message that the ledger of client-1 has not" in found


def test_a_receipt_that_the_receiver_conceals_is_found(folder):
    def change(lines):
        (number, *_) = numbers(lines, "receipt", sender="client-1")
        return lines[:number] + lines[number + 1 :]

    rewritten(ledger(folder, "server"), change)
    assert "the ledger of server has no receipt of it" in findings(folder)


def test_a_message_that_is_called_otherwise_is_found(folder):
    def change(lines):
        (number, *_) = numbers(lines, "receipt", sender="client-1")
        lines[number]["message"] = "Nothing"

    rewritten(ledger(folder, "server"), change)
    assert "is called Nothing of step" in findings(folder)


def test_a_message_sent_twice_or_broken_off_is_a_note(folder):
    def change(lines):
        first, second, *_ = numbers(lines, "message", receiver="server")
        again = {**lines[first], "mark": "again"}
        broken = {**lines[second], "mark": "broken", "id": "b-1", "task": "other"}
        return [*lines[:-1], again, broken, lines[-1]]

    rewritten(ledger(folder, "client-1"), change)
    notes = " | ".join(audit(folder).notes)
    assert "1 message from client-1 to server was sent twice" in notes
    assert "1 message from client-1 to server was not received, and its sending broke off" in notes
    assert "no receipt" not in findings(folder)


def test_other_settings_at_one_party_are_found(folder):
    def change(lines):
        lines[0]["settings"] = "0" * 64

    rewritten(ledger(folder, "client-2"), change)
    assert "was begun by client-2 with other settings than by the other" in findings(folder)


def test_ledgers_of_before_are_said_to_have_no_chain(folder):
    path = ledger(folder)
    kept = ("kind", "before", "signature", "id", "digest")
    rows = [line for line in read_chain(path).lines if line["kind"] in ("message", "sent")]
    old = [{name: value for name, value in row.items() if name not in kept} for row in rows]
    path.write_text("".join(json.dumps(row) + "\n" for row in old))
    found = findings(folder)
    assert "the ledger of client-1 has no chain, as of an earlier daskfc" in found
    assert "of client-1 have no digest to be compared" in found
    assert "ledger.parquet" not in found


def test_sites_hand_over_files_or_folders(done, tmp_path):
    folder = shutil.copytree(done, tmp_path / "run")
    given = {}
    for path in sorted((folder / "ledgers").glob("*/*.jsonl")):
        place = tmp_path / "sites" / path.stem / path.parent.name / "ledger.jsonl"
        place.parent.mkdir(parents=True)
        path.replace(place)
        given.setdefault(path.stem, []).append(place)
    with pytest.raises(InvalidInput, match="no party's ledger is there, as of a run between sites"):
        audit(folder)
    assert findings(folder, ledgers=given) == ""
    given["client-1"] = [tmp_path / "sites" / "client-1"]
    other = tmp_path / "sites" / "client-1" / "another run" / "ledger.jsonl"
    other.parent.mkdir()
    text, _ = linked([{"kind": "receipt", "run": "another", "time": 1.0}], Head(), STRANGER)
    other.write_bytes(text)
    assert findings(folder, ledgers=given) == ""
    with pytest.raises(InvalidInput, match=r"no ledger of client-1 is below that folder"):
        audit(folder, ledgers={"client-1": [folder / "models"]})
    words = [f"--ledger={name}={tmp_path / 'sites' / name}" for name in given]
    told = CliRunner().invoke(main, ["audit", str(folder), *words, "--json"])
    assert told.exit_code == 0
    assert json.loads(told.stdout)["holds"] is True


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--ledger", "a"], "--ledger must be NAME=FILE; got 'a'"),
        (["--key", "a=5"], "--key must give one key of 64 hexadecimal digits for a; got 5"),
        (["--ledger", "a=/no/file"], "/no/file: the ledger cannot be read"),
    ],
)
def test_bad_input_is_one_sentence(done, words, sentence):
    told = CliRunner().invoke(main, ["audit", str(done), *words])
    assert told.exit_code == 2
    assert sentence in told.stderr


@pytest.fixture
def opened(monkeypatch):
    """The federations that runs open."""
    found = []
    plain = execution.open_federation

    def open_federation(*args):
        found.append(plain(*args))
        return found[-1]

    monkeypatch.setattr(execution, "open_federation", open_federation)
    return found


def test_a_run_whose_client_and_server_were_killed_has_no_findings(place, opened):
    killed = []

    def progress(stage, done, total):
        for party, words in (("client-2", "OmniFC"), ("server", "k-FED")):
            if words in stage and party not in killed:
                killed.append(party)
                os.kill(opened[-1].processes.pid(party), signal.SIGKILL)

    prepared(place, "killed").resume(progress=progress)
    assert len(killed) == 2
    found = audit(place / "killed")
    assert found.findings == ()
    starts = [line["kind"] for line in read_chain(ledger(place / "killed", "client-2")).lines]
    assert starts.count("start") == 2


def test_a_run_that_was_interrupted_and_resumed_has_no_findings(place, opened):
    stages = []

    def progress(stage, done, total):
        if "OmniFC" in stage and stage not in stages:
            stages.append(stage)
            if len(stages) == 3:
                raise KeyboardInterrupt

    run = prepared(place, "resumed")
    with pytest.raises(KeyboardInterrupt):
        run.resume(progress=progress)
    assert audit(run.folder).findings == ()
    run.resume()
    found = audit(run.folder)
    assert found.findings == ()
    lines = read_chain(ledger(run.folder, "client-1")).lines
    assert len({line["run"] for line in lines if line["kind"] == "start"}) == 2
    assert len(read_chain(ledger(run.folder, "client-1")).keys) == 1
