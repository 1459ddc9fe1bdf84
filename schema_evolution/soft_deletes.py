"""Soft deletes: a deleted row stays in its table, marked by two columns."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.errors import ConfigError
from penstock.formats.change import ChangeBatch, SourceField
from penstock.row_kinds import DELETE, UPDATE_AFTER
from penstock.schema_evolution.types.source import TYPED
from penstock.table.merge.engines.registry import merge_spec
from penstock.table.schema.table_schema import TableSchema

DELETED, DELETED_AT = "_deleted", "_deleted_at"
_FIELDS = (
    SourceField(DELETED, f"{TYPED}BOOLEAN"),
    SourceField(DELETED_AT, f"{TYPED}TIMESTAMP(3) WITH LOCAL TIME ZONE"),
)
_HINT = "set  deletes: hard  for it, in a route for it or in the sink"


def with_marks(change: ChangeBatch, now_millis: int) -> ChangeBatch:
    """Return the changes with the two columns; a delete becomes an update that sets them.

    The time of the delete is the time in the message, or `now_millis` if the message has no time.
    """
    clash = {DELETED, DELETED_AT} & {field.name.lower() for field in change.schema.fields}
    if clash:
        raise ConfigError(
            f"the source has a column {min(clash)!r}, which marks deleted rows in the target table",
            source=f"{change.schema.database}.{change.schema.table}",
            hint=f"rename it by a projection, or {_HINT}",
        )
    deleted = change.kinds == DELETE
    times = np.where(change.event_times < 0, now_millis, change.event_times)
    columns = [
        *change.rows.columns,
        pa.array(deleted),
        pa.array(times, pa.int64(), mask=~deleted).cast(pa.timestamp("ms", "UTC")),
    ]
    fields = (*change.schema.fields, *_FIELDS)
    rows = pa.RecordBatch.from_arrays(columns, names=[field.name for field in fields])
    kinds = np.where(deleted, np.int8(UPDATE_AFTER), change.kinds)
    return replace(change, schema=replace(change.schema, fields=fields), rows=rows, kinds=kinds)


def deleted_rows(change: ChangeBatch) -> npt.NDArray[np.bool_]:
    """Return which rows are marked as deleted, none if the changes have no marks."""
    if change.schema.fields[-len(_FIELDS) :] != _FIELDS:
        return np.zeros(len(change), np.bool_)
    flags: npt.NDArray[np.bool_] = change.rows.column(DELETED).to_numpy(zero_copy_only=False)
    return flags


def marked(rows: pa.RecordBatch, millis: int) -> pa.RecordBatch:
    """Return rows of a table as deleted at this time."""
    for name, value in ((DELETED, True), (DELETED_AT, millis)):
        place = rows.schema.get_field_index(name)
        column = pa.repeat(pa.scalar(value).cast(rows.schema.field(place).type), len(rows))
        rows = rows.set_column(place, rows.schema.field(place), column)
    return rows


def check_marks(table: str, schema: TableSchema) -> None:
    """Raise ConfigError for a table in which marks cannot say which rows are deleted."""
    if not schema.primary_keys:
        problem = "the table has no primary key, so that a delete finds no row"
    else:
        spec = merge_spec(schema)
        if not (spec.engine.newest_wins or spec.engine.null_means_unchanged):
            problem = f"with merge-engine={spec.engine.name} the row of a key is not its newest"
        elif spec.ignore_delete:
            problem = "ignore-delete=true asks to ignore deletes"
        elif spec.rowkind_field is not None:
            problem = f"rowkind.field={spec.rowkind_field} decides which rows are deletes"
        else:
            return
    raise ConfigError(f"deletes: soft is not possible: {problem}", table=table, hint=_HINT)
