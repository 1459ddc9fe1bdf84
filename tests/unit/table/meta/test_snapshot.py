"""Marks of snapshots, by which readers notice that an id was used again, and snapshots that are kept by their bytes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from penstock.table.meta.snapshot import parse_snapshot, snapshot_json
from penstock.table.read.follow import is_another
from tests.unit.table.meta.test_snapshot_files import snapshot
from tests.unit.table.meta.test_snapshot_times import HOUR, NOON, committed
from tests.unit.table.tables import new_table


def test_a_snapshot_that_replaces_one_of_the_same_time_is_another(tmp_path: Path) -> None:
    """While the clock of a writer is behind, its snapshots get the time of the newest one."""
    table = committed(new_table(tmp_path), NOON, NOON - HOUR)
    read = table.store.snapshots.get(2)
    table.rollback_to(1)
    again = committed(table.refresh(), NOON - HOUR).store.snapshots.get(2)
    assert read.time_millis == again.time_millis == NOON
    created = table.store.schemas.created_millis()
    assert is_another(table.store, 2, read.mark, created)
    assert not is_another(table.store, 2, again.mark, created)


def test_a_mark_of_an_older_version_is_the_time() -> None:
    made = snapshot(1, 1_800_000_000_000)
    assert made.has_mark(made.time_millis)
    assert not made.has_mark(made.time_millis + 1)
    assert made.has_mark(made.mark)
    assert not replace(made, time_millis=made.time_millis + 1).has_mark(made.mark)
    assert made.mark == int(float(made.mark))  # exact in JSON readers with 53 bits


@pytest.mark.parametrize("text", ["short", "long " * 10_000])
def test_a_caller_that_changes_properties_changes_no_snapshot_that_is_read_later(text: str) -> None:
    made = replace(snapshot(1, 5), properties={"offsets": text})
    read = parse_snapshot(snapshot_json(made), "snapshot-1")
    read.properties["offsets"] = "changed"
    assert parse_snapshot(snapshot_json(made), "snapshot-1") == made
