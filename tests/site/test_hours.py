"""Hours of a policy, against a clock that is walked minute by minute."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from daskfc.errors import InvalidInput
from daskfc.site.hours import DAYS, Hours

MONDAY = datetime(2026, 3, 2, tzinfo=UTC)


def walked(days, begin, end):
    """Return the minutes of a week in which runs may begin, by walking from each begin."""
    week, found = 7 * 24 * 60, set()
    for day in days:
        minute, stop = day * 1440 + begin, day * 1440 + end + (1440 if end < begin else 0)
        while minute < stop:
            found.add(minute % week)
            minute += 1
    return found


def clock(minute):
    return f"{minute // 60:02}:{minute % 60:02}"


@given(
    st.sets(st.integers(0, 6), min_size=1),
    st.integers(0, 1439),
    st.integers(0, 1440),
    st.lists(st.integers(0, 7 * 1440 - 1), min_size=1),
)
@example({4}, 20 * 60, 6 * 60, [5 * 1440 + 359, 5 * 1440 + 360, 4 * 1440 + 100])
@example({6}, 1439, 1, [0, 1, 7 * 1440 - 1])
@example({0}, 0, 1440, [0, 1439, 1440])
def test_hours_are_those_of_a_walked_clock(days, begin, end, minutes):
    if begin == end:
        return
    hours = Hours(
        days=[DAYS[day] for day in days], times=f"{clock(begin)}-{clock(end)}", zone="UTC"
    )
    allowed = walked(days, begin, end)
    for minute in minutes:
        assert hours.hold(MONDAY + timedelta(minutes=minute)) == (minute in allowed), minute


@pytest.mark.parametrize(
    ("days", "numbers"),
    [
        ("mon-fri", (0, 1, 2, 3, 4)),
        ("sat-mon", (0, 5, 6)),
        ("Sun", (6,)),
        (["mon", "wed-thu", "mon"], (0, 2, 3)),
        ("mon-mon", (0,)),
    ],
)
def test_days_as_they_are_written(days, numbers):
    assert Hours(days=days, zone="UTC").days == numbers


def test_the_clock_is_the_sites():
    hours = Hours(times="08:00-09:00", zone="Asia/Tokyo")
    assert hours.hold(datetime(2026, 3, 4, 23, 30, tzinfo=UTC))
    assert hours.hold(datetime(2026, 3, 5, 8, 30, tzinfo=ZoneInfo("Asia/Tokyo")))
    assert not hours.hold(datetime(2026, 3, 5, 8, 30, tzinfo=UTC))


@pytest.mark.parametrize(("month", "utc"), [(1, 7), (7, 6)])
def test_summer_moves_the_hours_with_the_clock(month, utc):
    hours = Hours(times="08:00-09:00", zone="Europe/Berlin")
    for hour in range(24):
        moment = datetime(2026, month, 1, hour, 30, tzinfo=UTC)
        assert hours.hold(moment) == (hour == utc)


def test_several_times_and_their_words():
    hours = Hours(days="mon-tue", times=["06:00-07:00", "22:00-02:00"], zone="UTC")
    held = [hour for hour in range(72) if hours.hold(MONDAY + timedelta(hours=hour))]
    assert held == [6, 22, 23, 24, 25, 30, 46, 47, 48, 49]
    assert str(hours) == "06:00-07:00, 22:00-02:00 on mon, tue (UTC)"


def test_a_time_without_a_zone_is_none():
    with pytest.raises(InvalidInput, match="a time with its zone"):
        Hours(zone="UTC").hold(datetime(2026, 3, 4))
