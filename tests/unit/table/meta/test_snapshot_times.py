"""Snapshots by time, also where the clock of a writer was set back or ran ahead."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.table.handle import Table
from penstock.table.maintenance.snapshot_expiry import expire_snapshots
from penstock.table.meta.snapshot import Snapshot
from penstock.table.meta.snapshot_files import SnapshotFiles
from penstock.table.meta.snapshot_times import oldest, snapshot_at
from tests.unit.storage.memory_store import MemoryStore
from tests.unit.table.meta.test_snapshot_files import snapshot
from tests.unit.table.tables import new_table, rows

HOUR = 3_600_000
NOON = 1_800_000_000_000


def files_with(*times: int) -> SnapshotFiles:
    files = SnapshotFiles(MemoryStore(), "/t")
    for number, time in enumerate(times, 1):
        assert files.create(snapshot(number, time))
    return files


@pytest.mark.parametrize(("time", "wanted"), [(0, None), (1, 1), (2, 1), (3, 2), (4, 3), (9, 3)])
def test_the_newest_snapshot_at_or_before_a_time(time: int, wanted: int | None) -> None:
    found = snapshot_at(files_with(1, 3, 4), time)
    assert (found.id if found else None) == wanted


def test_a_table_without_snapshots_has_none_at_any_time() -> None:
    assert snapshot_at(files_with(), 10**15) is None


@pytest.mark.parametrize("wrong", range(1, 8))
@pytest.mark.parametrize("count", [1, 2])
def test_snapshots_of_a_clock_that_ran_ahead_decide_nothing(wrong: int, count: int) -> None:
    times = [1000 * number for number in range(1, 10)]
    times[wrong - 1 : wrong - 1 + count] = [10**9] * count
    files = files_with(*times)
    for at in range(500, 10_000, 500):
        wanted = max((number for number, time in enumerate(times, 1) if time <= at), default=None)
        found = snapshot_at(files, at)
        assert (found.id if found else None) == wanted, at


def test_after_a_clock_was_set_back_the_newest_snapshot_is_found() -> None:
    found = snapshot_at(files_with(11 * HOUR, 10 * HOUR), 10 * HOUR + 1)
    assert found is not None
    assert found.id == 2


def committed(table: Table, *clock: int) -> Table:
    """Return the table after a commit at each of these times of the writer's clock."""
    for number, time in enumerate(clock):
        at = Table(replace(table.store, ambient=replace(table.store.ambient, now_millis=lambda time=time: time)))
        with at.writer() as writer:
            writer.write(rows(table, (number, "x", None)))
            writer.commit()
    return table


def test_times_do_not_decrease_when_a_clock_is_set_back(tmp_path: Path) -> None:
    """What the table was at a time does not change, and no snapshot expires early."""
    table = committed(new_table(tmp_path, options={"write-only": "true"}), NOON, NOON - HOUR, NOON - 1, NOON + 1)
    assert [snapshot.time_millis for snapshot in table.snapshots] == [NOON, NOON, NOON, NOON + 1]
    assert table.scan(timestamp=NOON).to_arrow().num_rows == 3


def test_a_clock_that_ran_far_ahead_is_not_followed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    later = NOON + 300 * 24 * HOUR
    table = new_table(tmp_path, options={"write-only": "true"})
    with caplog.at_level(logging.WARNING):
        committed(table, NOON, later, NOON + HOUR, NOON + 2 * HOUR)
    assert [snapshot.time_millis for snapshot in table.snapshots] == [NOON, later, NOON + HOUR, NOON + 2 * HOUR]
    assert [record.getMessage() for record in caplog.records] == [
        f"event=snapshot_times_decrease table=shop.orders snapshot=2 time={later} now={NOON + HOUR}"
    ]
    assert table.scan(timestamp=NOON + HOUR).to_arrow().num_rows == 3


def test_snapshots_of_a_clock_that_ran_ahead_expire_with_the_next_ones(tmp_path: Path) -> None:
    """One of them kept all later ones from expiring by age."""
    later = NOON + 300 * 24 * HOUR
    table = committed(new_table(tmp_path, options={"write-only": "true"}), NOON, later, *[NOON + 1] * 3)
    kept = {"retain_min": 1, "retain_max": 100, "protect_users": 0}

    def ids(cutoff: int) -> list[int]:
        expire_snapshots(table.store, older_than=cutoff, **kept)
        return table.store.snapshots.ids()

    assert ids(NOON + 1) == [2, 3, 4, 5]
    assert ids(NOON + 2) == [5]


@pytest.mark.parametrize(
    ("hours", "wanted"),
    [
        ((-3, -2, 0), 2),
        # Of a writer of Java whose clock is two hours behind: what Penstock wrote before is minutes old.
        ((0, 0, -2, -2), 0),
        ((-3, 0, -2), 1),
        ((-3, 300, -2, 0), 3),
        ((-3, 300, 300, 0), 1),
        ((-3, 20, -2), 1),
    ],
)
def test_snapshots_expire_up_to_one_that_is_not_old(hours: tuple[int, ...], wanted: int) -> None:
    found = [snapshot(number, NOON + hour * HOUR) for number, hour in enumerate(hours, 1)]

    def is_old(snapshot: Snapshot) -> bool:
        return snapshot.time_millis < NOON - HOUR

    assert oldest(found, is_old, NOON) == found[:wanted]
