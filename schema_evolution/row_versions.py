"""The columns of a history table: each row is a version of a source row, valid from one change to the next.

The key of the table is the key of the source and the position at which the version ended. That position is empty as
long as the version is current, so that one lookup by the whole key finds the current version of a source row.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import ConfigError
from penstock.formats.change import ChangeBatch, SourceField
from penstock.row_kinds import kind_texts
from penstock.schema_evolution.types.source import TYPED
from penstock.table.merge.engines.registry import merge_spec
from penstock.table.options.buckets import BUCKET_KEY
from penstock.table.options.changelogs import DELETION_VECTORS_ENABLED
from penstock.table.schema.new_schema import with_keys_not_null
from penstock.table.schema.table_schema import TableSchema
from penstock.table.schema.validation import check_schema

VALID_FROM, VALID_TO, IS_CURRENT = "valid_from", "valid_to", "is_current"
OPERATION, POSITION, END_POSITION = "_operation", "_position", "_end_position"
OPEN = ""  # the end position of current versions
TIME = pa.timestamp("ms", "UTC")
_TIME_TEXT = f"{TYPED}TIMESTAMP(3) WITH LOCAL TIME ZONE"
_FIELDS = (
    SourceField(VALID_FROM, _TIME_TEXT),
    SourceField(VALID_TO, _TIME_TEXT),
    SourceField(IS_CURRENT, f"{TYPED}BOOLEAN"),
    SourceField(OPERATION, f"{TYPED}STRING"),
    SourceField(POSITION, f"{TYPED}STRING"),
    SourceField(END_POSITION, f"{TYPED}STRING"),
)
COLUMNS = frozenset(field.name for field in _FIELDS)
_DIGITS, _SUB_DIGITS = 20, 6
# The length of what follows the name of the stream in a position.
NUMBERS = 1 + _DIGITS + 1 + _SUB_DIGITS
_HINT = "set  deletes: hard  or  soft  for it, in a route for it or in the sink"


def with_versions(change: ChangeBatch, now_millis: int, stream: str) -> ChangeBatch:
    """Return the changes with the columns of versions: each change begins a version.

    A version begins at the time in the message, or at `now_millis` if the message has no time. The name of the stream
    and the numbers of a row are the position of the change.
    """
    clash = COLUMNS & {field.name.lower() for field in change.schema.fields}
    if clash:
        raise ConfigError(
            f"the source has a column {min(clash)!r}, which describes versions in the target table",
            source=f"{change.schema.database}.{change.schema.table}",
            hint=f"rename it by a projection, or {_HINT}",
        )
    count, fields = len(change), (*change.schema.fields, *_FIELDS)
    columns = [
        *change.rows.columns,
        pa.array(np.where(change.event_times < 0, now_millis, change.event_times)).cast(TIME),
        pa.nulls(count, TIME),
        pa.repeat(pa.scalar(value=True), count),
        kind_texts(pa.array(change.kinds)),
        _positions(change, stream),
        pa.repeat(pa.scalar(OPEN), count),
    ]
    rows = pa.RecordBatch.from_arrays(columns, names=[field.name for field in fields])
    return replace(change, schema=replace(change.schema, fields=fields), rows=rows)


def stream_of(place: str, number: int, now_millis: int, *, numbered: bool) -> str:
    """Return the name of the stream in which the positions of a range's rows are ordered.

    For messages that their source has `numbered`, it is the place of the range; for a binlog, it is the file. Other
    sources number the rows of each range from 0. Each of their ranges is a stream, named by `number` and the batch's
    `now_millis`.
    """
    file, colon, start = place.rpartition(":")
    if colon and start.isdecimal():
        return file
    return place if numbered else f"{place}@{now_millis}.{number}"


def _positions(change: ChangeBatch, stream: str) -> pa.Array:
    """Return the position of each change as text. Texts of one stream are in its order."""
    numbers = pc.utf8_lpad(pa.array(change.positions).cast(pa.string()), _DIGITS, "0")
    subs = pc.utf8_lpad(pa.array(change.subs).cast(pa.string()), _SUB_DIGITS, "0")
    return pc.binary_join_element_wise(f"{stream}:", numbers, ".", subs, "")


def keeps_versions(schema: TableSchema) -> bool:
    """Return whether the table is a history table."""
    return END_POSITION in schema.primary_keys and set(schema.names) >= COLUMNS


def source_keys(schema: TableSchema) -> tuple[str, ...]:
    """Return the key of the source rows in a table, which has the same key unless it is a history table."""
    return tuple(name for name in schema.primary_keys if name != END_POSITION)


def as_history(table: str, schema: TableSchema) -> TableSchema:
    """Return the schema of the history table for the schema of a table with the rows of the source."""
    keys = (*schema.primary_keys, END_POSITION) if schema.primary_keys else ()
    options = dict(schema.options)
    # All versions of a row are in one bucket. With dynamic buckets no bucket key is possible.
    if keys and BUCKET_KEY.key not in options and int(options.get("bucket", "-1")) > 0:
        options[BUCKET_KEY.key] = ",".join(name for name in schema.primary_keys if name not in schema.partition_keys)
    made = replace(schema, primary_keys=keys, fields=with_keys_not_null(schema.fields, keys), options=options)
    check_history(table, made)
    check_schema(made)
    return made


def check_history(table: str, schema: TableSchema) -> None:
    """Raise ConfigError for a table that cannot store versions."""
    problem = _problem(schema)
    if problem is not None:
        raise ConfigError(f"deletes: history is not possible: {problem}", table=table, hint=_HINT)


def _problem(schema: TableSchema) -> str | None:
    if not schema.primary_keys:
        return "the table has no primary key, so that versions of a row cannot be recognized"
    if not keeps_versions(schema):
        return f"the table exists with the primary key {', '.join(schema.primary_keys)}, without {END_POSITION}"
    spec = merge_spec(schema)
    if spec.engine.name != "deduplicate":
        return f"merge-engine={spec.engine.name} does not keep the newest row of a key as it is"
    if spec.sequence_fields:
        return f"sequence.field={','.join(spec.sequence_fields)} orders rows otherwise than the source does"
    if spec.ignore_delete:
        return "ignore-delete=true keeps current versions that have ended"
    if spec.rowkind_field is not None:
        return f"rowkind.field={spec.rowkind_field} decides which rows are deletes"
    return _problem_of_buckets(schema)


def _problem_of_buckets(schema: TableSchema) -> str | None:
    if schema.typed[DELETION_VECTORS_ENABLED]:
        return "with deletion-vectors.enabled=true the newest rows cannot be looked up before a compaction"
    if not set(schema.partition_keys) <= set(schema.primary_keys):
        return "a partition column is not in the primary key, so that versions of a row have several partitions"
    if schema.options.get("bucket") == "-2":
        return "with bucket=-2 rows have no bucket before a compaction, so that current versions cannot be looked up"
    keys = [name.strip() for name in schema.options.get(BUCKET_KEY.key, "").split(",")]
    fixed = int(schema.options.get("bucket", "-1")) > 0
    if END_POSITION in keys or (fixed and not any(keys)):
        return f"bucket-key must be columns of the source's key, without {END_POSITION}"
    return None


def ended(rows: pa.RecordBatch, millis: int) -> pa.RecordBatch:
    """Return current versions of a table that was emptied at this time.

    They keep the key of a current version: the source may still have the row, and then its version continues.
    """
    begun = rows.column(VALID_FROM)
    now = pa.scalar(millis).cast(TIME).cast(begun.type)
    ends = pc.if_else(pc.less(begun, now), now, begun)
    for name, column in ((VALID_TO, ends), (IS_CURRENT, pa.repeat(pa.scalar(value=False), len(rows)))):
        place = rows.schema.get_field_index(name)
        rows = rows.set_column(place, rows.schema.field(place), column)
    return rows
