"""A small certificate authority, for trials and consortia that have none: a folder with a key.

An authority's folder has ``ca.pem`` and ``ca-key.pem``, and below ``parties/NAME`` what one party
gets: ``ca.pem`` and ``cert.pem``, and in trials ``key.pem``, readable by their owner alone. A
certificate holds a role and a name, as ``daskfc:client/hospital-a``.
"""

import errno
import ipaddress
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from daskfc.deploy.certificates.issued import Issued, check_issued
from daskfc.deploy.certificates.own_key import CA, CERT, KEY, check_side, private_pem
from daskfc.deploy.certificates.requests import CertificateRequest, PublicKey
from daskfc.deploy.certificates.revocation import REVOKED, Revoked, revocation_list
from daskfc.deploy.config.peers import SCHEME, check_identity
from daskfc.errors import InvalidInput
from daskfc.folders import make_private, whole_folder, write_private

_EARLY = timedelta(minutes=5)  # clocks of sites differ
_ISSUED = "issued"  # every certificate so far, by name
_CA_KEY = "ca-key.pem"


class Authority:
    """A certificate authority in an existing folder.

    Privacy: whoever can read its unencrypted ``ca-key.pem`` can impersonate anybody to all parties.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        try:
            self._certificate = x509.load_pem_x509_certificate((self.folder / CA).read_bytes())
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
        """Make an authority with a new key, valid for `days`, in a new folder."""
        path = Path(folder)
        if not 1 <= len(name) <= 64:  # of a common name, by X.509
            raise InvalidInput(
                f"the name of an authority must have 1 to 64 characters; got {len(name)}."
            )
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
        with _new_folder(path) as partial:
            write_private(partial / _CA_KEY, private_pem(key))
            write_private(partial / CA, _pem(signed))
        return cls(path)

    def folder_of(self, name: str) -> Path:
        """Return the folder of a party's files, which may not exist."""
        return self.folder / "parties" / name

    def issue(self, role: str, name: str, *, hosts: Sequence[str] = (), days: int = 365) -> Issued:
        """Make a key and a certificate for a party in its own folder, once a name: for trials."""
        check_identity(role, name)
        if (self.folder_of(name) / CERT).exists():
            raise InvalidInput(
                f"{name!r} has a certificate in {self.folder_of(name)}. Renew it, or choose "
                "another name: no two parties may have one name."
            )
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = self._signed(role, name, hosts, days, key.public_key())
        self._note(name, certificate)
        with _new_folder(self.folder_of(name)) as partial:
            write_private(partial / KEY, private_pem(key))
            self._write_certificate(partial, certificate)
        return Issued.of(certificate)

    def check_request(
        self, role: str, name: str, request: CertificateRequest, *, renew: bool = False
    ) -> None:
        """Check what `sign` checks, and sign nothing; the parameters are the same."""
        check_identity(role, name)
        if request.name != name:
            raise InvalidInput(
                f"the request is of {request.name!a}, and {name!r} is to be signed. Ask who "
                "sent it."
            )
        self._check_own(name, request.public)
        folder = self.folder_of(name)
        if folder.is_symlink() or (folder / KEY).exists():
            raise InvalidInput(
                f"{folder}: this is a link, or has a key that the authority made for {name!r}. "
                f"Take that back with 'daskfc certs revoke {name}', or remove the link."
            )
        if not (folder / CERT).exists():
            return
        before = self.issued_to(role, name)
        if not renew and before.ends > datetime.now(UTC):
            raise InvalidInput(
                f"{name!r} has a certificate that is valid until {before.ends:%Y-%m-%d}. Give "
                "--renew if it asks for another, by its own word."
            )

    def sign(
        self,
        role: str,
        name: str,
        request: CertificateRequest,
        *,
        days: int = 365,
        renew: bool = False,
    ) -> Issued:
        """Make a certificate for a key that a site made; the key itself stays there.

        A revoked or another party's key is refused, and a second one for a name, unless `renew`.
        """
        self.check_request(role, name, request, renew=renew)
        certificate = self._signed(role, name, (), days, request.public)
        self._note(name, certificate)
        folder = self.folder_of(name)
        there = (folder / CERT).exists()
        with nullcontext(folder) if there else _new_folder(folder) as place:
            self._write_certificate(place, certificate)
        return Issued.of(certificate)

    def issued_to(self, role: str, name: str) -> Issued:
        """Return what a party's certificate says; refuse one of another role."""
        before = Issued.of(self._certificate_of(name))
        if before.role != role:
            raise InvalidInput(
                f"{name!r} has a certificate as {before.role}, and as {role} it would be somebody "
                f"else. Choose another name, or 'daskfc certs revoke {name}' first."
            )
        return before

    def knew(self, name: str) -> bool:
        """Return whether there ever was a certificate of a name, revoked or not."""
        revoked, kept = Revoked(self.folder / CA), (self.folder / _ISSUED / name).glob("*.pem")
        there = (self.folder_of(name) / CERT).exists()
        return there or any(int(path.stem, 16) in revoked for path in kept)

    def faults(self, parties: Mapping[str, str]) -> dict[str, str]:
        """Return by name what is wrong with the certificates of parties, given with their roles."""
        found = {}
        for name, role in parties.items():
            if (fault := self._fault_of(role, name)) is not None:
                found[name] = fault
        for folder in sorted((self.folder / "parties").glob("[!.]*")):
            if folder.name not in parties:
                found[folder.name] = "has a certificate, and is not on the list"
        return found

    def renew(self, name: str, *, days: int = 365) -> Issued:
        """Make a new certificate for a party's present key; the old one stays valid to its end."""
        before = self._certificate_of(name)
        about, public = Issued.of(before), before.public_key()
        assert isinstance(public, PublicKey), type(public)
        certificate = self._signed(about.role, about.name, about.hosts, days, public)
        self._note(name, certificate)
        self._write_certificate(self.folder_of(name), certificate)
        return Issued.of(certificate)

    def revoke(self, name: str) -> int:
        """Revoke all certificates of a party, return their number, and write the revocation list.

        The list goes into all parties' folders here; running parties notice it where it is copied.
        """
        serial = Issued.of(self._certificate_of(name)).serial
        kept = self.folder / _ISSUED / name
        serials = {serial, *(int(path.stem, 16) for path in kept.glob("*.pem"))}
        (self.folder / "revoked").mkdir(exist_ok=True, mode=0o700)
        path = self.folder / REVOKED
        before = x509.load_pem_x509_crl(path.read_bytes()) if path.exists() else ()
        all_of_them = sorted(serials | {one.serial_number for one in before})
        told = revocation_list(self._certificate, self._key, all_of_them)
        for folder in (self.folder, *(self.folder / "parties").glob("[!.]*")):
            write_private(folder / REVOKED, told, overwrite=True)
        self.folder_of(name).rename(self.folder / "revoked" / f"{name}-{serial:x}")
        return len(serials)

    def issued(self) -> Iterator[Issued]:
        """Iterate over the parties' certificates, by name."""
        for folder in sorted((self.folder / "parties").glob("[!.]*")):
            yield Issued.of(self._certificate_of(folder.name))

    def _signed(
        self, role: str, name: str, hosts: Sequence[str], days: int, public: PublicKey
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

    def _fault_of(self, role: str, name: str) -> str | None:
        folder = self.folder_of(name)
        if not (folder / CERT).exists():
            return "revoked, and no other since" if self.knew(name) else "missing"
        try:
            certificate = self._certificate_of(name)
            issued = Issued.of(certificate)
            check_issued(certificate, self.folder / CA)
            if (folder / KEY).exists():
                check_side(folder)
        except InvalidInput as error:
            return str(error)
        except (InvalidSignature, ValueError, TypeError):
            return "of another authority"
        if issued.serial in Revoked(self.folder / CA):
            return "revoked"
        if (issued.role, issued.name) != (role, name):
            return f"is of {issued.role} {issued.name!r}"
        return issued.warning()

    def _check_own(self, name: str, public: PublicKey) -> None:
        """Refuse a key that was revoked, or is the authority's or another party's."""
        whose = "the authority's" if public == self._key.public_key() else None
        revoked = Revoked(self.folder / CA)
        for path in (self.folder / _ISSUED).glob("*/*.pem"):
            one = x509.load_pem_x509_certificate(path.read_bytes())
            if one.public_key() != public:
                continue
            if one.serial_number in revoked:
                whose = "one that was revoked"
            elif path.parent.name != name:
                whose = f"that of {path.parent.name!r}"
        if whose is not None:
            raise InvalidInput(
                f"the key of the request of {name!r} is {whose}. Have another made, by 'daskfc "
                "certs request' in an empty folder."
            )

    def _note(self, name: str, certificate: x509.Certificate) -> None:
        """Keep a certificate before anybody has it: what is not kept could not be revoked."""
        kept = make_private(self.folder / _ISSUED / name)
        path = kept / f"{certificate.serial_number:x}.pem"
        write_private(path, _pem(certificate), overwrite=True)

    def _write_certificate(self, folder: Path, certificate: x509.Certificate) -> None:
        write_private(folder / CA, _pem(self._certificate), overwrite=True)
        write_private(folder / CERT, _pem(certificate), overwrite=True)
        if (self.folder / REVOKED).exists():
            told = (self.folder / REVOKED).read_bytes()
            write_private(folder / REVOKED, told, overwrite=True)

    def _certificate_of(self, name: str) -> x509.Certificate:
        try:
            return x509.load_pem_x509_certificate((self.folder_of(name) / CERT).read_bytes())
        except (OSError, ValueError) as error:
            raise InvalidInput(
                f"{name!r} has no certificate of {self.folder} ({type(error).__name__}). Sign its "
                "request with 'daskfc certs sign'."
            ) from None


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _builder(
    subject: x509.Name, issuer: x509.Name, public: PublicKey, days: int
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


@contextmanager
def _new_folder(path: Path) -> Iterator[Path]:
    """Yield a folder that will lie at a path where nothing is, once it is whole."""
    try:
        make_private(path.parent)
        if os.path.lexists(path):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
        with whole_folder(path) as partial:
            yield partial
    except OSError as error:
        raise InvalidInput(
            f"{path}: the folder cannot be made ({error.strerror}). Choose one that is not there "
            "yet, where you may write."
        ) from None
