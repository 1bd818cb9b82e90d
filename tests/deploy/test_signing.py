"""What an authority signs of what it is sent, and what it knows of a list of parties."""

import datetime
import shutil

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID

from daskfc.deploy.certificates.authority import Authority
from daskfc.deploy.certificates.own_key import install, make_request
from daskfc.deploy.certificates.party_list import read_parties
from daskfc.deploy.certificates.requests import CertificateRequest
from daskfc.errors import InvalidInput
from tests.deploy.test_authority import handshake
from tests.deploy.test_own_key import Later


def asked(name="a", key=None):
    return CertificateRequest(name, (key or ec.generate_private_key(ec.SECP256R1())).public_key())


@pytest.fixture
def authority(tmp_path):
    return Authority.create(tmp_path / "ca")


def test_two_sides_with_keys_of_their_own_prove_who_they_are(authority, tmp_path):
    for role, name in (("client", "hospital-a"), ("server", "server")):
        path = make_request(name, tmp_path / name)
        authority.sign(role, name, CertificateRequest.of_file(path))
        install(name, authority.folder_of(name), tmp_path / name)
    of_client, of_server = handshake(tmp_path / "server", tmp_path / "hospital-a")
    assert ("URI", "daskfc:client/hospital-a") in of_client["subjectAltName"]
    assert ("URI", "daskfc:server/server") in of_server["subjectAltName"]


def test_what_a_request_wishes_is_not_in_the_certificate(authority, tmp_path):
    key = ec.generate_private_key(ec.SECP256R1())
    wishes = x509.SubjectAlternativeName(
        [x509.UniformResourceIdentifier("daskfc:scheduler/scheduler"), x509.DNSName("x.example")]
    )
    subject = x509.Name(
        [
            x509.NameAttribute(NameOID.COMMON_NAME, "a"),
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "the authority"),
        ]
    )
    made = x509.CertificateSigningRequestBuilder().subject_name(subject)
    made = made.add_extension(wishes, critical=True).sign(key, hashes.SHA256())
    path = tmp_path / "a.pem"
    path.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    issued = authority.sign("submitter", "a", CertificateRequest.of_file(path), days=30)
    assert (issued.role, issued.name, issued.hosts) == ("submitter", "a", ())
    left = issued.ends - datetime.datetime.now(datetime.UTC)
    assert datetime.timedelta(days=29) < left < datetime.timedelta(days=30)
    signed = x509.load_pem_x509_certificate((authority.folder_of("a") / "cert.pem").read_bytes())
    plain = authority.issue("submitter", "b")
    usual = x509.load_pem_x509_certificate(
        (authority.folder_of(plain.name) / "cert.pem").read_bytes()
    )
    assert [one.oid for one in signed.extensions] == [one.oid for one in usual.extensions]
    assert signed.subject.rfc4514_string() == "CN=a"


@pytest.mark.parametrize(
    ("role", "name", "of", "match"),
    [
        ("client", "a", "b", "the request is of 'b', and 'a' is to be signed"),
        ("client", "a", "../a", r"the request is of '\.\./a', and 'a'"),
        ("client", "hospital", "h\u043espital", r"the request is of 'h\\u043espital', and 'hosp"),
        ("client", "h\u043espital", "h\u043espital", r"the name 'h\\u043espital' cannot be"),
        ("client", "../a", "../a", "must be 1 to 63 letters"),
        ("client", "server", "server", "may not be called 'server'"),
        ("server", "a", "a", "the server's party is called 'server'"),
        ("doctor", "a", "a", "a role must be one of"),
    ],
)
def test_name_and_role_are_what_the_authority_says(authority, role, name, of, match):
    with pytest.raises(InvalidInput, match=match) as caught:
        authority.sign(role, name, asked(of))
    assert str(caught.value).isascii()
    assert not (authority.folder / "parties").exists()


def test_a_valid_name_is_signed_again_only_when_asked_to(authority):
    first = authority.sign("client", "a", asked())
    with pytest.raises(InvalidInput, match=r"'a' has a certificate that is valid until .*--renew"):
        authority.sign("client", "a", asked())
    with pytest.raises(InvalidInput, match="'a' has a certificate as client, and as submitter"):
        authority.sign("submitter", "a", asked(), renew=True)
    second = authority.sign("client", "a", asked(), renew=True)
    assert list(authority.issued()) == [second]
    assert authority.revoke("a") == 2
    assert second.serial != first.serial


def test_one_that_ended_is_signed_again(authority, monkeypatch):
    authority.sign("client", "a", asked(), days=1)
    assert "in 0 days" in authority.faults({"a": "client"})["a"]
    monkeypatch.setattr("daskfc.deploy.certificates.authority.datetime", Later)
    monkeypatch.setattr("daskfc.deploy.certificates.issued.datetime", Later)
    assert "ended on" in authority.faults({"a": "client"})["a"]
    assert authority.sign("client", "a", asked()).ends > Later.now(datetime.UTC)
    assert authority.faults({"a": "client"}) == {}


def test_a_key_is_one_party_s_and_not_after_it_was_revoked(authority):
    key = rsa.generate_private_key(65537, 2048)
    authority.sign("client", "a", asked("a", key))
    with pytest.raises(InvalidInput, match="the key of the request of 'b' is that of 'a'"):
        authority.sign("client", "b", asked("b", key))
    authority.sign("client", "a", asked("a", key), renew=True)
    authority.renew("a")
    authority.revoke("a")
    for name in "ab":
        with pytest.raises(InvalidInput, match="is one that was revoked"):
            authority.sign("client", name, asked(name, key))
    authority.sign("client", "a", asked())
    with pytest.raises(InvalidInput, match="is the authority's"):
        authority.sign("client", "b", asked("b", authority._key))


def test_a_key_that_the_authority_made_is_taken_back_first(authority):
    authority.issue("client", "a")
    with pytest.raises(InvalidInput, match="has a key that the authority made for 'a'"):
        authority.sign("client", "a", asked(), renew=True)
    authority.revoke("a")
    authority.sign("client", "a", asked())
    assert not (authority.folder_of("a") / "key.pem").exists()


@pytest.mark.parametrize("is_there", [False, True])
def test_a_link_in_place_of_a_party_s_folder_is_refused(authority, tmp_path, is_there):
    (authority.folder / "parties").mkdir()
    if is_there:
        (tmp_path / "elsewhere").mkdir()
    authority.folder_of("a").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InvalidInput, match="this is a link"):
        authority.sign("client", "a", asked())
    assert not is_there or list((tmp_path / "elsewhere").iterdir()) == []


def test_what_is_not_right_with_a_list_is_said_of_each(authority, tmp_path):
    authority.sign("client", "good", asked("good"))
    authority.sign("client", "soon", asked("soon"), days=20)
    authority.sign("client", "role", asked("role"))
    authority.sign("client", "left", asked("left"))
    authority.sign("client", "gone", asked("gone"))
    authority.revoke("gone")
    authority.issue("client", "key")
    other = Authority.create(tmp_path / "other")
    other.issue("client", "key")
    shutil.copy(other.folder_of("key") / "key.pem", authority.folder_of("key"))
    authority.issue("client", "made")
    for name in ("forged", "spoilt"):
        authority.sign("client", name, asked(name))
    other.sign("client", "forged", asked("forged"))
    shutil.copy(other.folder_of("forged") / "cert.pem", authority.folder_of("forged"))
    (authority.folder_of("spoilt") / "cert.pem").write_text("junk")
    names = ("good", "soon", "gone", "key", "made", "forged", "spoilt", "none")
    faults = authority.faults({**dict.fromkeys(names, "client"), "role": "submitter"})
    assert "in 19 days. Have it renewed" in faults.pop("soon")
    assert "not of the key in" in faults.pop("key")
    assert "'spoilt' has no certificate" in faults.pop("spoilt")
    assert faults == {
        "gone": "revoked, and no other since",
        "forged": "of another authority",
        "none": "missing",
        "role": "is of client 'role'",
        "left": "has a certificate, and is not on the list",
    }


def test_a_certificate_that_is_revoked_in_its_place_is_told(authority, tmp_path):
    authority.sign("client", "a", asked())
    kept = shutil.copytree(authority.folder_of("a"), tmp_path / "kept")
    authority.revoke("a")
    kept.rename(authority.folder_of("a"))  # an old copy of the folder, brought back
    assert authority.faults({"a": "client"}) == {"a": "revoked"}


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("", "must be a mapping with the key 'parties'"),
        ("parties: [a]", "a mapping of names to roles such as"),
        ("parties: {}", "a mapping of names to roles such as"),
        ("parties: {a: client}\nmore: 1", "has the key 'parties' alone"),
        ("parties: {1: client}", "names and roles must be text; got 1 with 'client'"),
        ("parties: {a: [client]}", "names and roles must be text"),
        ("parties: {a: doctor}", "a role must be one of"),
        ("parties: {a/b: client}", "must be 1 to 63 letters"),
        ("parties: {a: client, a: submitter}", "key 'a' is given twice"),
        ("cluster: existing", "this is a cluster file, and a parties file is wanted"),
    ],
)
def test_a_list_of_parties_that_is_none(tmp_path, text, match):
    path = tmp_path / "parties.yaml"
    path.write_text(text)
    with pytest.raises(InvalidInput, match=match) as caught:
        read_parties(path)
    assert str(path) in str(caught.value)
