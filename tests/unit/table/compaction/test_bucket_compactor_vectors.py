"""Deletion vectors of files that left the table: Java leaves some in the index, and writers here go on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from penstock.table.commit.committer import Committer
from penstock.table.handle import Table
from penstock.table.meta.entries import DELETION_VECTORS
from penstock.table.meta.live import index_entries, live_entries
from penstock.table.operations.bucket_compaction import BucketCompaction
from penstock.table.operations.compact import _messages
from penstock.table.operations.executor import OwnProcess
from penstock.table.operations.selection import Selection
from tests.invariants import check_invariants
from tests.unit.table.tables import content, new_table, rows

COLUMNS = [("id", "INT NOT NULL"), ("v", "INT")]
MANY = 5_000  # so many that a writer's compaction leaves the upper level alone
VECTORS = {"deletion-vectors.enabled": "true"}


def write(table: Table, *values: tuple[int, int]) -> None:
    with table.writer() as writer:
        writer.write(rows(table, *values))
        writer.commit()


def compact_as_java(table: Table) -> None:
    """Commit a full compaction that leaves the vectors of the files it replaced in the index."""
    made = list(_messages(BucketCompaction.of(table.store, None), Selection(), OwnProcess()))
    done = Committer(table.store, "java").commit([replace(message, compact_index_changes=()) for message in made])
    assert done.lost_compaction is None
    assert vector_names(table) - live_names(table), "no vector of a file that is gone"


def live_names(table: Table) -> set[str]:
    return {entry.file.name for entry in live_entries(table.store, table.snapshots[-1])}


def vector_names(table: Table) -> set[str]:
    entries = index_entries(table.store, table.snapshots[-1])
    vectors = [entry for entry in entries if entry.index_type == DELETION_VECTORS]
    return {vector.data_file for entry in vectors for vector in entry.vector_ranges or ()}


@pytest.fixture
def keyed(tmp_path: Path) -> Table:
    table = new_table(tmp_path, COLUMNS, options={"bucket": "1", **VECTORS})
    write(table, *((number, 0) for number in range(MANY)))
    table.compact()
    write(table, (2, 2))
    compact_as_java(table)
    return table


def test_a_writer_compacts_a_bucket_with_vectors_of_deleted_files(
    keyed: Table, caplog: pytest.LogCaptureFixture
) -> None:
    """With vectors, rows of level 0 are invisible: a compaction that never commits hides everything written since."""
    write(keyed, (2, 3), (3, 3), (MANY, 3))
    found = dict(content(keyed))
    assert (found[2], found[3], found[MANY], len(content(keyed))) == (3, 3, 3, MANY + 1)
    assert "compaction_lost" not in caplog.text
    assert vector_names(keyed)
    assert vector_names(keyed) <= live_names(keyed)
    check_invariants(keyed, excused=["I12"])


def test_a_full_compaction_replaces_vectors_of_deleted_files(keyed: Table) -> None:
    write(keyed, (3, 3))
    keyed.compact()
    assert (dict(content(keyed))[3], len(content(keyed)), len(live_names(keyed))) == (3, MANY, 1)
    assert vector_names(keyed) == set()


@pytest.fixture
def append(tmp_path: Path) -> Table:
    table = new_table(tmp_path, COLUMNS, keys=(), options={"bucket": "-1", **VECTORS})
    write(table, *((number, 0) for number in range(10)))
    table.delete("id = 2")
    compact_as_java(table)
    return table


def test_rows_are_deleted_in_a_bucket_with_vectors_of_deleted_files(append: Table) -> None:
    append.delete("id = 3")
    assert sorted(number for number, _ in content(append)) == [0, 1, 4, 5, 6, 7, 8, 9]
    assert vector_names(append) == live_names(append)


def test_vectors_of_files_that_a_condition_rules_out_are_kept(append: Table) -> None:
    """A delete reads only files that can match by their statistics, and keeps the vectors of all live files."""
    append.delete("id = 3")
    write(append, *((number, 0) for number in range(20, 30)))
    append.delete("id = 22")
    assert sorted(number for number, _ in content(append)) == [0, 1, *range(4, 10), 20, 21, *range(23, 30)]
    assert len(vector_names(append)) == 2


def test_an_append_table_with_vectors_of_deleted_files_is_compacted(append: Table) -> None:
    write(append, (20, 0), (21, 0))
    append.compact(full=True)
    assert len(live_names(append)) == 1
    append.delete("id = 20")
    append.compact(full=True)
    assert sorted(number for number, _ in content(append)) == [0, 1, *range(3, 10), 21]
    assert vector_names(append) == set()
