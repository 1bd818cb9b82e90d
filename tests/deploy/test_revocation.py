"""Certificates that an authority took back."""

import os

import pytest

from daskfc.deploy.certificates.authority import Authority
from daskfc.deploy.certificates.revocation import REVOKED, Revoked
from daskfc.errors import InvalidInput


@pytest.fixture
def authority(tmp_path):
    return Authority.create(tmp_path / "ca")


@pytest.fixture
def ca(authority):
    return authority.folder / "ca.pem"


def test_all_certificates_of_a_name_go_and_no_others(authority, ca):
    first = authority.issue("client", "a").serial
    second = authority.renew("a").serial
    other = authority.issue("client", "b").serial
    revoked = Revoked(ca)
    assert not any(one in revoked for one in (first, second, other))
    assert authority.revoke("a") == 2
    assert [one in revoked for one in (first, second, other)] == [True, True, False]
    authority.revoke("b")
    assert all(one in revoked for one in (first, second, other))


def test_the_name_gets_another_key(authority):
    authority.issue("client", "a")
    key = (authority.folder_of("a") / "key.pem").read_bytes()
    authority.revoke("a")
    with pytest.raises(InvalidInput, match="'a' has no certificate"):
        authority.renew("a")
    again = authority.issue("client", "a")
    assert (authority.folder_of("a") / "key.pem").read_bytes() != key
    assert again.serial not in Revoked(authority.folder_of("a") / "ca.pem")
    assert authority.revoke("a") == 2  # the first one once more


def test_every_party_s_folder_has_the_list(authority):
    for name in "ab":
        authority.issue("client", name)
    authority.revoke("a")
    authority.issue("client", "c")  # which comes later
    lists = [authority.folder, authority.folder_of("b"), authority.folder_of("c")]
    assert len({(folder / REVOKED).read_bytes() for folder in lists}) == 1


def test_a_list_of_another_authority_is_refused_and_what_held_holds_on(authority, ca, tmp_path):
    serial = authority.issue("client", "a").serial
    authority.revoke("a")
    revoked = Revoked(ca)
    assert serial in revoked
    other = Authority.create(tmp_path / "other")
    other.issue("client", "a")
    other.revoke("a")
    path = authority.folder / REVOKED
    path.write_bytes((other.folder / REVOKED).read_bytes())
    assert serial in revoked
    with pytest.raises(InvalidInput, match=r"revoked\.pem .* is no list that this"):
        Revoked(ca)
    path.write_text("rubbish")
    assert serial in revoked
    os.unlink(path)
    assert serial in revoked
    assert serial not in Revoked(ca)  # who deletes the list and starts anew
