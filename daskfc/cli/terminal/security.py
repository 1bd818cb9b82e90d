"""The options for a command's certificates."""

from typing import Any

import click

from daskfc.cli.terminal.options import options
from daskfc.deploy.config.config import SecurityFiles
from daskfc.errors import InvalidInput

security_options = options(
    click.option("--tls-ca-file", type=click.Path(), help="The authority that all trust."),
    click.option("--tls-cert", type=click.Path(), help="Who this is: a certificate."),
    click.option("--tls-key", type=click.Path(), help="Its key."),
)
"""Adds to a command the options for certificates, named as Dask names them."""


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
