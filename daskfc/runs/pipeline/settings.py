"""What a run's results depend on, as digests: a run is resumed with the settings it began with."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from daskfc.errors import InvalidInput

__all__ = ["check_unedited", "digest_of", "digests_of"]

# Not the cluster: limits and deadlines may have to change before a run can go on, and no label
# depends on where it is computed.
_DECIDE = ("pipeline", "seeds", "storage", "contents")


def _leaves(key: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping) and value:
        for name, below in value.items():
            yield from _leaves(f"{key}.{name}", below)
    else:
        yield key, value


def digests_of(record: Mapping[str, Any]) -> dict[str, str]:
    """Return by dotted key a digest of every setting that results depend on.

    One each, so that the setting that was changed can be named.
    """
    plain = json.loads(json.dumps({key: record.get(key) for key in _DECIDE}))  # as it is read back
    leaves = (leaf for key in _DECIDE for leaf in _leaves(key, plain[key]))
    return {
        key: hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]
        for key, value in sorted(leaves)
    }


def digest_of(record: Mapping[str, Any]) -> str:
    """Return one digest of all settings that a run's results depend on."""
    return hashlib.sha256(json.dumps(digests_of(record), sort_keys=True).encode()).hexdigest()


def check_unedited(record: Mapping[str, Any], path: Path) -> None:
    """Refuse settings that were changed since the run began: its results would be of two kinds.

    Compares with the ``digests`` in ``run.json``, and names the first that differs.
    """
    began, now = record.get("digests"), digests_of(record)
    if not isinstance(began, Mapping):
        raise InvalidInput(
            f"{path}: key 'digests', by which changes of the settings are found, is missing. "
            "Restore the file, or start a new run."
        )
    for key in sorted({*began, *now}):
        if began.get(key) != now.get(key):
            raise InvalidInput(
                f"{path}: {key!r} was changed since the run began, and results of two settings are "
                "never mixed. Restore it, or start a new run."
            )
