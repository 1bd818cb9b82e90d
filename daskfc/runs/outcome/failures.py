"""Why a run broke off, as one sentence, and whether the same would happen again."""

import errno
from pathlib import Path

from daskfc.errors import DaskfcError, InvalidInput, PartyError, PrivacyError, StoreError


class RunFailed(DaskfcError):
    """A run that started and broke off; ``daskfc resume`` can continue a `resumable` one."""

    def __init__(self, folder: Path, sentence: str, resumable: bool) -> None:
        super().__init__(folder, sentence, resumable)
        self.folder = folder
        self.sentence = sentence
        self.resumable = resumable

    def __str__(self) -> str:
        hint = f" Resume with: daskfc resume {self.folder}" if self.resumable else ""
        return f"{self.sentence}{hint}"


def sentence_of(error: BaseException, folder: Path) -> str:
    """Return why a run broke off, in a sentence without any value of private data."""
    if isinstance(error, KeyboardInterrupt):
        return "interrupted."
    if not (folder / "run.json").exists():
        return f"the run's folder {folder} was removed while it ran. Start a new run."
    if isinstance(error, DaskfcError):
        return " ".join(str(error).split())
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"no space left on the disk of {folder}; free some."
    return (
        f"unexpected {type(error).__name__}; the traceback is in {folder / 'log.txt'}. "
        "Please report it."
    )


def same_again(error: BaseException) -> bool:
    """Return whether resuming would fail again, as for invalid input or for privacy."""
    if isinstance(error, PartyError) and error.__cause__ is not None:
        error = error.__cause__  # daskfc's own error; only its sentence was sent
    # A store can be restored; the digest of its content shows that it is the same.
    lasting = isinstance(error, InvalidInput | PrivacyError)
    return lasting and not isinstance(error, StoreError)
