"""Partitions that have had their time."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from penstock.errors import ConfigError
from penstock.table.handle import Table
from penstock.table.maintenance.partition_times import DEFAULT_FORM, TimeForm
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


def test_the_first_partition_column_is_the_time(tmp_path: Path) -> None:
    table = filled(tmp_path, "2026-01-29", "2026-01-30", "no day", expiration_time="2 d")
    assert table.expire_partitions() == [{"dt": "2026-01-29", "hour": "1"}, {"dt": "2026-01-29", "hour": "13"}]
    assert left(table) == [("2026-01-30", 1), ("2026-01-30", 13), ("no day", 1), ("no day", 13)]
    check_invariants(table)
    assert table.expire_partitions() == []


def test_a_pattern_combines_columns_to_a_time(tmp_path: Path) -> None:
    table = filled(
        tmp_path,
        "20260129",
        timestamp_pattern="$dt $hour:00",
        timestamp_formatter="yyyyMMdd H:mm",
        expiration_time="2 d",
    )
    table.expire_partitions()
    assert left(table) == [("20260129", 13)]


@pytest.mark.parametrize(
    ("formatter", "text", "time"),
    [
        ("yyyyMMdd", "20240229", "2024-02-29"),
        ("yyyyMMdd", "202411", None),  # a month is no day
        ("yyyyMMdd", "2024111", None),
        ("yyyy-MM-dd", "2024-1-2", None),
        ("yyyy-M-d", "2024-1-02", "2024-01-02"),
        ("yyyy-MM-dd", "2024-02-31", "2024-02-29"),
        ("yyyy-MM-dd", "2024-13-01", None),
        ("yyMMdd", "240131", "2024-01-31"),
        ("yyyyMMddHH", "2024013107", "2024-01-31T07:00"),
        ("yyyyMMddHH", "2024013124", "2024-02-01"),
        ("yyyyMMddHHmm", "202401312401", None),
        ("yyyy-MM-dd'T'HH:mm:ss.SSS", "2024-01-31T07:08:09.120", "2024-01-31T07:08:09.120"),
        ("yyyy-MM-dd[ HH:mm]", "2024-01-31", "2024-01-31"),
        ("yyyy-MM-dd[ HH:mm]", "2024-01-31 07:30", "2024-01-31T07:30"),
        ("d.M.uuuu", "1.2.2024", "2024-02-01"),
        (None, "2024-1-2", "2024-01-02"),
        (None, "2024-01-32", "2024-02-01"),
        (None, "2024-01-31 1:02:03.5", "2024-01-31T01:02:03.500"),
        (None, "2024-01-31 01:02", None),
        (None, "no day", None),
    ],
)
def test_times_are_parsed_as_javas_formatter_does(formatter: str | None, text: str, time: str | None) -> None:
    form = DEFAULT_FORM if formatter is None else TimeForm.of(formatter)
    wanted = None if time is None else int(datetime.fromisoformat(time).replace(tzinfo=UTC).timestamp() * 1000)
    assert form.millis(text) == wanted


@pytest.mark.parametrize("formatter", ["yyyyMM", "HH:mm", "yyyy-MMM-dd", "QQ", "yyyyMMddyyyy", "yyyyMMdd["])
def test_formatters_without_a_day_are_refused(formatter: str) -> None:
    with pytest.raises(ConfigError, match=r"formatter|contain no day"):
        TimeForm.of(formatter)


def test_date_partitions_expire_by_their_day_unlike_in_java(tmp_path: Path) -> None:
    columns = [("day", "DATE NOT NULL"), ("id", "INT NOT NULL")]
    options = {"bucket": "1", "partition.expiration-time": "1 d"}
    table = new_table(tmp_path, columns, keys=("day", "id"), partitions=("day",), options=options)
    with table.writer() as writer:
        writer.write(rows(table, (date(2020, 1, 1), 1), (date(2099, 1, 1), 1)))
        writer.commit()
    assert table.expire_partitions() == [{"day": "2020-01-01"}]


def test_a_month_partition_among_days_is_kept(tmp_path: Path) -> None:
    days = ("20240101", "202411", "2024111")
    table = filled(tmp_path, *days, expiration_time="1 d", timestamp_formatter="yyyyMMdd")
    table.expire_partitions()
    assert {day for day, _ in left(table)} == {"202411", "2024111"}


def test_expiry_drops_the_oldest_partitions_first_up_to_a_limit(tmp_path: Path) -> None:
    table = filled(tmp_path, "2026-01-03", "2026-01-01", "2026-01-02", expiration_max_num="2", expiration_time="1 d")
    assert {part["dt"] for part in table.expire_partitions()} == {"2026-01-01"}


def test_options_of_the_call_win_and_missing_options_are_refused(tmp_path: Path) -> None:
    table = filled(tmp_path, "2026-01-01")
    with pytest.raises(ConfigError, match="the time after which partitions expire is not set"):
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


@pytest.mark.parametrize("key", ["partition.timestamp-pattern", "partition.timestamp-formatter"])
def test_the_form_of_times_in_values_is_refused_for_expiry_by_the_last_update(tmp_path: Path, key: str) -> None:
    form = {key: "$dt" if key.endswith("pattern") else "yyyyMMdd"}
    table = filled(tmp_path, "20260129", expiration_time="1 h", expiration_strategy="update-time")
    with pytest.raises(ConfigError, match="last update") as caught:
        table.expire_partitions(form)
    assert caught.value.facts["unused"] == key
    assert len(left(table)) == 2
    by_values = {"partition.expiration-strategy": "values-time", "partition.timestamp-formatter": "yyyyMMdd"}
    assert len(table.expire_partitions(form | by_values)) == 2
    # The option of the table has other uses.
    (tmp_path / "other").mkdir()
    other = filled(tmp_path / "other", "20260129", expiration_time="1 h", timestamp_pattern="$dt")
    other.expire_partitions({"partition.expiration-strategy": "update-time"})
