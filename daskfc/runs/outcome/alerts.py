"""Report to a program or an address how a run ended."""

import json
import os
import shlex
import subprocess
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from daskfc.deploy.config.peers import is_loopback
from daskfc.errors import DaskfcError, InvalidInput

_ANSWER_S = 20.0  # ours: an alert that takes longer is not waited for
_OF_SAMPLES = ("map", "profiles", "histories")


class NotTold(DaskfcError):
    """A run's outcome could not be reported; the run itself is unaffected."""


def _is_url(target: str) -> bool:
    return target.partition("://")[0].lower() in ("http", "https")


def check_target(target: str) -> None:
    """Raise unless a target is a command, or an address with https:// or of this machine."""
    if _is_url(target):
        try:
            parts = urlsplit(target)
            local = is_loopback(f"tcp://{parts.hostname or ''}:{parts.port or 80}")
        except ValueError:
            raise InvalidInput(f"{target!r} is no address. Correct it.") from None
        if parts.scheme.lower() == "http" and not local:
            raise InvalidInput(
                "an address that is told how a run ended must begin with https:// off this "
                f"machine; got {target!r}. Use https, or a command."
            )
        return
    try:
        words = shlex.split(target)
    except ValueError as error:
        raise InvalidInput(
            f"the command {target!r} cannot be read ({error}). Correct its quotes."
        ) from None
    if not words:
        raise InvalidInput("the command that is told how a run ended is empty. Name a program.")


def outcome_of(
    exit_code: int, *, name: str | None, error: str | None, summary: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Return the report of a run's end, without values of samples."""
    told = {key: value for key, value in (summary or {}).items() if key not in _OF_SAMPLES}
    return {
        "run": name,
        "status": told.get("status", "not started"),
        "exit_code": exit_code,
        "error": error,
        "summary": told,
    }


def tell_outcome(target: str, outcome: Mapping[str, Any]) -> None:
    """Give an outcome as JSON to a command or address; raise NotTold on failure or after 20 s."""
    body = json.dumps(outcome, ensure_ascii=False, default=str).encode("utf-8")
    if _is_url(target):
        _post(target, body)
        return
    environment = {
        **os.environ,
        "DASKFC_RUN": str(outcome["run"] or ""),
        "DASKFC_STATUS": str(outcome["status"]),
        "DASKFC_EXIT_CODE": str(outcome["exit_code"]),
    }
    try:
        done = subprocess.run(
            shlex.split(target), input=body, env=environment, timeout=_ANSWER_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotTold(f"the command {target!r} could not tell it ({_why(error)}).") from None
    if done.returncode:
        raise NotTold(f"the command {target!r} ended with code {done.returncode}.")


def _post(target: str, body: bytes) -> None:
    request = urllib.request.Request(
        target, body, {"Content-Type": "application/json"}, method="POST"
    )
    try:
        with urllib.request.urlopen(request, timeout=_ANSWER_S):
            return
    except urllib.error.HTTPError as error:
        why = f"it answered {error.code}"
    except (OSError, ValueError) as error:
        why = _why(error)
    host = urlsplit(target).hostname  # what follows it may be a secret
    raise NotTold(f"the address at {host} could not be told ({why}).")


def _why(error: Exception) -> str:
    if isinstance(error, subprocess.TimeoutExpired | TimeoutError):
        return f"no answer within {_ANSWER_S:g} s"
    inner = getattr(error, "reason", error)
    return str(getattr(inner, "strerror", None) or type(inner).__name__)
