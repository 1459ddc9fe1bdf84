"""Marking partitions as complete, by the actions of the table option `partition.mark-done-action`."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from penstock.errors import ConfigError, SourceError
from penstock.http_opener import limited_opener
from penstock.json_answers import CONNECTION_ERRORS, answer_bytes, expected, parsed_answer
from penstock.table.buckets.layout import Layout
from penstock.table.maintenance.partition_times import PartitionTimes
from penstock.table.meta.entries import FileKind
from penstock.table.meta.live import delta_entries, live_entries
from penstock.table.meta.snapshot import CommitKind, Snapshot
from penstock.table.meta.store import TableStore
from penstock.table.operations.selection import Selection
from penstock.table.options.kinds import NAMES
from penstock.table.options.partitions import (
    PARTITION_END_INPUT_TO_DONE,
    PARTITION_IDLE_TIME_TO_DONE,
    PARTITION_MARK_DONE_ACTION,
    PARTITION_MARK_DONE_ACTION_HTTP_PARAMS,
    PARTITION_MARK_DONE_ACTION_HTTP_TIMEOUT,
    PARTITION_MARK_DONE_ACTION_HTTP_URL,
    PARTITION_MARK_DONE_ACTION_MODE,
    PARTITION_TIME_INTERVAL,
)
from penstock.table.options.table_options import TableOptions
from penstock.table.schema.json_file import pretty_json


@dataclass(frozen=True, slots=True)
class SuccessFile:
    """The creation and modification time in a success file, in epoch milliseconds."""

    created: int
    changed: int


def read_success(store: TableStore, path: str) -> SuccessFile | None:
    """Return the times in the success file; None when it does not exist or is incomplete."""
    try:
        found = json.loads(store.storage.read(path))
        return SuccessFile(int(found["creationTime"]), int(found["modificationTime"]))
    except (FileNotFoundError, KeyError, TypeError, ValueError):
        return None


def write_success(store: TableStore, path: str) -> None:
    """Write a success file. An existing one keeps its creation time."""
    now, made = store.ambient.now_millis(), read_success(store, path)
    times = {"creationTime": made.created if made is not None else now, "modificationTime": now}
    store.storage.write(path, pretty_json(times))


SUCCESS = "_SUCCESS"
ACTIONS = ("success-file", "http-report")
NEEDS_A_METASTORE = ("done-partition", "mark-event")
MOST_AT_ONCE = 100
_TIMEOUT = 5_000


@dataclass(frozen=True, slots=True)
class DoneRule:
    """The rule when a partition is done.

    Its time (`interval` long) must be over, and `idle` must have passed after that and after its last rows.
    """

    interval: int
    idle: int
    by_watermark: bool
    times: PartitionTimes

    @classmethod
    def of(cls, values: Mapping[str, str]) -> DoneRule | None:
        """Build from the options of a table; None when they mark no partitions over time."""
        options = TableOptions(values)
        idle = options[PARTITION_IDLE_TIME_TO_DONE]
        interval = options[PARTITION_TIME_INTERVAL]
        if idle is None or interval is None:
            return None
        mode = options[PARTITION_MARK_DONE_ACTION_MODE]
        return cls(interval, idle, mode == "watermark", PartitionTimes.of(values))


def mark_partitions_done(store: TableStore, partitions: Sequence[Mapping[str, object]]) -> list[dict[str, object]]:
    """Run the table's actions for each partition that matches one of the specs; return their values as text.

    Called again, a success file keeps its creation time and gets a new modification time. ConfigError when no
    partition matches.
    """
    latest = store.snapshots.latest()
    entries = live_entries(store, latest) if latest is not None else []
    found = sorted(Selection(partitions).partitions_of(store, entries)) if partitions else []
    if not found:
        raise ConfigError(
            "no partition with these values has rows",
            table=store.name,
            partitions=str(list(partitions)),
            hint="SHOW PARTITIONS  lists the partitions with rows",
        )
    return _mark(store, found)


def watermark_time(store: TableStore) -> int | None:
    """Return the newest snapshot's watermark as local time."""
    latest = store.snapshots.latest()
    return None if latest is None or latest.watermark is None else _local(store, latest.watermark)


def _local(store: TableStore, millis: int) -> int:
    return millis + store.ambient.zone_offset_millis(millis)


def mark_due(
    store: TableStore,
    since: int | None = None,
    since_watermark: int | None = None,
    since_snapshot: int | None = None,
) -> list[dict[str, object]]:
    """Mark the partitions that became done since the wall-clock time `since`; return their values as text.

    When `since` is None, only the newest MOST_AT_ONCE done partitions are considered, and those without a mark are
    marked. If watermarks decide and partitions get no success file, the partitions are marked that became done since
    the watermark `since_watermark`, or got rows since `since`. Done partitions with rows of snapshots after
    `since_snapshot` are marked too: their files may be older than `since`.
    """
    rule, latest = DoneRule.of(store.schema().options), store.snapshots.latest()
    if rule is None or latest is None:
        return []
    layout, updated = Layout.of(store.schema()), dict[bytes, int]()
    for entry in live_entries(store, latest):
        updated[entry.partition] = max(updated.get(entry.partition, 0), entry.file.creation_millis or 0)
    now = store.ambient.local_millis()
    if rule.by_watermark:
        if latest.watermark is None:
            return []
        now = _local(store, latest.watermark)
    done: dict[bytes, int] = {}
    for partition, last in updated.items():
        begin = rule.times.of_partition(layout, partition)
        if begin is not None:
            end = begin + rule.interval
            # By watermark, `now` is a time of events, which cannot be compared with the time when rows were
            # written.
            done[partition] = (end if rule.by_watermark else max(end, last)) + rule.idle
    due = sorted((at, partition) for partition, at in done.items() if at < now)
    changed = {} if since_snapshot is None else _changed_after(store, since_snapshot, latest)
    if rule.by_watermark and since_watermark is not None and "success-file" not in _actions(store):
        changed |= {partition: last for partition, last in updated.items() if since is not None and last >= since}
        chosen = [partition for at, partition in due if at >= since_watermark or partition in changed]
    elif since is None or rule.by_watermark:
        newest = {partition for _, partition in due[-MOST_AT_ONCE:]} | changed.keys()
        # Rows that arrived after the mark make it out of date.
        chosen = [
            partition
            for _, partition in due
            if partition in newest
            and _marked_at(store, layout, partition) < max(updated[partition], changed.get(partition, 0))
        ]
    else:
        chosen = [partition for at, partition in due if at >= since or partition in changed]
    return _mark(store, chosen) if chosen else []


def _changed_after(store: TableStore, number: int, latest: Snapshot) -> dict[bytes, int]:
    """Return the partitions that got rows by snapshots after this one, with the local time of the last such commit.

    Files are older than the commit of their rows.
    """
    found = (store.snapshots.find(later) for later in range(number + 1, latest.id + 1))
    return {
        entry.partition: _local(store, snapshot.time_millis)
        for snapshot in found
        if snapshot is not None and snapshot.commit_kind is not CommitKind.COMPACT
        for entry in delta_entries(store, snapshot)
        if entry.kind is FileKind.ADD
    }


def mark_written(store: TableStore, snapshot: Snapshot) -> list[dict[str, object]]:
    """Mark the partitions that a batch commit wrote (`partition.end-input-to-done`)."""
    if not store.schema().typed[PARTITION_END_INPUT_TO_DONE]:
        return []
    return _mark(store, sorted({entry.partition for entry in delta_entries(store, snapshot)}))


def _mark(store: TableStore, partitions: Iterable[bytes]) -> list[dict[str, object]]:
    layout, actions = Layout.of(store.schema()), _actions(store)
    marked: list[dict[str, object]] = []
    for partition in partitions:
        if "success-file" in actions:
            write_success(store, _success_path(store, layout, partition))
        if "http-report" in actions:
            _report(store, layout, partition)
        marked.append(dict(PartitionTimes.texts(layout, partition)))
    return marked


def _actions(store: TableStore) -> Collection[str]:
    # As it is written: another engine may have set an action that is refused here.
    text = store.schema().typed.text(PARTITION_MARK_DONE_ACTION) or ""
    named = set(NAMES.parse(text.lower())) or {"success-file"}
    for name in sorted(named):
        if name in NEEDS_A_METASTORE:
            raise ConfigError(
                f"{name} notifies a metastore, and tables of a file-system catalog have none",
                table=store.name,
                hint="leave it out of partition.mark-done-action, or keep the table in a catalog with metastore = hive",
            )
        if name not in ACTIONS:
            raise ConfigError(f"partitions cannot be marked as done by {name!r}", hint=f"choose {', '.join(ACTIONS)}")
    return named


def _success_path(store: TableStore, layout: Layout, partition: bytes) -> str:
    return f"{store.paths.data_root}/{layout.partition_dir(partition)}/{SUCCESS}"


def _marked_at(store: TableStore, layout: Layout, partition: bytes) -> int:
    """Return the wall-clock time in the partition's success file; 0 without one."""
    made = read_success(store, _success_path(store, layout, partition))
    return 0 if made is None else _local(store, made.changed)


def _report(store: TableStore, layout: Layout, partition: bytes) -> None:
    """Post the same report as Paimon; the response must contain `{"result": "SUCCESS"}`."""
    options = store.schema().typed
    url = options[PARTITION_MARK_DONE_ACTION_HTTP_URL]
    if url is None or not url.startswith(("http://", "https://")):
        raise ConfigError(
            "the URL to report done partitions to is not set", hint="set partition.mark-done-action.http.url"
        )
    body = {
        "partition": f"{layout.partition_dir(partition)}/",
        "table": store.name,
        "path": store.paths.root,
        "params": options[PARTITION_MARK_DONE_ACTION_HTTP_PARAMS],
    }
    request = urllib.request.Request(  # noqa: S310 -- the scheme is checked above
        url, json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    timeout = options.get(PARTITION_MARK_DONE_ACTION_HTTP_TIMEOUT, _TIMEOUT) / 1000
    try:
        with limited_opener().open(request, timeout=timeout) as answer:
            reply = expected(parsed_answer(answer_bytes(answer)), dict, "the answer")
    except CONNECTION_ERRORS as reason:
        raise SourceError(
            f"a done partition could not be reported: {reason}",
            url=url,
            hint="check partition.mark-done-action.http.url, and that its server runs",
            retryable=True,
        ) from reason
    if str(reply.get("result", "")).upper() != "SUCCESS":
        raise SourceError(
            f"the server answered the report of a done partition with {reply!r:.200}",
            url=url,
            hint="the server must answer with the member result = SUCCESS",
            retryable=True,
        )
