"""Warnings that whoever causes them cannot fill a log with."""

import logging
import time
from collections.abc import Callable, Hashable

__all__ = ["Seldom"]

_AGAIN_S = 60.0  # ours: after which the same is said of the same side again


class Seldom:
    """Writes the same warning of the same side once a minute at most.

    Parameters
    ----------
    logger : logging.Logger
        Where to.
    clock : callable
        Seconds; another one for tests.

    Examples
    --------
    >>> import logging
    >>> from daskfc.deploy.seldom import Seldom
    >>> quiet = logging.Logger("example", level="CRITICAL")
    >>> seldom = Seldom(quiet)
    >>> [seldom.warn("a", "%s is slow") for _ in range(2)], seldom.warn("b", "%s is slow")
    ([True, False], True)
    """

    def __init__(self, logger: logging.Logger, clock: Callable[[], float] = time.monotonic) -> None:
        self._logger = logger
        self._clock = clock
        self._said: dict[tuple[Hashable, str], float] = {}

    def warn(self, who: Hashable, words: str, *about: object) -> bool:
        """Warn of a side, and return whether it was said.

        Parameters
        ----------
        who : hashable
            The first word of what is said, such as a `Peer`.
        words : str
            For all sides alike, with places for `who` and for the rest.
        *about
            The rest.
        """
        now = self._clock()
        self._said = {of: at for of, at in self._said.items() if now - at < _AGAIN_S}
        if (who, words) in self._said:
            return False
        self._said[who, words] = now
        self._logger.warning(words, who, *about)
        return True
