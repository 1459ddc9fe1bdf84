"""Automatic tags (`tag.automatic-creation`): one per period that has ended, by the clock or by the watermark."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, timedelta
from typing import Self
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from penstock.errors import ConfigError
from penstock.table.commit.committer import Committer
from penstock.table.errors import SnapshotMissing
from penstock.table.maintenance.tag_deletion import delete_tags
from penstock.table.maintenance.tags import create_tag, tag_files
from penstock.table.meta.snapshot import Snapshot
from penstock.table.meta.snapshot_times import MOST_AHEAD
from penstock.table.meta.store import TableStore
from penstock.table.meta.tag_periods import EPOCH, TagPeriod
from penstock.table.options.partitions import (
    SINK_PROCESS_TIME_ZONE,
    SINK_WATERMARK_TIME_ZONE,
    TAG_AUTOMATIC_COMPLETION,
    TAG_AUTOMATIC_CREATION,
    TAG_BATCH_CUSTOMIZED_NAME,
    TAG_NUM_RETAINED_MAX,
)
from penstock.table.options.table_options import TableOptions
from penstock.table.schema.table_schema import TableSchema

log = logging.getLogger(__name__)
_FURTHEST_ZONE = 14 * 3_600_000  # no zone is further ahead of UTC

Clock = Callable[[Snapshot], int | None]
NewestTag = tuple[int | None, int]


@dataclass(frozen=True, slots=True)
class AutomaticTags:
    """The automatic tags of a table.

    `clock` returns the local time of a snapshot. Only the newest `most` tags are kept. No right clock is beyond the
    local time `latest`.
    """

    store: TableStore
    period: TagPeriod
    clock: Clock
    completes: bool
    most: int | None
    latest: int | None = None

    @classmethod
    def of(cls, store: TableStore, schema: TableSchema | None = None) -> Self | None:
        """Build from the options of the table; None when they ask for no tags over time.

        `schema` is the newest one, if it has just been read.
        """
        options = (schema or store.schema()).typed
        latest: int | None = None
        match mode_of(options.texts):
            case "process-time":
                latest = store.ambient.now_millis() + MOST_AHEAD + _FURTHEST_ZONE
                clock = _process_time(store, options[SINK_PROCESS_TIME_ZONE])
            case "watermark":
                clock = _watermark(options[SINK_WATERMARK_TIME_ZONE])
            case _:
                return None
        return cls(
            store,
            TagPeriod.of(options.texts),
            clock,
            options[TAG_AUTOMATIC_COMPLETION],
            options[TAG_NUM_RETAINED_MAX],
            latest,
        )

    def create_due(self, newest: NewestTag | None = None) -> list[str]:
        """Tag the first snapshot of each period that is due; return the names of new tags.

        Snapshot times do not decrease, so if the newest snapshot is not due, no other is, and the round reads one file.
        A further call continues after the newest automatic tag. Other tags are never touched. `newest` is the result of
        `newest`, if it has just been called.
        """
        made: list[str] = []
        last, following = newest or self.newest()
        latest = self.store.snapshots.latest()
        if latest is None or not self._is_due(latest, last):
            return made
        for snapshot in self._from(following, latest):
            if (time := self.clock(snapshot)) is None or not self._is_due(snapshot, last):
                continue
            completed = self.completes and last is not None
            # With completion each period gets a tag, also one without a commit. Otherwise only the newest one that
            # has ended gets it.
            begin = self.period.after(last) if completed and last is not None else self.period.before(time)
            if self._tag(self.period.name(begin), snapshot):
                made.append(self.period.name(begin))
            last = begin
            self._keep_most()
        if made and (ahead := self._ahead()):
            note = "a clock that was wrong made these tags: delete them, since no count or time removes them"
            log.warning("event=automatic_tags_ahead table=%s tags=%s note=%s", self.store.name, ",".join(ahead), note)
        return made

    def snapshot_is_wanted(self, newest: NewestTag | None) -> bool:
        """Return whether a tag by the clock is due for which an idle table has no snapshot.

        An empty snapshot committed now would get that tag.
        """
        latest = self.store.snapshots.latest()
        if mode_of(self.store.schema().options) != "process-time" or latest is None:
            return False
        # As if the newest snapshot were committed now: is a tag due for it that is not due for the real one?
        now = replace(latest, time_millis=self.store.ambient.now_millis())
        last, _ = newest or self.newest()
        return last is not None and self._is_due(now, last) and not self._is_due(latest, last)

    def _is_due(self, snapshot: Snapshot, last: int | None) -> bool:
        """Return whether a tag is due at this snapshot.

        The first tag is due at once, any other when the period after the last tag's period has ended.
        """
        time = self.clock(snapshot)
        if self._is_ahead(time):
            return False
        if time is None or last is None:
            return time is not None
        return time - self.period.delay >= self.period.after(self.period.after(last))

    def newest(self) -> NewestTag:
        """Return the begin of the newest automatic tag's period (or None), and the first snapshot id after it.

        It reads all tags.
        """
        found = self._automatic()
        if not found:
            return None, self.store.snapshots.earliest_id() or 1
        newest = max(snapshot_id for snapshot_id, _, _ in found)
        return max(begin for snapshot_id, begin, _ in found if snapshot_id == newest), newest + 1

    def _automatic(self) -> list[tuple[int, int, str]]:
        tags = ((tag.snapshot.id, self.period.begin(tag.name), tag.name) for tag in tag_files(self.store).all())
        return sorted(
            (number, begin, name) for number, begin, name in tags if begin is not None and not self._is_ahead(begin)
        )

    def _ahead(self) -> list[str]:
        """Return the automatic tags of periods that have not begun yet."""
        begins = {tag.name: self.period.begin(tag.name) for tag in tag_files(self.store).all()}
        return [name for name, begin in begins.items() if begin is not None and self._is_ahead(begin)]

    def _is_ahead(self, time: int | None) -> bool:
        """Return whether a local time comes from a clock that was wrong: no tag would be due after it for long."""
        return time is not None and self.latest is not None and time > self.latest

    def _from(self, first: int, latest: Snapshot) -> Iterator[Snapshot]:
        """Yield the snapshots from `first` on; expired ones are skipped."""
        for number in range(max(first, self.store.snapshots.earliest_id() or 1), latest.id + 1):
            snapshot = self.store.snapshots.find(number)
            if snapshot is not None:
                yield snapshot

    def _tag(self, name: str, snapshot: Snapshot) -> bool:
        if tag_files(self.store).find(name) is not None:
            return False
        try:
            create_tag(self.store, name, snapshot.id)
        except (ConfigError, SnapshotMissing):  # another round was faster, or the snapshot has just expired
            return False
        return True

    def _keep_most(self) -> None:
        found = self._automatic() if self.most is not None else []
        # Tags of the same snapshot count once.
        snapshots = sorted({number for number, _, _ in found})
        over = set(snapshots[: max(0, len(snapshots) - (self.most or 0))])
        delete_tags(self.store, [name for number, _, name in found if number in over])


def mode_of(values: Mapping[str, str]) -> str:
    """Return the table's mode of automatic tags, one of the choices of TAG_AUTOMATIC_CREATION."""
    return TableOptions(values)[TAG_AUTOMATIC_CREATION]


def create_batch_tag(store: TableStore) -> str | None:
    """Move the tag of a batch job (`tag.automatic-creation` = batch) to the newest snapshot.

    Then only the newest `tag.num-retained-max` of all tags are kept. Returns the tag's name; None when the table has no
    snapshot or no such option.
    """
    options, snapshot = store.schema().typed, store.snapshots.latest()
    if mode_of(options.texts) != "batch" or snapshot is None:
        return None
    local = snapshot.time_millis + store.ambient.zone_offset_millis(snapshot.time_millis)
    day = (EPOCH + timedelta(milliseconds=local)).strftime("%Y-%m-%d")
    name = options[TAG_BATCH_CUSTOMIZED_NAME] or f"batch-write-{day}"
    delete_tags(store, [name])
    create_tag(store, name, snapshot.id)
    most = options[TAG_NUM_RETAINED_MAX]
    kept = tag_files(store).all()
    delete_tags(store, [tag.name for tag in kept[: max(0, len(kept) - most)]] if most is not None else [])
    return name


def create_idle_snapshot(store: TableStore) -> Snapshot | None:
    """Commit an empty snapshot, so that an idle table has a snapshot for the tag that is due."""
    committer = Committer(store, store.new_commit_user())
    return committer.commit((), force_empty=True).last


def _process_time(store: TableStore, zone: str | None) -> Clock:
    """Return a clock in the named time zone; without a name, in the time zone of the machine."""
    if zone is not None:
        place = _zone(zone, "sink.process-time-zone")
        return lambda snapshot: _seen(snapshot.time_millis, place)
    offset = store.ambient.zone_offset_millis
    return lambda snapshot: snapshot.time_millis + offset(snapshot.time_millis)


def _watermark(zone: str) -> Clock:
    place = _zone(zone, "sink.watermark-time-zone")
    return lambda snapshot: None if snapshot.watermark is None else _seen(snapshot.watermark, place)


def _zone(name: str, option: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError) as reason:
        raise ConfigError(f"{name!r} is not a time zone", option=option, hint="write it as Asia/Shanghai") from reason


def _seen(millis: int, place: ZoneInfo) -> int | None:
    """Return a time as the clocks of that zone show it, encoded as if it were UTC.

    None when it is outside the calendar.
    """
    try:
        at = EPOCH + timedelta(milliseconds=millis)
    except OverflowError:  # sources mark the end of their stream with the greatest number as watermark
        return None
    seen = at.astimezone(place).replace(tzinfo=UTC)
    return (seen - EPOCH) // timedelta(milliseconds=1)
