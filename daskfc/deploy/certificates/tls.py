"""Dask's settings for TLS, made from the three files that every side has."""

from distributed import Security

from daskfc.deploy.config.config import SecurityFiles


def security_of(files: SecurityFiles | None) -> Security | None:
    """Return Dask's security settings; the same certificate serves all of a party's roles."""
    if files is None:
        return None
    return Security(
        tls_ca_file=files.ca,
        tls_client_cert=files.cert,
        tls_client_key=files.key,
        tls_worker_cert=files.cert,
        tls_worker_key=files.key,
        tls_scheduler_cert=files.cert,
        tls_scheduler_key=files.key,
        require_encryption=True,
    )
