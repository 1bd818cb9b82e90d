"""The options for a command's certificates."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from daskfc.deploy.config.config import SecurityFiles
from daskfc.errors import InvalidInput

__all__ = ["certificates", "security_options"]

FC = TypeVar("FC", bound=Callable[..., Any])


def security_options(command: FC) -> FC:
    """Add to a command the options for certificates, named as Dask names them."""
    for option, told in (
        ("--tls-key", "Its key."),
        ("--tls-cert", "Who this is: a certificate."),
        ("--tls-ca-file", "The authority that all trust."),
    ):
        command = click.option(option, type=click.Path(), help=told)(command)
    return command


def certificates(options: dict[str, Any]) -> SecurityFiles | None:
    """Take the files out of a command's options, None without any; raise if some are missing."""
    ca, cert, key = (options.pop(name) for name in ("tls_ca_file", "tls_cert", "tls_key"))
    if ca is None and cert is None and key is None:
        return None
    if ca is None or cert is None or key is None:
        raise InvalidInput(
            "TLS needs --tls-ca-file, --tls-cert and --tls-key together; got some of them only. "
            "Give the others."
        )
    return SecurityFiles(ca=ca, cert=cert, key=key)
