"""TIMESTAMP columns in the local time of a zone."""

from __future__ import annotations

from datetime import datetime, timedelta

import pyarrow as pa
import pytest

from penstock.formats.change import ChangeBatch, SourceField, SourceSchema
from penstock.ingest.mysql.shown_times import in_zone, repeats_times


@pytest.mark.parametrize(
    ("zone", "summer", "winter"), [("Europe/Berlin", 2, 1), ("+08:00", 8, 8), ("UTC", 0, 0), ("Asia/Tokyo", 9, 9)]
)
def test_timestamps_of_mariadb_after_2037_have_the_clock_of_the_zone(zone: str, summer: int, winter: int) -> None:
    """MariaDB 11.5 has timestamps until 2106; those of a summer were an hour behind."""
    days = [datetime(2024, 7, 1), datetime(2105, 7, 1), datetime(2105, 1, 1), None]
    schema = SourceSchema("mysql", "d", "t", (SourceField("at", "timestamp(6)"), SourceField("text", "timestamp")))
    rows = pa.record_batch(
        {
            "at": pa.array(days, pa.timestamp("us", "UTC")),
            "text": pa.array([str(day) if day else "0000-00-00 00:00:00" for day in days]),
        }
    )
    found = in_zone(ChangeBatch.inserts(schema, rows), zone).rows
    wanted = [
        day.replace(hour=hour) if day else None for day, hour in zip(days, [summer, summer, winter, 0], strict=True)
    ]
    assert found.column("at").to_pylist() == wanted
    assert found.column("text").to_pylist() == [str(day) if day else "0000-00-00 00:00:00" for day in wanted]


def autumn(zone: str, columns: dict[str, pa.Array], keys: tuple[str, ...]) -> dict[str, list[object]]:
    fields = tuple(SourceField(name, "timestamp(3)") for name in columns)
    schema = SourceSchema("mysql", "d", "t", fields, primary_keys=keys)
    found: dict[str, list[object]] = in_zone(
        ChangeBatch.inserts(schema, pa.record_batch(columns)), zone
    ).rows.to_pydict()
    return found


def test_the_later_of_two_times_that_clocks_show_alike_is_no_key() -> None:
    """Both had the local time 02:30, and so the row of one key replaced that of the other without an error."""
    hours = [datetime(2024, 10, 27, hour, 30) for hour in (0, 1, 2)]
    texts = [f"{at}.000" for at in hours]
    columns = {
        "at": pa.array(hours, pa.timestamp("us", "UTC")),
        "other": pa.array(hours, pa.timestamp("us", "UTC")),
        "text": pa.array([*texts[:2], "0000-00-00 00:00:00.000"]),
        "free": pa.array(texts),
    }
    found = autumn("Europe/Berlin", columns, ("at", "text"))
    shown = ["2024-10-27 02:30:00", "2024-10-27 02:30:00", "2024-10-27 03:30:00"]
    assert found["at"] == [f"{shown[0]}.000000", f"{shown[1]}.000000+01:00", f"{shown[2]}.000000"]
    assert [str(at) for at in found["other"]] == shown
    assert found["text"] == [f"{shown[0]}.000", f"{shown[1]}.000+01:00", "0000-00-00 00:00:00.000"]
    assert found["free"] == [f"{at}.000" for at in shown]
    assert autumn("-05:00", columns, ("at",))["at"] == [at - timedelta(hours=5) for at in hours]


def test_zones_with_summer_time_are_known() -> None:
    zones = ("Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "UTC", "+08:00", "Asia/Shanghai", "Asia/Tokyo")
    assert [repeats_times(zone, (2026, 2027)) for zone in zones] == [True, True, True, False, False, False, False]
