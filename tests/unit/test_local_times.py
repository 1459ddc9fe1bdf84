"""Local times from 2037 on."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

from penstock.local_times import instants, wall_clock

ZONES = ("America/New_York", "Europe/Berlin", "Australia/Sydney", "America/Santiago", "Pacific/Chatham", "Asia/Kolkata")
EPOCH = datetime(1970, 1, 1)
MICROS = timedelta(microseconds=1)


def times(zone: str) -> list[datetime]:
    """Random times, and the hours around those at which clocks change."""
    dice = random.Random(zone)
    found = [EPOCH + timedelta(seconds=dice.randrange(0, 250_000_000_000), microseconds=5) for _ in range(300)]
    found += [datetime(9999, 7, 1), datetime(9999, 12, 30), datetime(2036, 7, 1), datetime(2037, 1, 1)]
    changing = (
        datetime(year, month, day)
        for year in (2036, 2037, 2038, 2400)
        for month in (3, 4, 10, 11)
        for day in range(1, 31)
    )
    return found + [day + timedelta(minutes=15 * step) for day in changing for step in range(0, 20, 3)]


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("unit", ["ms", "us"])
def test_rules_of_a_zone_are_used_in_all_later_years(zone: str, unit: str) -> None:
    """Arrow's tables end with 2037: in later summers clocks of Berlin and New York were an hour behind."""
    place, local = ZoneInfo(zone), times(zone)
    if unit == "ms":
        local = [at.replace(microsecond=0) for at in local]
    found = instants(pa.array([*local, None], pa.timestamp(unit)), zone).to_pylist()
    assert found == [*(at.replace(tzinfo=place).astimezone(UTC) for at in local), None]
    shown = wall_clock(pa.array([*local, None], pa.timestamp(unit)).view(pa.timestamp(unit, "UTC")), zone).to_pylist()
    assert shown == [*(at.replace(tzinfo=UTC).astimezone(place).replace(tzinfo=None) for at in local), None]


def test_offsets_have_no_rules() -> None:
    late = pa.array([datetime(2040, 7, 1)], pa.timestamp("us"))
    assert instants(late, "+05:30").to_pylist() == [datetime(2040, 6, 30, 18, 30, tzinfo=UTC)]


def test_years_that_no_datetime_has_follow_the_rules_too() -> None:
    summer = (datetime(2038, 7, 1) - EPOCH) // timedelta(seconds=1)
    much_later = summer + 146_097 * 86_400 * 30
    local = pa.array([summer, much_later], pa.int64()).view(pa.timestamp("s"))
    found = instants(local, "Europe/Berlin").cast(pa.int64()).to_pylist()
    assert found == [summer - 7200, much_later - 7200]
