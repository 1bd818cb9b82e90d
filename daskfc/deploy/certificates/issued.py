"""The content of a certificate: role, name, validity, and who issued it."""

import os
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature

from daskfc.deploy.config.peers import Peer
from daskfc.errors import InvalidInput

_SOON = timedelta(days=30)


@dataclass(frozen=True)
class Issued:
    """A certificate that an authority issued; times are UTC, `hosts` for other tools to compare."""

    role: str
    name: str
    begins: datetime
    ends: datetime
    serial: int
    hosts: tuple[str, ...] = ()

    @classmethod
    def of_file(cls, path: str | os.PathLike[str]) -> "Issued":
        """Read a certificate's file; see `of`."""
        try:
            return cls.of(x509.load_pem_x509_certificate(Path(path).read_bytes()))
        except (OSError, ValueError) as error:
            raise InvalidInput(
                f"a certificate must be a file in PEM; {Path(path).name!r} cannot be read "
                f"({type(error).__name__}). Correct the path."
            ) from None

    @classmethod
    def of(cls, certificate: x509.Certificate) -> "Issued":
        """Read a certificate; refuse one without a role and name."""
        try:
            found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
        except x509.ExtensionNotFound:
            identities: list[str] = []
            hosts: list[str] = []
        else:
            identities = found.value.get_values_for_type(x509.UniformResourceIdentifier)
            hosts = found.value.get_values_for_type(x509.DNSName)
            hosts += map(str, found.value.get_values_for_type(x509.IPAddress))
        if (peer := Peer.of_names(identities)) is not None:
            return cls(
                peer.role,
                peer.name,
                certificate.not_valid_before_utc,
                certificate.not_valid_after_utc,
                certificate.serial_number,
                tuple(hosts),
            )
        raise InvalidInput(
            "a certificate of a party must say its role and name, as daskfc:client/hospital-a; "
            "this one says neither. Have it signed by 'daskfc certs sign', or by your own "
            "authority with such a URI among its alternative names."
        )

    def warning(self) -> str | None:
        """Return a warning of a certificate that ends within 30 days, or None."""
        left = self.ends - datetime.now(UTC)
        if left > _SOON:
            return None
        when = f"ends on {self.ends:%Y-%m-%d}, in {left.days} days"
        if left < timedelta(0):
            when = f"ended on {self.ends:%Y-%m-%d}"
        return (
            f"the certificate of {self.role} {self.name!r} {when}. Have it renewed: 'daskfc certs "
            f"renew {self.name}'."
        )

    def check_valid(self) -> None:
        """Refuse a certificate that is not valid now."""
        if not self.begins <= datetime.now(UTC) <= self.ends:
            raise InvalidInput(
                f"the certificate of {self.role} {self.name!r} is valid from "
                f"{self.begins:%Y-%m-%d} to {self.ends:%Y-%m-%d}, and today is not between. Have "
                "it renewed, or correct this machine's clock."
            )


def check_issued(certificate: x509.Certificate, ca: str | os.PathLike[str]) -> None:
    """Raise InvalidSignature unless one of the authorities in a file signed the certificate."""
    authorities = x509.load_pem_x509_certificates(Path(ca).read_bytes())
    for authority in authorities:
        if authority.subject == certificate.issuer:
            certificate.verify_directly_issued_by(authority)
            return
    raise InvalidSignature
