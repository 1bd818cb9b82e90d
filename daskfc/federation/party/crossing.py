"""Errors as they may leave a party: a sentence of daskfc's own or the class's name, no values."""

import builtins
import errno
import os

from daskfc import errors
from daskfc.errors import ENDS_A_RUN, DaskfcError, PartyError


def reason(error: OSError) -> str:
    """Return why a file could not be used, in the system's words, without the file's name."""
    return os.strerror(error.errno).lower() if error.errno else type(error).__name__


def without_values(error: BaseException, party: str, step: str) -> DaskfcError:
    """Return an exception that may leave the party: with daskfc's own sentence, or only its type.

    It is always a new one, because Dask pickles causes, tracebacks and attributes as well.
    """
    if isinstance(error, ENDS_A_RUN):
        return next(kind for kind in ENDS_A_RUN if isinstance(error, kind))(_utf8(error))
    if isinstance(error, PartyError):
        crossing = PartyError(*(_utf8(part) for part in (error.party, error.step, error.kind)))
        known = isinstance(vars(errors).get(error.error_type), type)
        crossing.error_type = error.error_type if known else ""
        return crossing
    kind = _known_class(error)
    if isinstance(error, DaskfcError):
        crossing = PartyError(party, step, _utf8(error))
        crossing.error_type = kind
        return crossing
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        kind = f"{reason(error)} at that party. Free some and resume the run."
    elif isinstance(error, OSError) and error.errno:
        kind = f"{kind} ({reason(error)})"
    return PartyError(party, step, kind)


def as_code(error: DaskfcError) -> DaskfcError:
    """Return an error with its kind and no more; one that ends a run is returned as it is."""
    if not isinstance(error, PartyError):
        return error
    kind = error.error_type or "an error of its own"
    coded = PartyError(error.party, error.step, f"{kind}. Its site tells no more; ask there.")
    coded.error_type = error.error_type
    return coded


def _utf8(text: object) -> str:
    return str(text).encode(errors="backslashreplace").decode()


def _known_class(error: BaseException) -> str:
    """Return the name of the nearest class that is Python's or daskfc's: others may hold values."""
    return next(
        kind.__name__
        for kind in type(error).__mro__
        if any(vars(module).get(kind.__name__) is kind for module in (builtins, errors))
    )
