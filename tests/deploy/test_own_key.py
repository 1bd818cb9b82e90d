"""A side's own key, its request, and what is put beside it: only what belongs together."""

import datetime
import os
import shutil
import stat

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from daskfc.deploy.certificates.authority import Authority
from daskfc.deploy.certificates.own_key import check_side, fingerprint_of, install, make_request
from daskfc.deploy.certificates.requests import CertificateRequest
from daskfc.deploy.certificates.revocation import REVOKED, Revoked
from daskfc.errors import InvalidInput


@pytest.fixture
def authority(tmp_path):
    return Authority.create(tmp_path / "ca")


@pytest.fixture
def signed(authority, tmp_path):
    """Have a side's request signed; return the side's folder and what the authority sends."""

    def sign(name="a", role="client", folder=None, **options):
        place = tmp_path / (folder or name)
        request = CertificateRequest.of_file(make_request(name, place))
        authority.sign(role, name, request, **options)
        return place, authority.folder_of(name)

    return sign


class Later(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return super().now(tz) + datetime.timedelta(days=2)


def content(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_the_key_is_its_owner_s_and_the_request_of_that_key(tmp_path):
    path = make_request("hospital-a", tmp_path / "x" / "a")
    assert path == tmp_path / "x" / "a" / "hospital-a.request.pem"
    key = path.with_name("key.pem")
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    private = serialization.load_pem_private_key(key.read_bytes(), None)
    assert CertificateRequest.of_file(path) == CertificateRequest(
        "hospital-a", private.public_key()
    )
    assert list(x509.load_pem_x509_csr(path.read_bytes()).extensions) == []


@pytest.mark.parametrize("there", ["key.pem", "a.request.pem"])
@pytest.mark.parametrize("kind", ["file", "link", "link to nothing"])
def test_what_is_there_is_not_written_over(tmp_path, there, kind):
    folder, target = tmp_path / "a", tmp_path / "target"
    folder.mkdir()
    if kind != "link to nothing":
        target.write_text("mine")
    if kind == "file":
        target.rename(folder / there)
    else:
        (folder / there).symlink_to(target)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(InvalidInput, match="neither is written over"):
        make_request("a", folder)
    assert sorted(tmp_path.rglob("*")) == before
    assert kind == "link to nothing" or (folder / there).read_text() == "mine"


def test_a_folder_that_is_a_link_or_a_file_is_refused(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidInput, match="this is a link"):
        make_request("a", tmp_path / "link")
    with pytest.raises(InvalidInput, match="the key cannot be written there"):
        make_request("a", tmp_path / "file")
    assert list((tmp_path / "real").iterdir()) == []


@pytest.mark.parametrize(
    "name", ["../a", "a/b", "a\\b", "", ".", "-a", "a" * 64, "h\u043espital", "a\n", "server-1"]
)
def test_a_name_that_is_none_makes_no_key(tmp_path, name):
    with pytest.raises(InvalidInput) as caught:
        make_request(name, tmp_path / "x")
    assert str(caught.value).isascii()  # a letter that looks like another is told as a number
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_what_was_signed_goes_beside_the_key_and_nothing_else(authority, signed):
    folder, received = signed()
    assert content(received).keys() == {"ca.pem", "cert.pem"}
    key = (folder / "key.pem").read_bytes()
    issued = install("a", received, folder)
    assert (issued.role, issued.name) == ("client", "a")
    assert content(folder) == {
        **content(received), "key.pem": key,
        "a.request.pem": (folder / "a.request.pem").read_bytes(),
    }  # fmt: skip
    assert check_side(folder) == issued


def test_no_key_is_anywhere_but_where_it_was_made(authority, signed, tmp_path):
    folder, received = signed()
    install("a", received, folder)
    signed("server", role="server")
    with_keys = {path for path in tmp_path.rglob("*") if path.is_file()}
    with_keys = {path for path in with_keys if b"PRIVATE KEY" in path.read_bytes()}
    assert with_keys == {
        folder / "key.pem", tmp_path / "server" / "key.pem", tmp_path / "ca" / "ca-key.pem"
    }  # fmt: skip


def test_a_list_comes_with_it_and_an_older_one_replaces_none(
    authority, signed, tmp_path, monkeypatch
):
    gone = authority.issue("client", "gone").serial
    authority.revoke("gone")
    folder, received = signed()
    older = shutil.copytree(received, tmp_path / "older")
    install("a", received, folder)
    assert gone in Revoked(folder / "ca.pem")
    later = authority.issue("client", "later").serial
    with monkeypatch.context() as patch:
        patch.setattr("daskfc.deploy.certificates.revocation.datetime", Later)
        authority.revoke("later")
    for source in (received, older):
        install("a", source, folder)
        assert later in Revoked(folder / "ca.pem")


def spoil_key(folder, received):
    (folder / "key.pem").write_text("junk")


def no_key(folder, received):
    (folder / "key.pem").unlink()


def junk(folder, received):
    (received / "cert.pem").write_bytes(b"\x00" * 100)


def huge(folder, received):
    (received / "cert.pem").write_bytes(b"a" * 70_000)


def no_authority(folder, received):
    (received / "ca.pem").unlink()


def foreign_list(folder, received):
    other = Authority.create(received.parent / "third")
    other.issue("client", "a")
    other.revoke("a")
    shutil.copy(other.folder / REVOKED, received)


def link(folder, received):
    (folder / "cert.pem").symlink_to(received / "elsewhere")


SPOILT = {
    spoil_key: "a key must be in PEM without a password",
    no_key: "no file that can be read is there",
    junk: "a certificate must be in PEM",
    huge: "at most 65,536 bytes",
    no_authority: "no file that can be read is there",
    foreign_list: "no list that this authority signed",
    link: "this is a link",
}


@pytest.mark.parametrize("spoil", SPOILT)
def test_what_cannot_be_used_changes_nothing(signed, tmp_path, spoil):
    folder, sent = signed()
    received = shutil.copytree(sent, tmp_path / "received")
    spoil(folder, received)
    before = sorted(os.listdir(folder))
    with pytest.raises(InvalidInput, match=SPOILT[spoil]) as caught:
        install("a", received, folder)
    assert "\n" not in str(caught.value)
    assert sorted(os.listdir(folder)) == before


def test_a_certificate_of_another_key_name_or_authority_is_refused(authority, signed, tmp_path):
    folder, received = signed()
    other, of_other = signed("b")
    with pytest.raises(InvalidInput, match="the certificate is not of the key in"):
        install("a", of_other, folder)
    with pytest.raises(InvalidInput, match="is of client 'b', and not of 'a'"):
        install("a", of_other, other)
    foreign = Authority.create(tmp_path / "foreign")
    foreign.sign("client", "a", CertificateRequest.of_file(folder / "a.request.pem"))
    mixed = shutil.copytree(received, tmp_path / "mixed")
    shutil.copy(foreign.folder / "ca.pem", mixed)
    with pytest.raises(InvalidInput, match="not signed by the authority of"):
        install("a", mixed, folder)
    install("a", received, folder)
    with pytest.raises(InvalidInput, match="this is another authority than that of"):
        install("a", foreign.folder_of("a"), folder)
    assert check_side(folder).name == "a"


def test_no_second_authority_comes_with_the_first(authority, signed, tmp_path):
    """Whoever can change the mail adds one, whose certificates would be believed as well."""
    foreign = (Authority.create(tmp_path / "foreign").folder / "ca.pem").read_text()
    folder, sent = signed()
    received = shutil.copytree(sent, tmp_path / "received")
    ours = (received / "ca.pem").read_text()
    trusted = foreign.replace(" CERTIFICATE", " TRUSTED CERTIFICATE")  # OpenSSL reads it, too
    (received / "ca.pem").write_text(ours + trusted)
    install("a", received, folder)
    assert (folder / "ca.pem").read_text() == ours
    (received / "ca.pem").write_text(ours + foreign)
    assert len(fingerprint_of(received / "ca.pem").splitlines()) == 2
    with pytest.raises(InvalidInput, match="this is another authority than that of"):
        install("a", received, folder)
    assert (folder / "ca.pem").read_text() == ours


def test_a_certificate_that_ended_is_not_installed(authority, signed, monkeypatch):
    folder, received = signed(days=1)
    monkeypatch.setattr("daskfc.deploy.certificates.issued.datetime", Later)
    with pytest.raises(InvalidInput, match="and today is not between"):
        install("a", received, folder)


def test_a_revoked_certificate_is_not_installed_and_noticed_where_it_is(authority, signed):
    folder, received = signed()
    install("a", received, folder)
    sent = shutil.copytree(received, folder.parent / "sent")
    authority.revoke("a")
    for place in (sent, folder):
        shutil.copy(authority.folder / REVOKED, place)
    with pytest.raises(InvalidInput, match="the certificate of client 'a' was revoked"):
        install("a", sent, folder)
    with pytest.raises(InvalidInput, match="was revoked"):
        check_side(folder)


def test_a_key_that_everybody_may_read_is_noticed(signed):
    folder, received = signed()
    install("a", received, folder)
    (folder / "key.pem").chmod(0o640)  # a service's group
    check_side(folder)
    (folder / "key.pem").chmod(0o644)
    with pytest.raises(InvalidInput, match="everybody on this machine may use the key"):
        check_side(folder)


def test_a_new_key_replaces_an_old_one_in_a_folder_of_its_own(authority, signed):
    folder, received = signed()
    install("a", received, folder)
    again, received = signed(folder="again", renew=True)
    assert install("a", received, again).serial != check_side(folder).serial
    with pytest.raises(InvalidInput, match="not of the key"):
        install("a", received, folder)
