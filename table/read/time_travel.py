"""The snapshot a read uses: time travel by scan arguments and table options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from penstock.errors import ConfigError
from penstock.table.errors import SnapshotMissing
from penstock.table.meta.snapshot import BATCH_IDENTIFIER, CommitKind, Snapshot
from penstock.table.meta.snapshot_times import snapshot_at
from penstock.table.meta.store import TableStore
from penstock.table.meta.tag_files import TagFiles
from penstock.table.options.changelogs import FULL_COMPACTION_DELTA_COMMITS
from penstock.table.options.scans import (
    INCREMENTAL_BETWEEN,
    POINT_KEYS,
    RANGE_KEYS,
    SCAN_FILE_CREATION_TIME_MILLIS,
    SCAN_MODE,
    SCAN_SNAPSHOT_ID,
    SCAN_TAG_NAME,
    SCAN_TIMESTAMP,
    SCAN_TIMESTAMP_MILLIS,
    SCAN_VERSION,
    SCAN_WATERMARK,
)
from penstock.table.options.table_options import TableOptions
from penstock.table.values.arguments import epoch_millis, optional_whole_number


@dataclass(frozen=True, slots=True)
class ReadPoint:
    """The point in time that the arguments of a scan name: at most one of snapshot, tag and timestamp, and a mode."""

    snapshot: int | None = None
    tag: str | None = None
    timestamp: int | str | datetime | None = None
    mode: str | None = None

    @property
    def is_named(self) -> bool:
        return any(point is not None for point in (self.snapshot, self.tag, self.timestamp))

    def refuse_second(self, options: Mapping[str, str]) -> None:
        """Raise ConfigError if the options of the scan name another point or mode."""
        named = sorted(options.keys() & (POINT_KEYS | RANGE_KEYS))
        if named and self.is_named:
            raise ConfigError(
                "a scan reads one snapshot, tag, timestamp or watermark", option=named[0], hint="set only one of them"
            )
        mode = self.mode
        if mode is not None and options.get(SCAN_MODE.key, mode) != mode:
            raise ConfigError(f"two modes are named, {mode} and {options[SCAN_MODE.key]}", hint="set only one of them")


NEWEST = ReadPoint()


@dataclass(frozen=True, slots=True)
class Travel:
    """The single point in time named by scan arguments and options; all fields None for the newest snapshot."""

    mode: str = "default"
    snapshot: int | None = None
    tag: str | None = None
    millis: int | None = None
    watermark: int | None = None
    created_after: int | None = None

    @property
    def travels(self) -> bool:
        """Return whether the scan names a snapshot rather than reading the newest."""
        return any(point is not None for point in (self.snapshot, self.tag, self.millis, self.watermark))

    @classmethod
    def of(cls, options: Mapping[str, str], point: ReadPoint = NEWEST) -> Travel:
        """Build from the options and the arguments of a scan, which take precedence.

        ConfigError when they contradict each other.
        """
        snapshot = optional_whole_number(point.snapshot, "snapshot")
        read = TableOptions(options)
        # Arguments of a scan override the table's scan.mode.
        mode = "default" if point.mode is None and point.is_named else point.mode
        chosen = TableOptions({**options, **({SCAN_MODE.key: mode} if mode else {})})[SCAN_MODE]
        travel = cls(
            chosen,
            read[SCAN_SNAPSHOT_ID] if snapshot is None else snapshot,
            read[SCAN_TAG_NAME] if point.tag is None else point.tag,
            _millis(options, point.timestamp),
            read[SCAN_WATERMARK],
            read[SCAN_FILE_CREATION_TIME_MILLIS],
        )
        named = [value for value in (travel.snapshot, travel.tag, travel.millis, travel.watermark) if value is not None]
        version = read[SCAN_VERSION]
        if len(named) + (version is not None) > 1:
            raise ConfigError("a scan reads one snapshot, tag, timestamp or watermark", hint="set only one of them")
        _check_mode(travel, options)
        return cls._versioned(travel, version)

    @staticmethod
    def _versioned(travel: Travel, version: str | None) -> Travel:
        # Whether the version is a tag or a snapshot id is decided in `resolve`, which can look the tag up.
        return travel if version is None else Travel(travel.mode, tag=f"{_VERSION}{version}")


_VERSION = "version:"
_WATERMARK = "watermark-"
_POINTS = ("snapshot", "tag", "millis", "watermark", "created_after")
# The points each mode accepts. `default` accepts any point; modes that are not listed accept no point.
_STANDS_ON = {
    "from-timestamp": ("millis",),
    "from-snapshot": ("snapshot", "tag", "watermark"),
    "from-snapshot-full": ("snapshot", "tag", "watermark"),
    "from-file-creation-time": ("created_after",),
}
_OPTION = {
    "snapshot": SCAN_SNAPSHOT_ID.key,
    "tag": SCAN_TAG_NAME.key,
    "millis": SCAN_TIMESTAMP_MILLIS.key,
    "watermark": SCAN_WATERMARK.key,
    "created_after": SCAN_FILE_CREATION_TIME_MILLIS.key,
    "between": INCREMENTAL_BETWEEN.key,
}


def _check_mode(travel: Travel, options: Mapping[str, str]) -> None:
    """Raise ConfigError when a mode lacks the point it needs, or is combined with a point it ignores."""
    if travel.mode == "default":
        return
    points = {point for point in _POINTS if getattr(travel, point) is not None}
    if SCAN_VERSION.key in options:
        points.add("snapshot")
    if options.keys() & RANGE_KEYS:
        points.add("between")
    wanted = ("between",) if travel.mode == "incremental" else _STANDS_ON.get(travel.mode, ())
    if wanted and not points & set(wanted):
        hint = f"set {' or '.join(_OPTION[point] for point in wanted)}"
        raise ConfigError(f"scan.mode {travel.mode} needs a snapshot, tag or time to start from", hint=hint)
    for point in sorted(points - set(wanted)):
        raise ConfigError(
            f"scan.mode {travel.mode} and {_OPTION[point]} contradict each other", hint="remove one of the two"
        )


def _millis(options: Mapping[str, str], timestamp: int | str | datetime | None) -> int | None:
    if timestamp is not None:
        return epoch_millis(timestamp, "timestamp")
    text = TableOptions(options)[SCAN_TIMESTAMP]
    if text is not None:
        try:
            return int(datetime.fromisoformat(text).timestamp() * 1000)
        except ValueError as reason:
            raise ConfigError(f"{text!r} is not a point in time", hint="write it as 2026-01-31 12:00:00") from reason
    return TableOptions(options)[SCAN_TIMESTAMP_MILLIS]


def resolve(store: TableStore, travel: Travel) -> Snapshot | None:
    """Return the snapshot to read, None when the table has none.

    SnapshotMissing or TagMissing when the named one does not exist.
    """
    if travel.snapshot is not None:
        return store.snapshots.get(travel.snapshot)
    if travel.tag is not None:
        return _tagged(store, travel.tag)
    if travel.millis is not None:
        return _at(store, travel.millis)
    if travel.watermark is not None:
        return _past_watermark(store, travel.watermark)
    if travel.mode == "compacted-full":
        return _compacted(store)
    return store.snapshots.latest()


def _compacted(store: TableStore) -> Snapshot | None:
    """Return the newest compaction, for scan mode `compacted-full`.

    Like Paimon's Java client, it returns only full compactions if these run every few commits
    (`full-compaction.delta-commits`). A table that was never compacted is read at its newest snapshot.
    """
    every = store.schema().typed.get(FULL_COMPACTION_DELTA_COMMITS, 1)
    for snapshot in store.snapshots.newest_first():
        identifier = snapshot.commit_identifier
        if snapshot.commit_kind is CommitKind.COMPACT and (identifier == BATCH_IDENTIFIER or identifier % every == 0):
            return snapshot
    return store.snapshots.latest()


def _tagged(store: TableStore, name: str) -> Snapshot:
    tags = TagFiles(store.storage, store.paths.root, store.paths.branch)
    if not name.startswith(_VERSION):
        return tags.get(name).snapshot
    version = name.removeprefix(_VERSION)
    # As in Java, a tag is looked for first: its name may consist of digits.
    tag = tags.find(version)
    if tag is not None:
        return tag.snapshot
    if version.isdecimal():
        return store.snapshots.get(int(version))
    watermark = version.removeprefix(_WATERMARK)
    if version.startswith(_WATERMARK) and watermark.isdecimal():
        return _past_watermark(store, int(watermark))
    return tags.get(version).snapshot


def _at(store: TableStore, millis: int) -> Snapshot:
    snapshot = snapshot_at(store.snapshots, millis)
    if snapshot is None:
        first = store.snapshots.earliest_id()
        earliest = None if first is None else store.snapshots.find(first)
        raise SnapshotMissing(
            f"there is no snapshot as old as {_moment(millis)}",
            table=store.name,
            earliest=earliest and f"snapshot {earliest.id} of {_moment(earliest.time_millis)}",
            hint="read a later point in time, or a tag",
        )
    return snapshot


def _moment(millis: int) -> str:
    """Return the time as text with its zone; the number itself if it is no time of a calendar."""
    try:
        return datetime.fromtimestamp(millis / 1000, UTC).isoformat(sep=" ", timespec="milliseconds")
    except (OverflowError, ValueError, OSError):
        return str(millis)


def _past_watermark(store: TableStore, watermark: int) -> Snapshot:
    # Oldest first: the watermark of a table never goes back, so this is the first snapshot that has reached it.
    for snapshot_id in store.snapshots.ids():
        snapshot = store.snapshots.find(snapshot_id)
        if snapshot is not None and snapshot.watermark is not None and snapshot.watermark >= watermark:
            return snapshot
    raise SnapshotMissing(
        f"no snapshot has reached watermark {watermark}",
        table=store.name,
        hint="SELECT snapshot_id, watermark FROM TABLE$snapshots  lists the watermarks",
    )
