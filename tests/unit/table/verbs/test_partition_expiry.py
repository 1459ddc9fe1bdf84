"""Partitions that have had their time."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from penstock.errors import ConfigError
from penstock.table.handle import Table
from tests.invariants import check_invariants
from tests.unit.table.tables import new_table, rows

NOW = int(datetime(2026, 1, 31, 12, tzinfo=UTC).timestamp() * 1000)
COLUMNS = [("dt", "STRING NOT NULL"), ("hour", "INT NOT NULL"), ("id", "INT NOT NULL")]


def filled(folder: Path, *days: str, **options: str) -> Table:
    names = {name.replace("_", "-"): value for name, value in options.items()}
    table = new_table(
        folder,
        COLUMNS,
        keys=("dt", "hour", "id"),
        partitions=("dt", "hour"),
        options={"bucket": "1", **{f"partition.{name}": value for name, value in names.items()}},
    )
    with table.writer() as writer:
        writer.write(rows(table, *((day, hour, 1) for day in days for hour in (1, 13))))
        writer.commit()
    store = replace(table.store, ambient=replace(table.store.ambient, now_millis=lambda: NOW))
    return Table(store)


def left(table: Table) -> list[tuple[str, int]]:
    return sorted({(row["dt"], row["hour"]) for row in table.scan().to_arrow().to_pylist()})


def test_the_first_column_tells_the_time(tmp_path: Path) -> None:
    table = filled(tmp_path, "2026-01-29", "2026-01-30", "no day", expiration_time="2 d")
    assert table.expire_partitions() == [{"dt": "2026-01-29", "hour": "1"}, {"dt": "2026-01-29", "hour": "13"}]
    assert left(table) == [("2026-01-30", 1), ("2026-01-30", 13), ("no day", 1), ("no day", 13)]
    check_invariants(table)
    assert table.expire_partitions() == []


def test_several_columns_make_the_time_by_a_pattern(tmp_path: Path) -> None:
    table = filled(
        tmp_path,
        "20260129",
        timestamp_pattern="$dt $hour:00",
        timestamp_formatter="yyyyMMdd H:mm",
        expiration_time="2 d",
    )
    table.expire_partitions()
    assert left(table) == [("20260129", 13)]


def test_a_round_drops_the_oldest_first_and_is_bounded(tmp_path: Path) -> None:
    table = filled(tmp_path, "2026-01-03", "2026-01-01", "2026-01-02", expiration_max_num="2", expiration_time="1 d")
    assert {part["dt"] for part in table.expire_partitions()} == {"2026-01-01"}


def test_options_of_the_call_win_and_none_are_refused(tmp_path: Path) -> None:
    table = filled(tmp_path, "2026-01-01")
    with pytest.raises(ConfigError, match="how long"):
        table.expire_partitions()
    with pytest.raises(ConfigError, match="formatter"):
        table.expire_partitions({"partition.expiration-time": "1 d", "partition.timestamp-formatter": "QQ"})
    assert len(table.expire_partitions({"partition.expiration-time": "1 d"})) == 2


def test_partitions_are_dropped_in_batches(tmp_path: Path) -> None:
    days = [f"2026-01-{day:02}" for day in range(1, 6)]
    table = filled(tmp_path, *days, expiration_time="2 d", expiration_batch_size="3")
    before = len(table.snapshots)
    assert len(table.expire_partitions()) == 10
    assert len(table.snapshots) - before == 4
    assert left(table) == []
    check_invariants(table)
