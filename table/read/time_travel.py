"""The snapshot a read uses: time travel by scan arguments and table options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from penstock.errors import ConfigError
from penstock.table.meta.errors import SnapshotMissing
from penstock.table.meta.snapshot import BATCH_IDENTIFIER, CommitKind, Snapshot
from penstock.table.meta.store import TableStore
from penstock.table.meta.tag_files import TagFiles
from penstock.table.schema.options import Options
from penstock.table.values.arguments import epoch_millis, whole_number

_MODES = (
    "default",
    "latest-full",
    "full",
    "latest",
    "compacted-full",
    "from-timestamp",
    "from-snapshot",
    "from-snapshot-full",
    "from-file-creation-time",
    "incremental",
)


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
    def of(
        cls,
        options: Mapping[str, str],
        *,
        snapshot: int | None = None,
        tag: str | None = None,
        timestamp: int | str | datetime | None = None,
        mode: str | None = None,
    ) -> Travel:
        """Build from the options and the arguments of a scan, which take precedence.

        ConfigError when they contradict each other.
        """
        if snapshot is not None:
            whole_number(snapshot, "snapshot")
        read = Options(options)
        if mode is None and any(point is not None for point in (snapshot, tag, timestamp)):
            mode = "default"  # arguments of a scan override the table's scan.mode
        chosen = Options({**options, **({"scan.mode": mode} if mode else {})}).choice("scan.mode", _MODES, "default")
        travel = cls(
            chosen,
            read.integer("scan.snapshot-id", None) if snapshot is None else snapshot,
            read.text("scan.tag-name", None) if tag is None else tag,
            _millis(options, timestamp),
            read.integer("scan.watermark", None),
            read.integer("scan.file-creation-time-millis", None),
        )
        named = [value for value in (travel.snapshot, travel.tag, travel.millis, travel.watermark) if value is not None]
        version = read.text("scan.version", None)
        if len(named) + (version is not None) > 1:
            raise ConfigError(
                "a scan stands on one snapshot, tag, timestamp or watermark", hint="give only one of them"
            )
        _check_mode(travel, options)
        return cls._versioned(travel, version)

    @staticmethod
    def _versioned(travel: Travel, version: str | None) -> Travel:
        # Whether the version is a tag or a snapshot id is decided in `resolve`, which can look the tag up.
        return travel if version is None else Travel(travel.mode, tag=f"{_VERSION}{version}")


_VERSION = "version:"
_POINTS = ("snapshot", "tag", "millis", "watermark", "created_after")
# The points each mode accepts. `default` accepts any; modes that are not listed accept none.
_STANDS_ON = {
    "from-timestamp": ("millis",),
    "from-snapshot": ("snapshot", "tag", "watermark"),
    "from-snapshot-full": ("snapshot", "tag", "watermark"),
    "from-file-creation-time": ("created_after",),
}
_OPTION = {
    "snapshot": "scan.snapshot-id",
    "tag": "scan.tag-name",
    "millis": "scan.timestamp-millis",
    "watermark": "scan.watermark",
    "created_after": "scan.file-creation-time-millis",
    "between": "incremental-between",
}


def _check_mode(travel: Travel, options: Mapping[str, str]) -> None:
    """Raise ConfigError when a mode lacks the point it needs, or is combined with a point it ignores."""
    if travel.mode == "default":
        return
    given = {point for point in _POINTS if getattr(travel, point) is not None}
    if "scan.version" in options:
        given.add("snapshot")
    if options.keys() & {"incremental-between", "incremental-between-timestamp"}:
        given.add("between")
    wanted = ("between",) if travel.mode == "incremental" else _STANDS_ON.get(travel.mode, ())
    if wanted and not given & set(wanted):
        hint = f"set {' or '.join(_OPTION[point] for point in wanted)}"
        raise ConfigError(f"scan.mode {travel.mode} needs a point to start from", hint=hint)
    for point in sorted(given - set(wanted)):
        raise ConfigError(
            f"scan.mode {travel.mode} and {_OPTION[point]} contradict each other", hint="leave one of the two out"
        )


def _millis(options: Mapping[str, str], timestamp: int | str | datetime | None) -> int | None:
    if timestamp is not None:
        return epoch_millis(timestamp, "timestamp")
    text = options.get("scan.timestamp")
    if text is not None:
        try:
            return int(datetime.fromisoformat(text).timestamp() * 1000)
        except ValueError as reason:
            raise ConfigError(f"{text!r} is not a point in time", hint="write it as 2026-01-31 12:00:00") from reason
    return Options(options).integer("scan.timestamp-millis", None)


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
    every = Options(store.schema().options).integer("full-compaction.delta-commits", 1)
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
    tag = tags.find(version)
    if tag is not None:
        return tag.snapshot
    if version.isdigit():
        return store.snapshots.get(int(version))
    return tags.get(version).snapshot


def _at(store: TableStore, millis: int) -> Snapshot:
    snapshot = store.snapshots.by_time(millis)
    if snapshot is None:
        earliest = store.snapshots.earliest_id()
        raise SnapshotMissing(
            f"there is no snapshot as old as {millis}",
            table=store.name,
            earliest=earliest,
            hint="read a later point in time, or a tag",
        )
    return snapshot


def _past_watermark(store: TableStore, watermark: int) -> Snapshot:
    for snapshot_id in store.snapshots.ids():
        snapshot = store.snapshots.find(snapshot_id)
        if snapshot is not None and snapshot.watermark is not None and snapshot.watermark >= watermark:
            return snapshot
    raise SnapshotMissing(f"no snapshot has reached watermark {watermark}", table=store.name)
