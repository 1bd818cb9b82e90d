"""Requests for certificates: a name, a public key, and proof that the site has the private key."""

import os
import warnings
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID

from daskfc.errors import InvalidInput

PublicKey = ec.EllipticCurvePublicKey | rsa.RSAPublicKey
"""Of the kinds that TLS and signatures of starts are made with."""

_MOST_BYTES = 65_536  # ours: a chain of ten certificates has 20,000
_CURVES = ("secp256r1", "secp384r1")
_RSA_BITS = (2048, 8192)
_LONGEST_NAME = 64  # of a common name, by X.509
_BAD = (  # errors of reading a file of somebody else's
    ValueError, TypeError, UnsupportedAlgorithm, x509.InvalidVersion, x509.DuplicateExtension,
    x509.UnsupportedGeneralNameType,
)  # fmt: skip


def read_small(path: str | os.PathLike[str]) -> bytes:
    """Read a file of keys or certificates, which may be anybody's; refuse more than 64 KiB."""
    try:
        if not Path(path).is_file():  # reading a pipe would wait
            raise FileNotFoundError
        with Path(path).open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
    except (OSError, ValueError) as error:
        raise InvalidInput(
            f"{path}: no file that can be read is there ({type(error).__name__}). Correct the path."
        ) from None
    if len(data) > _MOST_BYTES:
        raise InvalidInput(
            f"{path}: a file of certificates or a request has at most {_MOST_BYTES:,} bytes; this "
            "one has more. Correct the path, or have it sent again."
        )
    return data


def fingerprint(public: PublicKey) -> str:
    """Return the SHA-256 of a public key in groups, for two people to compare by telephone."""
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    digest = hashes.Hash(hashes.SHA256())
    digest.update(public.public_bytes(serialization.Encoding.DER, form))
    told = digest.finalize().hex()
    return " ".join(told[i : i + 4] for i in range(0, len(told), 4))


@dataclass(frozen=True)
class CertificateRequest:
    """A name, as claimed, and a public key; the authority decides role, hosts and validity."""

    name: str
    public: PublicKey

    @classmethod
    def of_file(cls, path: str | os.PathLike[str]) -> "CertificateRequest":
        """Read a request, PKCS #10 in PEM, that anybody may have made, and refuse a wrong one."""
        data = read_small(path)
        if b"PRIVATE KEY-----" in data:
            raise InvalidInput(
                f"{path}: a private key is in this file, and others may have read it by now. Have "
                "a new key made, and the request alone sent."
            )
        try:
            with warnings.catch_warnings(action="ignore"):  # of lengths in names; compared below
                request = x509.load_pem_x509_csr(data)
                public = _checked(request.public_key())
                holds = request.is_signature_valid
                names = request.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
                signs = _asks_to_sign(request.extensions)
        except InvalidInput as error:
            raise InvalidInput(f"{path}: {error}") from None
        except _BAD as error:
            raise InvalidInput(
                f"{path}: a request must be of PKCS #10 in PEM; this one cannot be read "
                f"({type(error).__name__}). Have one made by 'daskfc certs request'."
            ) from None
        if not holds:
            raise InvalidInput(
                f"{path}: the request is not signed with the key that it names: it was changed on "
                "its way, or whoever sent it does not have the key. Have it sent again."
            )
        if signs:
            raise InvalidInput(
                f"{path}: the request asks to sign certificates of others, which the authority "
                "alone does. Ask who sent it, and have another made."
            )
        if len(names) != 1 or len(names[0].value) > _LONGEST_NAME:
            raise InvalidInput(
                f"{path}: a request must say one common name of at most {_LONGEST_NAME} letters, "
                "whom it is of; this one does not. Have one made by 'daskfc certs request'."
            )
        return cls(str(names[0].value), public)


def _checked(public: object) -> PublicKey:
    if isinstance(public, ec.EllipticCurvePublicKey):
        kind, holds = public.curve.name, public.curve.name in _CURVES
    elif isinstance(public, rsa.RSAPublicKey):
        kind = f"RSA with {public.key_size} bits"
        holds = _RSA_BITS[0] <= public.key_size <= _RSA_BITS[1]
    else:
        kind, holds = type(public).__name__.removesuffix("PublicKey"), False
    if not holds:
        raise InvalidInput(
            f"the key must be of P-256, P-384, or RSA with {_RSA_BITS[0]} to {_RSA_BITS[1]} bits; "
            f"it is {kind}. Have another made, by 'daskfc certs request'."
        )
    assert isinstance(public, PublicKey)
    return public


def _asks_to_sign(extensions: x509.Extensions) -> bool:
    for extension in extensions:
        value = extension.value
        if isinstance(value, x509.BasicConstraints) and value.ca:
            return True
        if isinstance(value, x509.KeyUsage) and (value.key_cert_sign or value.crl_sign):
            return True
    return False
