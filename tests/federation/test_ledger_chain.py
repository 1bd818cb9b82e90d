"""The chain of a ledger: whoever changes, removes, adds or moves a line is noticed."""

import json
import os

import pytest

from daskfc.coding import SecretKey
from daskfc.errors import InvalidInput
from daskfc.federation.ledger.chain import Head, linked, read_chain, read_head
from daskfc.federation.ledger.key import ID_LENGTH, LedgerKey, signer_of
from daskfc.federation.ledger.rows import LedgerFile
from tests.federation.test_ledger import row

KEY = LedgerKey(SecretKey.from_bytes(bytes(range(32))))
OTHER = LedgerKey(SecretKey.from_bytes(bytes(32)))
RUN = {"run_id": "r", "start": "s"}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ledger.jsonl"


@pytest.fixture
def written(path):
    ledger = LedgerFile(path, KEY)
    ledger.start("client-1", RUN)
    marks = ledger.begin([row(), row(time=2.0)], [("i1", "d1"), ("i2", "d2")])
    ledger.complete(marks, [100, 101])
    ledger.receive([{"run": "r", "id": "j", "digest": "e"}])
    ledger.refuse("EgressRefused", "no.")
    ledger.end()
    return ledger


def faults(path):
    return " | ".join(read_chain(path).faults)


def test_a_sound_file_has_every_kind_of_line_in_order(written, path):
    chain = read_chain(path)
    assert chain.faults == ()
    assert chain.keys == (KEY.public,)
    kinds = [line["kind"] for line in chain.lines]
    assert kinds == ["start", "message", "message", "sent", "sent", "receipt", "refusal", "end"]
    assert [("signature" in line) for line in chain.lines] == [1, 0, 1, 0, 1, 1, 1, 1]
    assert [line["run"] for line in chain.lines if line["kind"] != "sent"] == ["r"] * 6
    assert len(written.read("r")) == 2
    assert set(written.read("r")[0]) == set(vars(row()))


def test_every_changed_byte_is_noticed(written, path):
    text = path.read_bytes()
    ends = [at for at, byte in enumerate(text) if byte == 10]
    for at in [*range(0, len(text), 11), *ends]:
        path.write_bytes(text[:at] + bytes([text[at] ^ 1]) + text[at + 1 :])
        assert read_chain(path).faults, at


def lines_of(path):
    return path.read_bytes().splitlines(keepends=True)


@pytest.mark.parametrize("number", range(7))
def test_a_removed_line_is_noticed(written, path, number):
    lines = lines_of(path)
    path.write_bytes(b"".join(lines[:number] + lines[number + 1 :]))
    assert f"line {number + 1} does not follow" in faults(path)


@pytest.mark.parametrize("number", range(7))
def test_swapped_lines_are_noticed(written, path, number):
    lines = lines_of(path)
    lines[number], lines[number + 1] = lines[number + 1], lines[number]
    path.write_bytes(b"".join(lines))
    assert f"{number + 1}" in faults(path)
    assert "not as it was written" in faults(path)


def test_a_line_that_was_cut_is_noticed(written, path):
    text = path.read_bytes()
    path.write_bytes(text[:-1])
    assert "ends with" in faults(path)
    path.write_bytes(text[:-40])
    assert "bytes of a line that is not whole" in faults(path)


def test_a_line_of_another_key_is_noticed(written, path):
    LedgerFile(path, OTHER).end()  # no run is open
    LedgerFile(path, OTHER).receive([{"run": "r"}])
    assert faults(path) == "is not signed by the key of its start in line 9"


def test_lines_without_a_signature_are_noticed(written, path):
    LedgerFile(path).receive([{"run": "r"}, {"run": "r"}])
    assert faults(path) == "is not signed in lines 9 and 10"
    LedgerFile(path, KEY).receive([{"run": "r"}])  # which vouches for all before it
    assert faults(path) == ""


def test_a_second_key_at_a_start_is_noticed(written, path):
    LedgerFile(path, OTHER).start("client-1", RUN)
    assert "has 2 keys at its starts" in faults(path)


def test_a_file_without_its_start_has_no_key(path):
    LedgerFile(path, KEY).receive([{"run": "r"}])
    assert faults(path) == "has no start of a run, so that its key is unknown"


def test_a_line_that_a_crash_cut_off_stays_provable(written, path):
    with path.open("ab") as file:
        file.write(b'{"kind":"message","ma\xff')
    again = LedgerFile(path, KEY)
    again.start("client-1", RUN)
    again.end()
    chain = read_chain(path)
    assert chain.faults == ()
    assert len(chain.lines) == 10
    assert chain.lines[-2]["torn"][0] == 22
    lines = lines_of(path)
    path.write_bytes(b"".join(lines[:8] + lines[9:]))  # without what was cut off
    assert "line 9 does not follow" in faults(path)
    path.write_bytes(b"".join([*lines[:8], b'{"kind":"message","mb\xff\n', *lines[9:]]))
    assert "does not follow" in faults(path) or "do not follow" in faults(path)


def test_a_whole_line_that_lacks_its_end_is_cut_off_too(written, path):
    path.write_bytes(path.read_bytes()[:-1])
    LedgerFile(path, KEY).start("client-1", RUN)
    chain = read_chain(path)
    assert chain.faults == ()
    assert [line["kind"] for line in chain.lines][-2:] == ["refusal", "start"]


def test_processes_one_after_the_other_go_on_with_the_chain(written, path):
    one, other = LedgerFile(path, KEY), LedgerFile(path, KEY)
    for ledger in (one, other, one, written, other):
        ledger.receive([{"run": "r"}])
    assert read_chain(path).faults == ()


def test_a_head_is_found_in_a_long_file(path):
    text, head = linked([{"note": "x" * 200_000}, {"note": "y" * 70_000}], Head(), KEY)
    path.write_bytes(text)
    file = os.open(path, os.O_RDONLY)
    try:
        assert read_head(file, len(text)) == head
        assert read_head(file, 0) == Head()
        assert read_head(file, 10) == Head("", text[:10])
    finally:
        os.close(file)


def test_a_file_of_before_has_no_chain(path):
    old = json.dumps({"mark": "m", **vars(row())}) + "\n"
    path.write_text(old)
    assert faults(path) == "has no chain, as of an earlier daskfc"
    LedgerFile(path, KEY).start("client-1", RUN)
    assert faults(path) == "has no chain in line 1"
    assert len(LedgerFile(path).read("r")) == 1


def test_an_unreadable_file_is_one_sentence(tmp_path):
    with pytest.raises(InvalidInput, match="the ledger cannot be read"):
        read_chain(tmp_path / "none")


def test_the_same_secret_signs_with_the_same_key(tmp_path):
    assert LedgerKey.of_folder(tmp_path).public == LedgerKey.of_folder(tmp_path).public
    assert LedgerKey.of_folder(tmp_path).public != KEY.public
    assert KEY.public[:16] in repr(KEY)
    one, other = KEY.new_id(), KEY.new_id()
    assert len(one) == ID_LENGTH
    assert one != other
    assert KEY.public.startswith(signer_of(one))
    with pytest.raises(TypeError, match="stays in its process"):
        KEY.__reduce__()
