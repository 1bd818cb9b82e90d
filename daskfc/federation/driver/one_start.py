"""Only one start of a fit releases noisy values: a second would exceed its privacy budget."""

import hashlib
from pathlib import Path

from daskfc.errors import PrivacyError
from daskfc.folders import write_once


def begin_releases(workspace: str, method: str, params: str, start: str) -> str:
    """Record in the server's folder that a fit's start releases noise; refuse a second one."""
    digest = hashlib.sha256(f"{method} {params}".encode()).hexdigest()[:16]
    folder = Path(workspace)
    folder.mkdir(parents=True, exist_ok=True)
    note = folder / f"releases-began-{digest}"
    # Whole or not at all: half a note, from a full disk, would stop every later start.
    if not write_once(note, start.encode()) and note.read_text() != start:  # else performed again
        raise PrivacyError(
            f"an earlier start of this fit of {method} released what bears noise, and the releases "
            "of another would go beyond its budget; noise is never used twice. Start a new run "
            "with a budget for both."
        )
    return str(note)
