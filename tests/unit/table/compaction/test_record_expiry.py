"""Records that have had their time: which ones, and in which files."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.errors import ConfigError
from penstock.table.compaction.record_expiry import RecordExpiry
from penstock.table.handle import Table
from penstock.table.meta.live import live_entries
from tests.invariants import check_invariants
from tests.unit.table.tables import new_table, rows

START = 1_700_000_000  # the seeded clock, in seconds
OPTIONS = {"bucket": "1", "record-level.expire-time": "1 h", "record-level.time-field": "at"}


def table_of(folder: Path, kind: str, **options: str) -> Table:
    columns = [("id", "INT NOT NULL"), ("at", kind), ("v", "STRING")]
    return new_table(folder, columns, keys=("id",), options={**OPTIONS, **options})


def ids(table: Table) -> list[int]:
    return sorted(table.scan(columns=["id"]).to_arrow()["id"].to_pylist())


def expiry_of(table: Table, now: int) -> RecordExpiry:
    found = RecordExpiry.of(table.definition, now * 1000, table.store.schemas.get)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("kind", "scale"), [("INT", 1), ("BIGINT", 1), ("BIGINT", 1000), ("TIMESTAMP(3)", 0), ("TIMESTAMP_LTZ(9)", 0)]
)
def test_a_row_of_the_last_millisecond_is_kept(tmp_path: Path, kind: str, scale: int) -> None:
    table = table_of(tmp_path, kind)
    zone = UTC if "LTZ" in kind else None

    def time(seconds: int) -> object:
        return seconds * scale if scale else datetime.fromtimestamp(seconds, UTC).replace(tzinfo=zone)

    column = pa.array([time(START - 3601), time(START - 3600), None], table.schema.field("at").type)
    batch = pa.RecordBatch.from_arrays([pa.array([1, 2, 3]), column], ["id", "at"])
    assert expiry_of(table, START).left(batch)["id"].to_pylist() == [2, 3]


def test_compaction_drops_expired_rows_and_reading_does_not(tmp_path: Path) -> None:
    table = table_of(tmp_path, "INT", **{"write-only": "true"})
    for start in (0, 3):
        with table.writer() as writer:
            ages = ((start + 1, 7200), (start + 2, 60), (start + 3, None))
            writer.write(rows(table, *((number, age and START - age, "x") for number, age in ages)))
            writer.commit()
    assert ids(table) == [1, 2, 3, 4, 5, 6]
    table.compact()
    assert ids(table) == [2, 3, 5, 6]
    assert table.compact() == []
    later = replace(table.store, ambient=replace(table.store.ambient, now_millis=lambda: (START + 7200) * 1000))
    Table(later).compact()  # all lies at the top, and some of it is over now
    assert ids(table) == [3, 6]
    check_invariants(table)


def test_statistics_show_which_files_contain_expired_rows(tmp_path: Path) -> None:
    table = table_of(tmp_path, "TIMESTAMP(6)")
    with table.writer() as writer:
        at = datetime.fromtimestamp(START, UTC).replace(tzinfo=None) - timedelta(hours=2)
        writer.write(rows(table, (1, at, "x")))
        writer.commit()
    assert table.latest_snapshot is not None
    [entry] = live_entries(table.store, table.latest_snapshot)
    assert expiry_of(table, START).concerns(entry.file)
    assert not expiry_of(table, START - 3600).concerns(entry.file)
    bare = replace(entry.file, value_stats_cols=())
    assert not expiry_of(table, START).concerns(bare)


def test_a_time_without_a_field_is_refused(tmp_path: Path) -> None:
    table = new_table(tmp_path, options={"record-level.expire-time": "1 h"})
    with pytest.raises(ConfigError, match="You should set time field"):
        RecordExpiry.of(table.definition, 0, table.store.schemas.get)
