"""A caller's Client or cluster of Dask, in place of a cluster's file."""

import os
from typing import Any

from distributed import Client

from daskfc.deploy.config.config import ExistingCluster, SecurityFiles
from daskfc.errors import InvalidInput


def is_given(source: Any) -> bool:
    """Return whether this is a Client, a LocalCluster, or has a `scheduler_address` as one."""
    return isinstance(source, Client) or isinstance(getattr(source, "scheduler_address", None), str)


def cluster_given(given: Any, *, trusted: bool) -> ExistingCluster:
    """Return the running cluster of a caller, with its address and certificates."""
    if getattr(given, "asynchronous", False):
        raise InvalidInput(
            "a federation does not wait for a Client that is asynchronous. Give one that is not, "
            "or the scheduler's address."
        )
    if not isinstance(given, Client):
        address = given.scheduler_address
    elif given.scheduler is None:
        raise InvalidInput("the Client is closed. Connect another, and open the federation by it.")
    else:
        address = given.scheduler.address
    files = None if trusted else _files_of(given.security)
    # Addresses are those that Dask gave, which in trusted mode may be of a proxy.
    return ExistingCluster.model_construct(cluster="existing", scheduler=address, security=files)


def _files_of(security: Any) -> SecurityFiles | None:
    names = ("tls_ca_file", "tls_client_cert", "tls_client_key")
    found = [getattr(security, name, None) for name in names]
    if not any(found):
        return None
    if all(isinstance(one, str) and os.path.isfile(one) for one in found):
        ca, cert, key = map(str, found)
        return SecurityFiles(ca=ca, cert=cert, key=key)
    raise InvalidInput(
        "the certificates of the Client must be files, for its parties know a submitter by them: "
        f"{', '.join(names)} of its Security. Give their paths, or a cluster's file."
    )
