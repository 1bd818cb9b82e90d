"""Requests that somebody sends to an authority: what is read of them, and what is refused."""

import base64
import hashlib
import os
import shutil
import subprocess
from contextlib import suppress

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import NameOID

from daskfc.deploy.certificates.requests import CertificateRequest, fingerprint
from daskfc.errors import InvalidInput

KEY = ec.generate_private_key(ec.SECP256R1())
PEM = serialization.Encoding.PEM
LEAVES = x509.BasicConstraints(ca=False, path_length=None)
SIGNS = x509.BasicConstraints(ca=True, path_length=None)


def key_usage(**says):
    uses = (
        "digital_signature content_commitment key_encipherment data_encipherment key_agreement "
        "key_cert_sign crl_sign encipher_only decipher_only"
    ).split()
    return x509.KeyUsage(**(dict.fromkeys(uses, False) | says))


def requested(*names, key=KEY, extensions=()):
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name) for name in names])
    builder = x509.CertificateSigningRequestBuilder().subject_name(subject)
    for one in extensions:
        builder = builder.add_extension(one, critical=True)
    is_hashed = not isinstance(key, ed25519.Ed25519PrivateKey)
    return builder.sign(key, hashes.SHA256() if is_hashed else None)


def der(request):
    return request.public_bytes(serialization.Encoding.DER)


@pytest.fixture
def sent(tmp_path):
    def send(content):
        path = tmp_path / "a.pem"
        is_request = isinstance(content, x509.CertificateSigningRequest)
        path.write_bytes(content.public_bytes(PEM) if is_request else content)
        return path

    return send


@pytest.mark.parametrize(
    "key",
    [KEY, ec.generate_private_key(ec.SECP384R1()), rsa.generate_private_key(65537, 2048)],
    ids=("P-256", "P-384", "RSA"),
)
def test_name_and_key_are_read_and_nothing_else(sent, key):
    wished = x509.SubjectAlternativeName(
        [x509.UniformResourceIdentifier("daskfc:scheduler/scheduler")]
    )
    path = sent(requested("a", key=key, extensions=[wished, LEAVES]))
    assert CertificateRequest.of_file(path) == CertificateRequest("a", key.public_key())


@pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl to compare with")
def test_the_fingerprint_is_what_openssl_says():
    public = KEY.public_key().public_bytes(PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    command = ["openssl", "pkey", "-pubin", "-outform", "DER"]
    as_der = subprocess.run(command, input=public, capture_output=True, check=True).stdout
    assert fingerprint(KEY.public_key()).replace(" ", "") == hashlib.sha256(as_der).hexdigest()


def changed(request):
    """Another name in the same request, which was signed with the first."""
    return x509.load_der_x509_csr(der(request).replace(b"hospital-a", b"hospital-b"))


BAD = {
    "nothing": (b"", "must be of PKCS #10 in PEM"),
    "junk": (b"\x00\xff" * 99, "must be of PKCS #10 in PEM"),
    "der": (der(requested("a")), "must be of PKCS #10 in PEM"),
    "no base64": (
        b"-----BEGIN CERTIFICATE REQUEST-----\n!\n-----END CERTIFICATE REQUEST-----\n",
        "must be of PKCS #10 in PEM",
    ),
    "huge": (b"a" * 70_000, "has at most 65,536 bytes"),
    "with its key": (
        KEY.private_bytes(
            PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ) + requested("a").public_bytes(PEM),
        "a private key is in this file",
    ),
    "small RSA": (
        requested("a", key=rsa.generate_private_key(65537, 1024)),
        "the key must be of P-256, .* it is RSA with 1024 bits",
    ),
    "another curve": (requested("a", key=ec.generate_private_key(ec.SECP521R1())), "is secp521r1"),
    "another kind": (
        requested("a", key=ed25519.Ed25519PrivateKey.generate()), "it is Ed25519"
    ),
    "changed": (changed(requested("hospital-a")), "not signed with the key that it names"),
    "an authority": (requested("a", extensions=[SIGNS]), "asks to sign certificates of others"),
    "signs certificates": (
        requested("a", extensions=[key_usage(key_cert_sign=True)]), "asks to sign certificates"
    ),
    "signs lists": (requested("a", extensions=[key_usage(crl_sign=True)]), "asks to sign"),
    "no name": (requested(), "must say one common name"),
    "two names": (requested("a", "b"), "must say one common name"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_what_is_no_good_request_is_one_sentence(sent, case):
    content, told = BAD[case]
    with pytest.raises(InvalidInput, match=told) as caught:
        CertificateRequest.of_file(sent(content))
    assert "\n" not in str(caught.value)
    assert "PRIVATE" not in str(caught.value)


def test_a_long_name_is_refused_without_a_warning(sent):
    with pytest.warns(UserWarning, match="<= 64"):  # which reading gives as well
        attribute = x509.NameAttribute(NameOID.COMMON_NAME, "a" * 65, _validate=False)
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([attribute]))
    with pytest.raises(InvalidInput, match="at most 64 letters"):
        CertificateRequest.of_file(sent(builder.sign(KEY, hashes.SHA256())))


@pytest.mark.parametrize("kind", ["none", "folder", "pipe"])
def test_what_is_no_file_is_not_waited_for(tmp_path, kind):
    path = tmp_path / "a.pem"
    {"none": lambda _: None, "folder": os.mkdir, "pipe": os.mkfifo}[kind](path)
    with pytest.raises(InvalidInput, match="no file that can be read is there"):
        CertificateRequest.of_file(path)


GOOD = der(requested("hospital-a", extensions=[LEAVES]))


@pytest.mark.parametrize("bit", range(8))
def test_whichever_bit_is_changed_it_is_refused_or_says_the_same(sent, bit):
    """The signature covers all that is read; unused bits may be said of the signature itself."""
    begin, end = (f"-----{word} CERTIFICATE REQUEST-----\n".encode() for word in ("BEGIN", "END"))
    accepted = 0
    for at in range(len(GOOD)):
        spoilt = bytearray(GOOD)
        spoilt[at] ^= 1 << bit
        path = sent(begin + base64.encodebytes(bytes(spoilt)) + end)
        with suppress(InvalidInput):
            assert CertificateRequest.of_file(path) == CertificateRequest(
                "hospital-a", KEY.public_key()
            )
            accepted += 1
    assert accepted <= 1
