"""The maintaining verbs of a table: each reaches the room that does it, with what the user said."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from penstock.errors import ConfigError
from penstock.table.errors import SnapshotMissing, TagMissing
from penstock.table.handle import Table
from penstock.table.operations.selection import Selection
from penstock.table.schema.type_text import parse_type_text, written
from tests.invariants import check_invariants
from tests.unit.table.tables import content, new_table, rows


def filled(folder: Path, commits: int = 3) -> Table:
    table = new_table(folder)
    for number in range(1, commits + 1):
        with table.writer() as writer:
            writer.write(rows(table, (number, f"v{number}", None)))
            writer.commit()
    return table


def names(table: Table) -> list[object]:
    return [row[1] for row in content(table)]


def test_expiry_keeps_the_requested_snapshots(tmp_path: Path) -> None:
    table = filled(tmp_path, 5)
    assert table.expire_snapshots(retain_max=2, retain_min=1).snapshots == 3
    assert [snapshot.id for snapshot in table.snapshots] == [4, 5]
    check_invariants(table)


def test_a_table_is_rolled_back_to_an_id_a_tag_or_a_time(tmp_path: Path) -> None:
    table = filled(tmp_path, 5)
    at = [datetime.fromtimestamp(snapshot.time_millis / 1000, UTC) for snapshot in table.snapshots]
    assert table.rollback_to(at[3]).id == 4
    table.create_tag("third", 3)
    assert table.rollback_to("third").id == 3
    assert table.rollback_to(2).id == 2
    assert names(table) == ["v1", "v2"]
    with pytest.raises(SnapshotMissing):
        table.rollback_to(datetime(1990, 1, 1, tzinfo=UTC))
    check_invariants(table)


def test_tags_are_created_by_id_time_and_watermark_replaced_and_renamed(tmp_path: Path) -> None:
    table = filled(tmp_path)
    with table.writer(commit_user="w") as writer:
        writer.write(rows(table, (9, "v9", None)))
        writer.commit(1, watermark=500)
    second = table.snapshots[1].time_millis
    table.create_tag("latest")
    table.create_tag("by-time", timestamp=second)
    table.create_tag("by-watermark", watermark=400)
    assert table.tags == {"latest": 4, "by-time": 2, "by-watermark": 4}
    table.replace_tag("latest", 1)
    table.rename_tag("latest", "first")
    table.delete_tag("by-watermark")
    assert table.tags == {"first": 1, "by-time": 2}
    with pytest.raises(TagMissing):
        table.replace_tag("nowhere")
    with pytest.raises(ConfigError, match="already"):
        table.rename_tag("first", "by-time")
    with pytest.raises(SnapshotMissing, match="watermark"):
        table.create_tag("never", watermark=501)


@pytest.mark.slow
def test_a_branch_is_created_written_and_fast_forwarded(tmp_path: Path) -> None:
    table = filled(tmp_path)
    table.create_tag("base", 2)
    branch = table.create_branch("dev", "base")
    with branch.writer() as writer:
        writer.write(rows(branch, (7, "dev", None)))
        writer.commit()
    table.fast_forward("dev")
    assert names(table) == ["v1", "v2", "dev"]
    table.delete_branch("dev")
    assert table.branches == []
    check_invariants(table)


def test_arguments_of_which_one_would_have_no_effect_are_refused(tmp_path: Path) -> None:
    table = filled(tmp_path)
    with pytest.raises(ConfigError, match="a tag keeps one snapshot, and several are given"):
        table.create_tag("t", 1, timestamp=datetime(2020, 1, 1, tzinfo=UTC))
    with pytest.raises(ConfigError, match="the partitions to compact are given twice"):
        table.compact(partitions=[{"dt": "1"}], only=Selection(where="dt = '2'"))


def test_a_consumer_is_reset_and_removed(tmp_path: Path) -> None:
    table = filled(tmp_path)
    table.reset_consumer("job", 2)
    assert table.consumers == {"job": 2}
    table.reset_consumer("job")
    assert table.consumers == {}


def test_orphans_are_listed_before_they_are_deleted(tmp_path: Path) -> None:
    table = filled(tmp_path, 1)
    orphan = Path(table.path) / "bucket-0" / "data-lost-0.parquet"
    orphan.write_bytes(b"lost")
    late = datetime(2100, 1, 1, tzinfo=UTC)
    assert [found.path for found in table.remove_orphan_files(dry_run=True, older_than=late)] == [str(orphan)]
    assert orphan.exists()
    with pytest.raises(ConfigError, match="older_than is not in the past"):
        table.remove_orphan_files(older_than=late)
    assert table.remove_orphan_files() == []  # it is younger than a day
    assert orphan.exists()
    os.utime(orphan, (1, 1))
    table.remove_orphan_files()
    assert not orphan.exists()
    check_invariants(table)


@pytest.mark.parametrize(
    "text",
    ["DECIMAL(10, 2) NOT NULL", "STRING", "ARRAY<INT NOT NULL>", "MAP<STRING, ROW<`a` INT, `b c` BYTES>> NOT NULL"],
)
def test_a_type_is_written_as_it_is_read(text: str) -> None:
    assert written(parse_type_text(text)) == text
