"""TIMESTAMP columns in the local time of a zone."""

from __future__ import annotations

from datetime import datetime

import pyarrow as pa
import pytest

from penstock.formats.change import ChangeBatch, SourceField, SourceSchema
from penstock.ingest.mysql.read_range import in_zone


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
