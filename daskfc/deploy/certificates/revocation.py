"""Certificates that an authority revoked, read again whenever its list changes."""

import logging
import os
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from daskfc.errors import InvalidInput

logger = logging.getLogger("daskfc.party")

REVOKED = "revoked.pem"
"""The list's file, in the folder where the authority's certificate is."""


def revocation_list(
    certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey, serials: Iterable[int]
) -> bytes:
    """Return an authority's X.509 list of revoked serial numbers, in PEM."""
    now = datetime.now(UTC)
    builder = (
        x509.CertificateRevocationListBuilder()
        .issuer_name(certificate.subject)
        .last_update(now)
        .next_update(certificate.not_valid_after_utc)  # it holds until there is a newer one
    )
    for serial in serials:
        builder = builder.add_revoked_certificate(
            x509.RevokedCertificateBuilder().serial_number(serial).revocation_date(now).build()
        )
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


class Revoked:
    """The serial numbers of revoked certificates, from ``revoked.pem`` beside the authority's `ca`.

    `own`, this process's certificate, always passes: its worker and nanny must be able to end each
    other in order.
    """

    def __init__(self, ca: str | os.PathLike[str], own: int = 0) -> None:
        self._own = own
        self._ca = Path(ca)
        self._path = self._ca.with_name(REVOKED)
        self._stamp: tuple[int, ...] | None = None
        self._serials: frozenset[int] = frozenset()
        self._read()

    def __contains__(self, serial: int) -> bool:
        try:
            self._read()
        except InvalidInput as error:  # the earlier list stays in force
            logger.warning("%s", error)
        return serial != self._own and serial in self._serials

    def _read(self) -> None:
        try:
            found = self._path.stat()
        except OSError:  # none yet, or removed: the earlier list stays in force
            return
        stamp = (found.st_mtime_ns, found.st_size, found.st_ino)
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            listed = x509.load_pem_x509_crl(self._path.read_bytes())
            holds = any(
                one.subject == listed.issuer and listed.is_signature_valid(one.public_key())  # type: ignore[arg-type]
                for one in x509.load_pem_x509_certificates(self._ca.read_bytes())
            )
        except (OSError, ValueError, TypeError):
            holds = False
        if not holds:
            raise InvalidInput(
                f"{self._path.name} beside the certificate of the authority is no list that this "
                "authority signed. Put its present list there."
            )
        self._serials = frozenset(one.serial_number for one in listed)
