"""The state of a source whose tables are copied in chunks."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.ingest.database.progress import CopyProgress, PlannedBatch
from penstock.ingest.database.table_parts import TablePart

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


def test_part_of_a_table_is_superfluous_if_the_whole_table_waits() -> None:
    part, other = TablePart(ORDERS, "id > 1"), TablePart(ORDERS, "id < 0")
    assert progress_of(ORDERS).reading_parts([part]) == progress_of(ORDERS)
    # Both parts are read, and each once.
    both = progress_of(USERS).reading_parts([part, other, part])
    assert both.reading_parts([other]) == both
    assert both.parts == (part, other)
    assert both.unread == [USERS, ORDERS, ORDERS]
    assert both.reading([ORDERS]).parts == ()
    assert progress_of().reading_parts([part]).reads_tables


def test_part_does_not_narrow_a_table_that_is_being_read() -> None:
    part = TablePart(ORDERS, "id > 1")
    found = progress_of(rest=Part(ORDERS)).reading_parts([part])
    assert (found.rest, found.parts, found.unread) == (Part(ORDERS), (part,), [ORDERS, ORDERS])


def test_batch_with_chunks_reads_rows_after_it_was_planned() -> None:
    nothing: PlannedBatch[Part] = PlannedBatch(5)
    assert not nothing.reads_present
    assert PlannedBatch(5, (Part(ORDERS),)).reads_present
