"""System tables that describe a table: snapshots, schemas, options, tags, branches, consumers, statistics."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

import pyarrow as pa

from penstock.errors import TableCorrupt
from penstock.table.meta.consumer_files import ConsumerFiles
from penstock.table.meta.snapshot import Snapshot
from penstock.table.meta.store import TableStore, branch_names
from penstock.table.meta.tag_files import Tag, TagFiles
from penstock.table.schema.json_file import JsonFile
from penstock.table.values.types import field_json

TIMESTAMP = pa.timestamp("ms")


def table_of(columns: Sequence[tuple[str, pa.DataType]], rows: Iterable[Sequence[object]]) -> pa.Table:
    """Build an Arrow table from rows."""
    listed = list(rows)
    arrays = [pa.array([row[place] for row in listed], type_) for place, (_, type_) in enumerate(columns)]
    return pa.Table.from_arrays(arrays, names=[name for name, _ in columns])


def local(store: TableStore, millis: int | None) -> int | None:
    """Return the time by the local wall clock: system tables show times that way, as in Java."""
    return None if millis is None else millis + store.ambient.zone_offset_millis(millis)


def snapshots(store: TableStore) -> pa.Table:
    """Return `snapshots`: the snapshots that have not expired."""
    columns = [
        ("snapshot_id", pa.int64()),
        ("schema_id", pa.int64()),
        ("commit_user", pa.string()),
        ("commit_identifier", pa.int64()),
        ("commit_kind", pa.string()),
        ("commit_time", TIMESTAMP),
        ("base_manifest_list", pa.string()),
        ("delta_manifest_list", pa.string()),
        ("changelog_manifest_list", pa.string()),
        ("total_record_count", pa.int64()),
        ("delta_record_count", pa.int64()),
        ("changelog_record_count", pa.int64()),
        ("watermark", pa.int64()),
    ]
    # A snapshot may have expired since its id was listed.
    found = store.snapshots.find_all(store.snapshots.ids())
    return table_of(columns, (_snapshot_row(store, snapshot) for snapshot in found))


def _snapshot_row(store: TableStore, snapshot: Snapshot) -> Sequence[object]:
    return (
        snapshot.id,
        snapshot.schema_id,
        snapshot.commit_user,
        snapshot.commit_identifier,
        str(snapshot.commit_kind),
        local(store, snapshot.time_millis),
        snapshot.base_manifest_list,
        snapshot.delta_manifest_list,
        snapshot.changelog_manifest_list,
        snapshot.total_record_count,
        snapshot.delta_record_count,
        snapshot.changelog_record_count,
        snapshot.watermark,
    )


def _compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def schemas(store: TableStore) -> pa.Table:
    """Return `schemas`: all versions of the schema."""
    columns = [
        ("schema_id", pa.int64()),
        ("fields", pa.string()),
        ("partition_keys", pa.string()),
        ("primary_keys", pa.string()),
        ("options", pa.string()),
        ("comment", pa.string()),
        ("update_time", TIMESTAMP),
    ]
    versions = [store.schemas.get(schema_id) for schema_id in store.schemas.ids()]
    return table_of(
        columns,
        (
            (
                version.id,
                _compact([field_json(field) for field in version.fields]),
                _compact(list(version.partition_keys)),
                _compact(list(version.primary_keys)),
                _compact(version.options),
                version.comment,
                local(store, version.time_millis),
            )
            for version in versions
        ),
    )


def options(store: TableStore) -> pa.Table:
    """Return `options`: the table options."""
    return table_of([("key", pa.string()), ("value", pa.string())], store.schema().options.items())


def tags(store: TableStore) -> pa.Table:
    """Return `tags`: the tags and their snapshots."""
    columns = [
        ("tag_name", pa.string()),
        ("snapshot_id", pa.int64()),
        ("schema_id", pa.int64()),
        ("commit_time", TIMESTAMP),
        ("record_count", pa.int64()),
        ("create_time", TIMESTAMP),
        ("time_retained", pa.string()),
    ]
    files = TagFiles(store.storage, store.paths.root, store.paths.branch)
    return table_of(columns, (_tag_row(store, tag) for tag in files.all()))


def _tag_row(store: TableStore, tag: Tag) -> Sequence[object]:
    snapshot = tag.snapshot
    return (
        tag.name,
        snapshot.id,
        snapshot.schema_id,
        local(store, snapshot.time_millis),
        snapshot.total_record_count,
        # Already the wall clock of the tag's creator.
        None if tag.created_nanos is None else tag.created_nanos // 1_000_000,
        None if tag.retained_nanos is None else iso_duration(tag.retained_nanos),
    )


def iso_duration(nanos: int) -> str:
    """Return a duration in the form of java.time.Duration: PT5H, PT24H30M, PT1.5S."""
    seconds, fraction = divmod(nanos, 1_000_000_000)
    hours, rest = divmod(seconds, 3600)
    minutes, seconds = divmod(rest, 60)
    text = "PT" + (f"{hours}H" if hours else "") + (f"{minutes}M" if minutes else "")
    if seconds or fraction or text == "PT":
        text += f"{seconds}{f'.{fraction:09d}'.rstrip('0') if fraction else ''}S"
    return text


def branches(store: TableStore) -> pa.Table:
    """Return `branches`: the branches and their creation times."""
    entries = {entry.name: entry for entry in store.storage.list(store.paths.branches_folder)}
    rows = (
        (name, local(store, entries[f"branch-{name}"].modified) if f"branch-{name}" in entries else None)
        for name in branch_names(store)
    )
    return table_of([("branch_name", pa.string()), ("create_time", TIMESTAMP)], rows)


def consumers(store: TableStore) -> pa.Table:
    """Return `consumers`: the consumers and the snapshots they read next."""
    files = ConsumerFiles(store.storage, store.paths.root, store.paths.branch)
    columns = [("consumer_id", pa.string()), ("next_snapshot_id", pa.int64())]
    return table_of(columns, ((file.id, file.next_snapshot) for file in files.all()))


def statistics(store: TableStore) -> pa.Table:
    """Return `statistics`: the statistics of the newest ANALYZE, empty without one."""
    columns = [
        ("snapshot_id", pa.int64()),
        ("schema_id", pa.int64()),
        ("mergedRecordCount", pa.int64()),
        ("mergedRecordSize", pa.int64()),
        ("colstat", pa.string()),
    ]
    latest = store.snapshots.latest()
    if latest is None or latest.statistics is None:
        return table_of(columns, ())
    path = store.paths.statistics(latest.statistics)
    try:
        file = JsonFile.parse(store.storage.read(path), path)
    except FileNotFoundError as reason:
        raise TableCorrupt("the statistics of a snapshot are missing", snapshot=latest.id, file=path) from reason
    row = (
        *map(file.optional_number, ("snapshotId", "schemaId", "mergedRecordCount", "mergedRecordSize")),
        json.dumps(
            file.values.get("colStats", {}), indent=2, separators=(",", " : "), ensure_ascii=False, default=_number
        ),
    )
    return table_of(columns, [row])


def _number(value: object) -> float:
    """Convert a Decimal, which the JSON encoder does not support.

    Numbers with a decimal point are parsed as Decimal.
    """
    return float(str(value))


def aggregation_fields(store: TableStore) -> pa.Table:
    """Return `aggregation_fields`: the columns with their aggregate functions and options."""
    columns = [(name, pa.string()) for name in ("field_name", "field_type", "function", "function_options", "comment")]
    schema = store.schema()
    rows = []
    for field in schema.fields:
        prefix = f"fields.{field.name}."
        own = {key: value for key, value in schema.options.items() if key.startswith(prefix)}
        function = own.pop(f"{prefix}aggregate-function", None)
        type_ = field_json(field)["type"]
        text = type_ if isinstance(type_, str) else _compact(type_)
        shown = "\n".join(f"{key} : {value}" for key, value in own.items())
        rows.append((field.name, text, function, shown, field.description))
    return table_of(columns, rows)
