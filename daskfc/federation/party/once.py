"""A party's memory, within a start, of what each tag was used for."""

import hashlib
import threading
from pathlib import Path

from daskfc.errors import PrivacyError


class OnceOnly:
    """Ensures that a tag serves one content: one mask on two arrays reveals their difference.

    The file at `path` outlives the process, as the secrets do; None keeps tags in memory only.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._seen: dict[str, str] = {}
        if path is not None and path.exists():
            lines = path.read_text().splitlines()
            # A crash that cut a line off came before its use.
            self._seen = dict(line.split(" ") for line in lines if len(line) == 2 * 64 + 1)

    def hold(self, use: str, tag: str, content: bytes) -> None:
        """Record the digest of a tag's content for a use; PrivacyError for another content."""
        name = hashlib.sha256(f"{use} {tag}".encode()).hexdigest()
        told = hashlib.sha256(content).hexdigest()
        with self._lock:
            held = self._seen.get(name)
            if held is None:
                if self._path is not None:
                    with self._path.open("a") as file:
                        file.write(f"\n{name} {told}\n")
                self._seen[name] = told
        if held not in (None, told):
            raise PrivacyError(
                f"the {use} of {tag!r} were used for another content before, and serve one only. "
                "Nothing was sent; sum under a new tag."
            )

    def hold_one(self, use: str, tag: str, content: bytes) -> None:
        """Record what a start has once, for each tag; PrivacyError for another content."""
        try:
            self.hold(use, tag, content)
        except PrivacyError:
            raise PrivacyError(
                f"a start has one {use}, and this is another. Nothing was sent; start the run "
                "again."
            ) from None

    def has(self, use: str, tag: str) -> bool:
        """Return whether `hold` recorded a content of a tag for a use."""
        return hashlib.sha256(f"{use} {tag}".encode()).hexdigest() in self._seen

    def is_full(self, use: str, most: int) -> bool:
        """Return whether `hold_few` has as many contents as it takes."""
        return self.has(use, str(most - 1))

    def hold_few(self, use: str, content: bytes, most: int) -> None:
        """Record a content as one of at most so many different ones; PrivacyError for more."""
        for number in range(most):
            try:
                self.hold(use, str(number), content)
            except PrivacyError:
                continue
            return
        raise PrivacyError(
            f"a run may ask for {most} different {use} at most, and this is one more. Nothing was "
            "sent; start the run again."
        )
