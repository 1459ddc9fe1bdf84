"""The state of a source whose tables are copied in chunks."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.ingest.database.progress import CopyProgress, PlannedBatch

ORDERS, USERS = ("shop", "orders"), ("shop", "users")


@dataclass(frozen=True)
class Part:
    name: tuple[str, str]


def progress_of(*waiting: tuple[str, str], rest: Part | None = None) -> CopyProgress[Part]:
    return CopyProgress(log=5, batch=PlannedBatch(), waiting=waiting, rest=rest)


def test_tables_are_read_until_none_waits_and_none_is_left() -> None:
    assert not progress_of().reads_tables
    assert progress_of(ORDERS).reads_tables
    assert progress_of(rest=Part(ORDERS)).reads_tables


def test_table_that_is_read_again_begins_at_its_first_chunk() -> None:
    again = progress_of(USERS, rest=Part(ORDERS)).reading([ORDERS])
    assert (again.waiting, again.rest) == ((USERS, ORDERS), None)
    # A table that waits already is read once, and one that is being cut stays.
    kept = progress_of(USERS, rest=Part(ORDERS)).reading([USERS])
    assert (kept.waiting, kept.rest) == ((USERS,), Part(ORDERS))


def test_batch_with_chunks_reads_rows_after_it_was_planned() -> None:
    nothing: PlannedBatch[Part] = PlannedBatch(5)
    assert not nothing.reads_present
    assert PlannedBatch(5, (Part(ORDERS),)).reads_present
