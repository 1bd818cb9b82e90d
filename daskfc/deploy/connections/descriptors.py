"""The limit of connections and files that a process may have open."""

import resource

_MOST = 65_535  # as Dask's own scheduler


def allow_many_descriptors() -> int:
    """Raise the limit of open files, also for child processes, to the system's most; return it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST if hard == resource.RLIM_INFINITY else min(hard, _MOST)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return _MOST if soft == resource.RLIM_INFINITY else soft
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return wanted
