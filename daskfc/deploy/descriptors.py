"""How many connections and files a process may have open."""

import resource

__all__ = ["allow_many_descriptors"]

_MOST = 65_535  # as Dask's own scheduler


def allow_many_descriptors() -> int:
    """Let this process, and those that it starts, open as many as the system allows; return it.

    Most systems allow 1,024 at first and far more to who asks. A scheduler has several connections
    to each party, and a server one to each client.

    Examples
    --------
    >>> from daskfc.deploy.descriptors import allow_many_descriptors
    >>> allow_many_descriptors() > 0
    True
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST if hard == resource.RLIM_INFINITY else min(hard, _MOST)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return _MOST if soft == resource.RLIM_INFINITY else soft
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return wanted
