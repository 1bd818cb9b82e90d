"""Reaching a scheduler: waiting until it listens, and explaining why TLS fails."""

import contextlib
import json
import socket
import ssl
import time
from pathlib import Path

from daskfc.deploy.certificates.tls import security_of
from daskfc.deploy.config.config import SecurityFiles, needs_certificates
from daskfc.deploy.config.dask_insides import get_address_host_port
from daskfc.errors import ClusterError, InvalidInput, NotAdmitted

_AGAIN_S = 0.2  # between two looks at who listens
_ANSWER_S = 10.0  # for one answer of somebody who listens
_QUIET_S = 2.0  # a scheduler speaks first; one that does not may wait for TLS


def address_in(file: str, *, wait: float) -> str:
    """Return the address that a scheduler wrote into a file, once it has, within `wait` seconds."""
    ends = time.monotonic() + wait
    while True:
        with contextlib.suppress(OSError, ValueError):  # it may be written at this moment
            content = json.loads(Path(file).read_text())
            if isinstance(content, dict) and isinstance(content.get("address"), str):
                return str(content["address"])
        if time.monotonic() >= ends:
            raise ClusterError(
                f"{file}: no scheduler wrote its address there within {wait:g} s. Start one with "
                "'daskfc scheduler --scheduler-file', or correct the path."
            )
        time.sleep(_AGAIN_S)


def reach(address: str, *, wait: float, what: str, security: SecurityFiles | None = None) -> None:
    """Return once somebody at an address speaks as a scheduler; raise after `wait` seconds."""
    try:
        host, port = get_address_host_port(address, strict=True)
    except ValueError:
        raise InvalidInput(
            f"the address of a scheduler must be like tls://10.0.0.1:8786; got {address!r}. "
            "Correct it."
        ) from None
    context = _context(security) if security and needs_certificates(address) else None
    ends = time.monotonic() + wait
    while True:
        left = ends - time.monotonic()
        try:
            with socket.create_connection((host, port), max(left, 1.0)) as plain:
                plain.settimeout(_QUIET_S if context is None else _ANSWER_S)
                why = _first_word(plain, host, context)
        except ssl.SSLEOFError as error:
            why = type(error).__name__
        except ssl.SSLError as error:
            raise NotAdmitted(f"{what}: {_disagreement(error)}") from None
        except OSError as error:  # TimeoutError is one
            why = type(error).__name__
        if why is None:
            return
        if why == "silence" and context is None and _speaks_tls(host, port):
            raise NotAdmitted(
                f"{what}: TLS is spoken there. Begin the address with tls:// and give this side's "
                "certificates."
            )
        if time.monotonic() >= ends:
            raise ClusterError(
                f"{what}: nobody answered there within {wait:g} s ({why}). Start one with "
                "'daskfc scheduler', or correct the address."
            )
        time.sleep(min(_AGAIN_S, max(ends - time.monotonic(), 0.0)))


def _context(files: SecurityFiles) -> ssl.SSLContext:
    try:
        made = security_of(files)
        assert made is not None
        context: ssl.SSLContext = made.get_connection_args("client")["ssl_context"]
    except (OSError, ValueError) as error:
        raise InvalidInput(
            f"the certificates of TLS cannot be used ({type(error).__name__}): 'ca', 'cert' and "
            f"'key' must be files in PEM that belong together; got {files.ca}, {files.cert} and "
            f"{files.key}. Correct the paths."
        ) from None
    return context


def _first_word(plain: socket.socket, host: str, context: ssl.SSLContext | None) -> str | None:
    """Return None once a byte came, else why not; a refused certificate shows only by then."""
    try:
        if context is None:
            return None if plain.recv(1) else "ConnectionResetError"
        with context.wrap_socket(plain, server_hostname=host) as secure:
            return None if secure.recv(1) else "ConnectionResetError"
    except TimeoutError:
        return "silence"


def _disagreement(error: ssl.SSLError) -> str:
    reason = str(error.reason or type(error).__name__).lower().replace("_", " ")
    if isinstance(error, ssl.SSLCertVerificationError):
        return (
            "TLS failed, since the certificate there is not one of the authority that this side "
            f"trusts ({error.verify_message}). Use the ca.pem that all sides have, or correct the "
            "address."
        )
    if "certificate" in reason or "unknown ca" in reason or "alert" in reason:
        return (
            f"TLS failed, since this side's certificate is not taken there ({reason}). Use one "
            "that is valid and of the authority that all sides trust."
        )
    return (
        f"TLS failed, since none is spoken there ({reason}). Begin the address with tcp:// on the "
        "loopback interface, or have that side started with certificates."
    )


def _speaks_tls(host: str, port: int) -> bool:
    """Return whether a TLS handshake is answered; nothing else is sent, and nothing trusted."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with (
            socket.create_connection((host, port), _ANSWER_S) as plain,
            context.wrap_socket(plain, server_hostname=host),
        ):
            return True
    except ssl.SSLError as error:
        return "alert" in str(error.reason or "").lower()
    except OSError:
        return False
