"""A side's own key, made there and never sent, and the signed certificate beside it."""

import os
import re
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from daskfc.deploy.certificates.issued import Issued, check_issued
from daskfc.deploy.certificates.requests import fingerprint, read_small
from daskfc.deploy.certificates.revocation import REVOKED, Revoked
from daskfc.deploy.config.peers import check_identity
from daskfc.errors import InvalidInput
from daskfc.folders import make_private, write_once, write_private

_PEM = serialization.Encoding.PEM
CERT, KEY, CA = "cert.pem", "key.pem", "ca.pem"
"""Files of every side."""


def private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """Return a private key as its file has it, in PEM without a password."""
    return key.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())


def make_request(name: str, folder: str | os.PathLike[str]) -> Path:
    """Make ``key.pem`` and ``NAME.request.pem``, and return the latter; replace neither."""
    check_identity("server" if re.fullmatch(r"server(-\d+)?", name) else "client", name)
    place = Path(folder)
    _check_no_links(place)
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    request = (
        x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
    )
    path = place / f"{name}.request.pem"
    try:
        make_private(place)
        written = not os.path.lexists(path) and write_once(place / KEY, private_pem(key))
        written = written and write_once(path, request.public_bytes(_PEM))
    except OSError as error:
        raise InvalidInput(
            f"{place}: the key cannot be written there ({error.strerror}). Choose another folder."
        ) from None
    if not written:
        raise InvalidInput(
            f"{place}: there is a {KEY} or a {path.name}, and neither is written over. Choose "
            "another folder with --out, or move them away."
        )
    return path


def install(name: str, received: str | os.PathLike[str], folder: str | os.PathLike[str]) -> Issued:
    """Put ``cert.pem``, ``ca.pem`` and any ``revoked.pem`` from an authority beside their key.

    Refuses another authority than the one trusted already; of two revocation lists the newer stays.
    """
    source, place = Path(received), Path(folder)
    issued = _belonging(place / KEY, source / CERT, source / CA)
    if issued.name != name:
        raise InvalidInput(
            f"{source / CERT}: the certificate is of {issued.role} {issued.name!r}, and not of "
            f"{name!r}. Ask the authority for your own."
        )
    _check_no_links(place, CERT, CA, REVOKED)
    if (place / CA).exists() and fingerprint_of(place / CA) != fingerprint_of(source / CA):
        raise InvalidInput(
            f"{source / CA}: this is another authority than that of {place / CA}. If yours has a "
            "new key indeed, by its own word on the telephone, move the old file away."
        )
    if (source / REVOKED).exists() and not _is_older(source / REVOKED, place / REVOKED):
        write_private(place / REVOKED, read_small(source / REVOKED), overwrite=True)
    for one in (CA, CERT):  # what was checked and no more: TLS reads blocks of other names as well
        told = b"".join(each.public_bytes(_PEM) for each in _certificates(source / one))
        write_private(place / one, told, overwrite=True)
    return issued


def check_side(folder: str | os.PathLike[str]) -> Issued:
    """Check that key, certificate and authority of a folder belong together and are valid."""
    place = Path(folder)
    issued = _belonging(place / KEY, place / CERT, place / CA)
    if (place / KEY).stat().st_mode & 0o007:
        raise InvalidInput(
            f"{place / KEY}: everybody on this machine may use the key. 'chmod 600' it, and have "
            "another signed if somebody may have read it."
        )
    return issued


def fingerprint_of(path: str | os.PathLike[str]) -> str:
    """Return the fingerprints of the keys of all certificates in a file, a line each."""
    return "\n".join(fingerprint(one.public_key()) for one in _certificates(Path(path)))  # type: ignore[arg-type]


def _belonging(key: Path, cert: Path, ca: Path) -> Issued:
    certificate = _certificates(cert)[0]
    _certificates(ca)  # raises where it is none
    secret = read_small(key)
    try:
        private = serialization.load_pem_private_key(secret, None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise InvalidInput(
            f"{key}: a key must be in PEM without a password; this one cannot be read "
            f"({type(error).__name__}). Make one with 'daskfc certs request'."
        ) from None
    if private.public_key() != certificate.public_key():
        raise InvalidInput(
            f"{cert}: the certificate is not of the key in {key}. Put the two together that belong "
            "together, or have this key's request signed."
        )
    try:
        check_issued(certificate, ca)
    except (InvalidSignature, ValueError, TypeError):
        raise InvalidInput(
            f"{cert}: the certificate is not signed by the authority of {ca}. Ask the authority "
            "for both again."
        ) from None
    issued = Issued.of(certificate)
    issued.check_valid()
    if issued.serial in Revoked(ca):
        raise InvalidInput(
            f"{cert}: the certificate of {issued.role} {issued.name!r} was revoked. Make another "
            "key and have its request signed."
        )
    return issued


def _certificates(path: Path) -> list[x509.Certificate]:
    content = read_small(path)
    try:
        found = x509.load_pem_x509_certificates(content)
        for one in found:
            one.public_key()
    except (ValueError, TypeError, UnsupportedAlgorithm, x509.InvalidVersion) as error:
        raise InvalidInput(
            f"{path}: a certificate must be in PEM; this one cannot be read "
            f"({type(error).__name__}). Ask the authority for it again."
        ) from None
    return found


def _check_no_links(folder: Path, *names: str) -> None:
    for path in (folder, *(folder / name for name in names)):
        if path.is_symlink():
            raise InvalidInput(
                f"{path}: this is a link, and what is written would be elsewhere than it seems. "
                "Name the place itself, or remove the link."
            )


def _is_older(new: Path, own: Path) -> bool:
    """Return whether a list of revoked certificates is older than the one that is there."""
    try:
        told = [x509.load_pem_x509_crl(read_small(path)).last_update_utc for path in (new, own)]
    except (InvalidInput, ValueError):  # there is none of its own, or none that can be read
        return False
    return told[0] < told[1]
