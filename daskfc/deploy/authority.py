"""A small certificate authority, for trials and consortia that have none: a folder with a key.

An authority's folder has ``ca.pem`` and ``ca-key.pem``, and below ``parties/NAME`` what one party
gets: ``ca.pem``, ``cert.pem`` and ``key.pem``, readable by their owner alone. A certificate says a
role and a name, as ``daskfc:client/hospital-a``.
"""

import ipaddress
import os
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from daskfc.deploy.issued import Issued
from daskfc.deploy.peers import SCHEME, check_identity
from daskfc.deploy.revocation import REVOKED, revocation_list
from daskfc.errors import InvalidInput
from daskfc.folders import make_private, write_private

__all__ = ["Authority"]

_EARLY = timedelta(minutes=5)  # clocks of sites differ
_ISSUED = "issued"  # every certificate that there was, by name
_CERT, _KEY, _CA, _CA_KEY = "cert.pem", "key.pem", "ca.pem", "ca-key.pem"


class Authority:
    """A certificate authority in a folder.

    Parameters
    ----------
    folder : path
        Of `create`.

    Raises
    ------
    InvalidInput
        When there is none, or its files cannot be read.

    Notes
    -----
    Privacy: who can read ``ca-key.pem`` can be anybody to all parties. It is not encrypted: keep
    the folder on a machine of its own, and hand a party its own subfolder alone.

    Examples
    --------
    >>> import tempfile
    >>> from daskfc.deploy.authority import Authority
    >>> authority = Authority.create(f"{tempfile.mkdtemp()}/ca", "trial")
    >>> issued = authority.issue("client", "hospital-a")
    >>> folder = authority.folder_of(issued.name)
    >>> issued.role, sorted(path.name for path in folder.iterdir())
    ('client', ['ca.pem', 'cert.pem', 'key.pem'])
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        try:
            self._certificate = x509.load_pem_x509_certificate((self.folder / _CA).read_bytes())
            key = serialization.load_pem_private_key(
                (self.folder / _CA_KEY).read_bytes(), password=None
            )
        except (OSError, ValueError, TypeError) as error:
            raise InvalidInput(
                f"{self.folder}: no certificate authority is there ({type(error).__name__}). Make "
                "one with 'daskfc certs init', or correct the folder."
            ) from None
        assert isinstance(key, ec.EllipticCurvePrivateKey), type(key)
        self._key = key

    @classmethod
    def create(
        cls, folder: str | os.PathLike[str], name: str = "daskfc", *, days: int = 3650
    ) -> "Authority":
        """Make an authority with a new key.

        Parameters
        ----------
        folder : path
            Where; must not be there yet.
        name : str
            What it is called in certificates, 1 to 64 characters.
        days : int
            How long it is valid.

        Raises
        ------
        InvalidInput
            When the folder is there, or cannot be made.
        """
        path = Path(folder)
        if not 1 <= len(name) <= 64:  # of a common name, by X.509
            raise InvalidInput(
                f"the name of an authority must have 1 to 64 characters; got {len(name)}."
            )
        _make_folder(path)
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        signed = (
            _builder(subject, subject, key.public_key(), days)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs=True), critical=True)
            .add_extension(
                x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False
            )
            .sign(key, hashes.SHA256())
        )
        write_private(path / _CA_KEY, _private(key))
        write_private(path / _CA, _pem(signed))
        return cls(path)

    def folder_of(self, name: str) -> Path:
        """Return where what a party gets is, or would be."""
        return self.folder / "parties" / name

    def issue(self, role: str, name: str, *, hosts: Sequence[str] = (), days: int = 365) -> Issued:
        """Make a key and a certificate for a party, in a folder of their own.

        Parameters
        ----------
        role : {"client", "server", "scheduler", "submitter"}
            What it may be.
        name : str
            The party's; a server is called server, server-2, ...
        hosts : sequence of str
            Host names and addresses to put in, for tools that compare them.
        days : int
            How long it is valid, at most as long as the authority.

        Returns
        -------
        Issued

        Raises
        ------
        InvalidInput
            For a role that is none, a name that no party may have or that has a certificate, and
            days beyond the authority's own.
        """
        check_identity(role, name)
        if (self.folder_of(name) / _CERT).exists():
            raise InvalidInput(
                f"{name!r} has a certificate in {self.folder_of(name)}. Renew it, or choose "
                "another name: no two parties may have one name."
            )
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = self._signed(role, name, hosts, days, key.public_key())
        folder = self.folder_of(name)
        _make_folder(folder)
        write_private(folder / _KEY, _private(key))
        self._write_certificate(folder, certificate)
        return Issued.of(certificate)

    def renew(self, name: str, *, days: int = 365) -> Issued:
        """Make a new certificate for the key that a party has; its old one stays valid to its end.

        Parameters
        ----------
        name : str
            Whose.
        days : int
            How long the new one is valid, from now.

        Returns
        -------
        Issued

        Raises
        ------
        InvalidInput
            When it has none, and for days beyond the authority's own.
        """
        before = self._certificate_of(name)
        about, public = Issued.of(before), before.public_key()
        assert isinstance(public, ec.EllipticCurvePublicKey), type(public)
        certificate = self._signed(about.role, about.name, about.hosts, days, public)
        self._write_certificate(self.folder_of(name), certificate)
        return Issued.of(certificate)

    def revoke(self, name: str) -> int:
        """Take back all certificates of a party, and write the list of those that hold no more.

        What the party had moves to the folder ``revoked``; it can be issued a certificate with
        another key. The new list is beside the authority's certificate, in every party's folder
        too: parties that run notice it where it is put there.

        Parameters
        ----------
        name : str
            Whose.

        Returns
        -------
        int
            How many of its certificates hold no more.

        Raises
        ------
        InvalidInput
            When it has none.
        """
        serial = Issued.of(self._certificate_of(name)).serial
        kept = self.folder / _ISSUED / name
        serials = {serial, *(int(path.stem, 16) for path in kept.glob("*.pem"))}
        (self.folder / "revoked").mkdir(exist_ok=True, mode=0o700)
        self.folder_of(name).rename(self.folder / "revoked" / f"{name}-{serial:x}")
        path = self.folder / REVOKED
        before = x509.load_pem_x509_crl(path.read_bytes()) if path.exists() else ()
        all_of_them = sorted(serials | {one.serial_number for one in before})
        told = revocation_list(self._certificate, self._key, all_of_them)
        for folder in (self.folder, *(self.folder / "parties").glob("*")):
            write_private(folder / REVOKED, told, overwrite=True)
        return len(serials)

    def issued(self) -> Iterator[Issued]:
        """Iterate over the parties' certificates, by name."""
        for folder in sorted((self.folder / "parties").glob("*")):
            yield Issued.of(self._certificate_of(folder.name))

    def _signed(
        self,
        role: str,
        name: str,
        hosts: Sequence[str],
        days: int,
        public: ec.EllipticCurvePublicKey,
    ) -> x509.Certificate:
        if datetime.now(UTC) + timedelta(days=days) > self._certificate.not_valid_after_utc:
            raise InvalidInput(
                f"a certificate may not outlast its authority, which ends on "
                f"{self._certificate.not_valid_after_utc:%Y-%m-%d}; got {days} days. Lower them."
            )
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        names = [x509.UniformResourceIdentifier(f"{SCHEME}:{role}/{name}"), *map(_host, hosts)]
        authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        return (
            _builder(subject, self._certificate.subject, public, days)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs=False), critical=True)
            .add_extension(  # a worker listens, and calls others
                x509.ExtendedKeyUsage(
                    [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
                ),
                critical=False,
            )
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .add_extension(authority, critical=False)
            .sign(self._key, hashes.SHA256())
        )

    def _write_certificate(self, folder: Path, certificate: x509.Certificate) -> None:
        write_private(folder / _CA, _pem(self._certificate), overwrite=True)
        write_private(folder / _CERT, _pem(certificate), overwrite=True)
        if (self.folder / REVOKED).exists():
            told = (self.folder / REVOKED).read_bytes()
            write_private(folder / REVOKED, told, overwrite=True)
        kept = make_private(self.folder / _ISSUED / folder.name)
        path = kept / f"{certificate.serial_number:x}.pem"
        write_private(path, _pem(certificate), overwrite=True)

    def _certificate_of(self, name: str) -> x509.Certificate:
        try:
            return x509.load_pem_x509_certificate((self.folder_of(name) / _CERT).read_bytes())
        except (OSError, ValueError) as error:
            raise InvalidInput(
                f"{name!r} has no certificate of {self.folder} ({type(error).__name__}). Issue one "
                "with 'daskfc certs issue'."
            ) from None


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _builder(
    subject: x509.Name, issuer: x509.Name, public: ec.EllipticCurvePublicKey, days: int
) -> x509.CertificateBuilder:
    if days < 1:
        raise InvalidInput(f"a certificate is valid for at least one day; got {days}.")
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _EARLY)
        .not_valid_after(now + timedelta(days=days))
    )


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _private(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def _make_folder(path: Path) -> None:
    try:
        make_private(path.parent)
        path.mkdir(mode=0o700)
    except OSError as error:
        raise InvalidInput(
            f"{path}: the folder cannot be made ({error.strerror}). Choose one that is not there "
            "yet, where you may write."
        ) from None
