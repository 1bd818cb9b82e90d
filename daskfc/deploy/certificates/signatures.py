"""Signatures with the key of a certificate, which a party checks against its own authority."""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa

from daskfc.deploy.certificates.issued import Issued, check_issued
from daskfc.deploy.certificates.revocation import Revoked
from daskfc.deploy.config.config import SecurityFiles
from daskfc.deploy.config.peers import Peer
from daskfc.errors import DaskfcError, InvalidInput, PrivacyError

_HASH = hashes.SHA256()


def sign(files: SecurityFiles, content: bytes) -> dict[str, Any]:
    """Sign content with a certificate's key; return the certificate in PEM and the signature."""
    certificate = Path(files.cert).read_bytes()
    try:
        key = serialization.load_pem_private_key(Path(files.key).read_bytes(), None)
    except (TypeError, ValueError) as error:
        raise InvalidInput(
            f"the key of the certificate {Path(files.cert).name!r} cannot be read "
            f"({type(error).__name__}). Give one in PEM without a password."
        ) from None
    if isinstance(key, ec.EllipticCurvePrivateKey):
        signature = key.sign(content, ec.ECDSA(_HASH))
    elif isinstance(key, rsa.RSAPrivateKey):
        signature = key.sign(content, padding.PKCS1v15(), _HASH)
    else:
        raise InvalidInput(
            f"the key of the certificate {Path(files.cert).name!r} must be of ECDSA or RSA; it is "
            f"{type(key).__name__}. Make another by 'daskfc certs request NAME'."
        )
    return {"certificate": certificate, "signature": signature}


def signer_of(
    ca: str, content: bytes, proof: Mapping[str, Any] | None, revoked: Revoked | None = None
) -> Peer:
    """Return who signed content, by a proof of `sign`; PrivacyError for any other signer."""
    if not proof:
        raise _unsigned("bears no signature")
    try:
        certificate = x509.load_pem_x509_certificate(bytes(proof["certificate"]))
        check_issued(certificate, ca)
        _check(certificate, bytes(proof["signature"]), content)
        issued = Issued.of(certificate)
    except (DaskfcError, InvalidSignature, ValueError, TypeError, KeyError) as error:
        raise _unsigned(f"bears a signature that does not hold ({type(error).__name__})") from None
    if not certificate.not_valid_before_utc <= datetime.now(UTC) <= certificate.not_valid_after_utc:
        raise _unsigned(f"bears a signature of {issued.name!r}, whose certificate is not valid now")
    if issued.serial in (Revoked(ca) if revoked is None else revoked):
        raise _unsigned(f"bears a signature of {issued.name!r}, whose certificate was revoked")
    return Peer(issued.role, issued.name, issued.serial)


def _unsigned(what: str) -> PrivacyError:
    return PrivacyError(
        f"the start of a run {what}. Start it with a certificate of the role submitter, of the "
        "authority that the parties trust."
    )


def _check(certificate: x509.Certificate, signature: bytes, content: bytes) -> None:
    public = certificate.public_key()
    if isinstance(public, ec.EllipticCurvePublicKey):
        public.verify(signature, content, ec.ECDSA(_HASH))
    elif isinstance(public, rsa.RSAPublicKey):
        public.verify(signature, content, padding.PKCS1v15(), _HASH)
    else:
        raise InvalidSignature
