"""Warnings of limited frequency, so that nobody can fill a log with them."""

import logging
import time
from collections.abc import Callable, Hashable

_AGAIN_S = 60.0  # ours: before the same warning about the same side


class Seldom:
    """Logs the same warning about the same side at most once a minute."""

    def __init__(self, logger: logging.Logger, clock: Callable[[], float] = time.monotonic) -> None:
        self._logger = logger
        self._clock = clock
        self._said: dict[tuple[Hashable, str], float] = {}

    def warn(self, who: Hashable, words: str, *about: object) -> bool:
        """Warn by `words`, a format for `who` and `about`, and return whether it was logged."""
        now = self._clock()
        self._said = {of: at for of, at in self._said.items() if now - at < _AGAIN_S}
        if (who, words) in self._said:
            return False
        self._said[who, words] = now
        self._logger.warning(words, who, *about)
        return True
