"""The times of snapshots, which do not decrease with their ids although the clocks of writers may be set back.

Java writes the time of its clock, so tables that it has written may have times that decrease.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence

from penstock.table.meta.snapshot import Snapshot
from penstock.table.meta.snapshot_files import SnapshotFiles

log = logging.getLogger(__name__)

# Clocks of machines differ by less, also when one of them shows the time of another zone. If the newest snapshot is
# further ahead, its clock was wrong, and no later snapshot should get its time: none of them would ever be old.
MOST_AHEAD = 24 * 3_600_000


def next_time(now_millis: int, latest: Snapshot | None, table: str) -> int:
    """Return the time of the snapshot after `latest`: the clock's time, but not before the time of `latest`."""
    if latest is None or latest.time_millis <= now_millis:
        return now_millis
    if latest.time_millis <= now_millis + MOST_AHEAD:
        return latest.time_millis
    log.warning(
        "event=snapshot_times_decrease table=%s snapshot=%d time=%d now=%d",
        table,
        latest.id,
        latest.time_millis,
        now_millis,
    )
    return now_millis


def oldest(snapshots: Iterable[Snapshot], is_old: Callable[[Snapshot], bool], now_millis: int) -> list[Snapshot]:
    """Return the snapshots, given oldest first, up to the first one that is not old.

    One that is more than a day ahead has the time of a clock that was wrong: it is as old as the next one.
    """
    found: list[Snapshot] = []
    undecided: list[Snapshot] = []
    for snapshot in snapshots:
        undecided.append(snapshot)
        if is_old(snapshot):
            found, undecided = found + undecided, []
        elif is_plausible(snapshot, now_millis):
            break
    return found


def plausible_times(snapshots: Sequence[Snapshot], now_millis: int) -> dict[int, int]:
    """Return the times of snapshots, given oldest first, by id; a wrong clock's time is replaced by the next.

    Without a next one it is as old as the one before.
    """
    found: dict[int, int] = {}
    known: int | None = None
    for snapshot in reversed(snapshots):
        known = snapshot.time_millis if is_plausible(snapshot, now_millis) else known
        found[snapshot.id] = snapshot.time_millis if known is None else known
    for snapshot in snapshots:
        if found[snapshot.id] <= now_millis + MOST_AHEAD:
            known = found[snapshot.id]
        elif known is not None:
            found[snapshot.id] = known
    return found


def is_plausible(snapshot: Snapshot, now_millis: int) -> bool:
    """Return whether the clock of a snapshot's writer was right, as far as can be seen."""
    return snapshot.time_millis <= now_millis + MOST_AHEAD


def snapshot_at(files: SnapshotFiles, time_millis: int) -> Snapshot | None:
    """Return the newest snapshot committed at or before this time, or None when all snapshots are later."""
    newest = files.latest()
    if newest is None or newest.time_millis <= time_millis:
        return newest
    ids = [number for number in files.ids() if number < newest.id]
    found: Snapshot | None = None
    low, high = 0, len(ids) - 1
    while low <= high:
        middle = (low + high) // 2
        place, snapshot = _in_order(files, ids[low : middle + 1], newest)
        if snapshot is not None and snapshot.time_millis > time_millis:
            high = low + place - 1
        else:  # a missing snapshot has just expired, so it is older than all others
            found = snapshot or found
            low = middle + 1
    return found


def _in_order(files: SnapshotFiles, ids: Sequence[int], newest: Snapshot) -> tuple[int, Snapshot | None]:
    """Return the last of these snapshots that is not later than the newest one, with its place.

    The others have the times of a clock that was wrong, which decide nothing.
    """
    for place in range(len(ids) - 1, -1, -1):
        snapshot = files.find(ids[place])
        if snapshot is None or snapshot.time_millis <= newest.time_millis:
            return place, snapshot
    return 0, None
