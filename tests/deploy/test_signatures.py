"""Signatures that a party checks against its own authority."""

import dataclasses
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from daskfc.deploy.certificates import signatures
from daskfc.deploy.certificates.authority import Authority
from daskfc.deploy.certificates.requests import CertificateRequest
from daskfc.deploy.certificates.revocation import Revoked
from daskfc.deploy.certificates.signatures import sign, signer_of
from daskfc.deploy.config.config import SecurityFiles
from daskfc.deploy.config.peers import Peer
from daskfc.errors import InvalidInput, PrivacyError

CONTENT = b"begin run r"


def files_of(authority, role, name, **options):
    authority.issue(role, name, **options)
    folder = authority.folder_of(name)
    return SecurityFiles(**{one: str(folder / f"{one}.pem") for one in ("ca", "cert", "key")})


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority.create(tmp_path_factory.mktemp("trust") / "ours")


@pytest.fixture(scope="module")
def alice(authority):
    return files_of(authority, "submitter", "alice")


def test_who_signed_is_known_by_role_and_name(alice):
    assert signer_of(alice.ca, CONTENT, sign(alice, CONTENT)) == Peer("submitter", "alice")


@pytest.mark.parametrize(
    "key",
    [ec.generate_private_key(ec.SECP384R1()), rsa.generate_private_key(65537, 2048)],
    ids=("P-384", "RSA"),
)
def test_keys_that_a_site_made_itself_sign_as_well(authority, tmp_path, key):
    name = f"by-{key.key_size}"
    subject = x509.Name([x509.NameAttribute(x509.oid.NameOID.COMMON_NAME, name)])
    request = x509.CertificateSigningRequestBuilder().subject_name(subject)
    path = tmp_path / "request.pem"
    pem = serialization.Encoding.PEM
    path.write_bytes(request.sign(key, hashes.SHA256()).public_bytes(pem))
    authority.sign("submitter", name, CertificateRequest.of_file(path))
    own = tmp_path / "key.pem"
    own.write_bytes(
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    folder = authority.folder_of(name)
    files = SecurityFiles(ca=str(folder / "ca.pem"), cert=str(folder / "cert.pem"), key=str(own))
    proof = sign(files, CONTENT)
    assert signer_of(files.ca, CONTENT, proof) == Peer("submitter", name)
    with pytest.raises(PrivacyError, match="does not hold"):
        signer_of(files.ca, CONTENT + b"!", proof)


def test_another_content_is_not_what_was_signed(alice):
    with pytest.raises(PrivacyError, match="a signature that does not hold"):
        signer_of(alice.ca, CONTENT + b"!", sign(alice, CONTENT))


@pytest.mark.parametrize(
    "change",
    [
        {"signature": b""},
        {"signature": b"\0" * 70},
        {"certificate": b"no certificate"},
        {"certificate": 3},
        {"signature": "text"},
    ],
)
def test_rubbish_is_no_proof(alice, change):
    with pytest.raises(PrivacyError, match="a signature that does not hold"):
        signer_of(alice.ca, CONTENT, {**sign(alice, CONTENT), **change})


@pytest.mark.parametrize("proof", [None, {}])
def test_none_is_none(alice, proof):
    with pytest.raises(PrivacyError, match="bears no signature"):
        signer_of(alice.ca, CONTENT, proof)


def test_another_authority_of_the_same_name_vouches_for_nobody_here(alice, tmp_path):
    mallory = files_of(Authority.create(tmp_path / "theirs"), "submitter", "alice")
    with pytest.raises(PrivacyError, match="does not hold"):
        signer_of(alice.ca, CONTENT, sign(mallory, CONTENT))


def test_a_key_of_another_certificate_proves_nothing(authority, alice):
    bob = files_of(authority, "submitter", "bob")
    mixed = {**sign(alice, CONTENT), "certificate": sign(bob, CONTENT)["certificate"]}
    with pytest.raises(PrivacyError, match="does not hold"):
        signer_of(alice.ca, CONTENT, mixed)


def test_an_expired_certificate_signs_no_more(alice, monkeypatch):
    class Later(datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime.now(UTC) + timedelta(days=366)

    proof = sign(alice, CONTENT)
    monkeypatch.setattr(signatures, "datetime", Later)
    with pytest.raises(PrivacyError, match="'alice', whose certificate is not valid now"):
        signer_of(alice.ca, CONTENT, proof)


def test_a_key_that_cannot_sign_is_told(alice, tmp_path):
    path = tmp_path / "key.pem"
    path.write_bytes(
        ed25519.Ed25519PrivateKey.generate().private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    other = (
        dataclasses.replace(alice, key=str(path))
        if dataclasses.is_dataclass(alice)
        else (alice.model_copy(update={"key": str(path)}))
    )
    with pytest.raises(InvalidInput, match="must be of ECDSA or RSA; it is Ed25519"):
        sign(other, CONTENT)
    path.write_text("no key")
    with pytest.raises(InvalidInput, match="cannot be read"):
        sign(other, CONTENT)


def test_a_revoked_certificate_signs_no_more(tmp_path):
    authority = Authority.create(tmp_path / "ours")
    carol, ca = files_of(authority, "submitter", "carol"), str(authority.folder / "ca.pem")
    dave = files_of(authority, "submitter", "dave")
    proof = sign(carol, CONTENT)
    revoked = Revoked(ca)  # as a party has it that runs since
    assert signer_of(ca, CONTENT, proof, revoked).name == "carol"
    authority.revoke("carol")
    for known in (revoked, None):
        with pytest.raises(PrivacyError, match="'carol', whose certificate was revoked"):
            signer_of(ca, CONTENT, proof, known)
    assert signer_of(ca, CONTENT, sign(dave, CONTENT), revoked).name == "dave"
