"""When a site lets runs begin: days and times of day, on the site's own clock."""

import re
from datetime import datetime
from typing import Annotated, Any
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, BeforeValidator

from daskfc.checks import Section
from daskfc.errors import InvalidInput

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
"""Days of the week as a policy names them; their numbers are those of `datetime.weekday`."""

_DAY = 24 * 60  # minutes
_TIMES = re.compile(r"([01]\d|2[0-3]):([0-5]\d)-(?:([01]\d|2[0-3]):([0-5]\d)|(24):(00))")


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]


def _days(value: Any) -> tuple[int, ...]:
    found: set[int] = set()
    for one in _listed(value):
        first, dash, last = one.lower().partition("-") if isinstance(one, str) else ("", "", "")
        if first not in DAYS or (dash and last not in DAYS):
            raise ValueError("must be days such as mon-fri, or a list of them")
        begin = DAYS.index(first)
        length = (DAYS.index(last) - begin) % len(DAYS) if dash else 0  # sat-mon goes over sunday
        found.update((begin + i) % len(DAYS) for i in range(length + 1))
    if not found:
        raise ValueError("must be days such as mon-fri, or a list of them")
    return tuple(sorted(found))


def _times(value: Any) -> tuple[tuple[int, int], ...]:
    found = []
    for one in _listed(value):
        match = _TIMES.fullmatch(one) if isinstance(one, str) else None
        if match is None:
            raise ValueError("must be times of day such as 20:00-06:00, or a list of them")
        hour, minute, *ends = [int(part) for part in match.groups() if part is not None]
        begin, end = 60 * hour + minute, 60 * ends[0] + ends[1]
        if begin == end:
            raise ValueError("must end at another time than it begins, or say 00:00-24:00")
        found.append((begin, end))
    if not found:
        raise ValueError("must be times of day such as 20:00-06:00, or a list of them")
    return tuple(found)


def _zone(value: str) -> str:
    try:
        ZoneInfo(value)
    except (OSError, ValueError, LookupError):
        raise ValueError("must be a time zone such as Europe/Berlin or UTC") from None
    return value


class Hours(Section):
    """Days, 0 for Monday, and [first, last) minutes of the day at which runs may begin, in a zone.

    Times over midnight belong to the day on which they begin.
    """

    days: Annotated[tuple[int, ...], BeforeValidator(_days)] = tuple(range(7))
    times: Annotated[tuple[tuple[int, int], ...], BeforeValidator(_times)] = ((0, _DAY),)
    zone: Annotated[str, AfterValidator(_zone)]

    def hold(self, now: datetime) -> bool:
        """Return whether a run may begin; InvalidInput for a time without a zone."""
        if now.tzinfo is None:
            raise InvalidInput(
                "hours are told of a time with its zone, and this one has none. Give it one."
            )
        here = now.astimezone(ZoneInfo(self.zone))
        minute, today = 60 * here.hour + here.minute, here.weekday()
        yesterday = (today - 1) % len(DAYS)
        for begin, end in self.times:
            if today in self.days and begin <= minute < (end if begin < end else _DAY):
                return True
            if begin > end and yesterday in self.days and minute < end:
                return True
        return False

    def __str__(self) -> str:
        days = ", ".join(DAYS[day] for day in self.days)
        times = ", ".join(f"{_clock(begin)}-{_clock(end)}" for begin, end in self.times)
        return f"{times} on {days} ({self.zone})"


def _clock(minute: int) -> str:
    return f"{minute // 60:02}:{minute % 60:02}"
