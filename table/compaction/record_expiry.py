"""Record expiry (`record-level.expire-time`): compaction drops expired records, as in Java.

Nothing else drops them: until a compaction rewrites them they are read. A record without a time never expires.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import ConfigError
from penstock.table.files.value_bounds import safe_bounds
from penstock.table.meta.data_file import DataFile
from penstock.table.options.merge_engines import RECORD_LEVEL_EXPIRE_TIME, RECORD_LEVEL_TIME_FIELD
from penstock.table.schema.table_schema import TableSchema
from penstock.table.values.binary_row import decode_row
from penstock.table.values.types import AtomicType, Field

_FIRST_MILLIS = 10**12  # numbers from this on are milliseconds, smaller numbers seconds
_NANOS = 10**9

Schemas = Callable[[int], TableSchema]


@dataclass(frozen=True, slots=True)
class RecordExpiry:
    """The expiry rule: a record expires when the time in `field` is before `since`, in epoch seconds.

    `schemas` decode the statistics of files with an old schema.
    """

    field: Field
    since: int
    schemas: Schemas

    @classmethod
    def of(cls, schema: TableSchema, now_millis: int, schemas: Schemas) -> RecordExpiry | None:
        """Return the rule that a table's options set, or None if records never expire."""
        options = schema.typed
        millis = options[RECORD_LEVEL_EXPIRE_TIME]
        if millis is None:
            return None
        name = options[RECORD_LEVEL_TIME_FIELD]
        if name is None:
            raise ConfigError(
                "record-level.expire-time is set, but not the column that it applies to",
                paimon_message="You should set time field for record-level expire.",
                hint="set record-level.time-field",
            )
        return cls(schema.field(name), now_millis // 1000 - millis // 1000, schemas)

    def left(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows that are not expired."""
        keep = self._stay(rows.column(self.field.name))
        return rows if keep.all() else rows.filter(pa.array(keep))

    def _stay(self, column: pa.Array) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        if pa.types.is_timestamp(column.type):
            seconds = pc.cast(column, pa.timestamp("ms", column.type.tz), safe=False).view(pa.int64())
            seconds = pc.cast(seconds, pa.int64()).fill_null(0).to_numpy() // 1000
        else:
            # The number for a null does not matter: such rows stay, as the last line of this function decides.
            seconds = _seconds(pc.cast(column, pa.int64()).fill_null(0).to_numpy())
        stay: np.ndarray[tuple[int], np.dtype[np.bool_]] = seconds >= self.since
        return stay | pc.is_null(column).to_numpy(zero_copy_only=False) if column.null_count else stay

    def concerns(self, file: DataFile) -> bool:
        """Return whether a file certainly contains an expired record, by its statistics."""
        least = self._least(file)
        return least is not None and least < self.since

    def may_concern(self, file: DataFile) -> bool:
        """Return whether a file may contain an expired record: unless its statistics rule it out."""
        least = self._least(file)
        return least is None or least < self.since

    def _least(self, file: DataFile) -> int | None:
        """Return the earliest time in a file, in epoch seconds; None if its statistics do not have it."""
        written = self.schemas(file.schema_id)
        old = next((field for field in written.fields if field.id == self.field.id), None)
        names = file.value_stats_cols if file.value_stats_cols is not None else written.names
        if old is None or old.name not in names or not isinstance(old.type, AtomicType):
            return None
        # Statistics of mode `none` have no null counts, and their minimum is null.
        if not file.value_stats.null_counts:
            return None
        by_name = {field.name: field.type for field in written.fields}
        types, place = [by_name[name] for name in names], list(names).index(old.name)
        lows, highs = file.value_stats.min_values, file.value_stats.max_values
        least, greatest = decode_row(lows, types)[place], decode_row(highs, types)[place]
        low, _ = safe_bounds(least, greatest, old.type, file.format)
        if not isinstance(low, int):
            return None
        return low // _NANOS if old.type.root.startswith("TIMESTAMP") else int(_seconds(np.array([low]))[0])


def _seconds(numbers: np.ndarray[tuple[int], np.dtype[np.int64]]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.where(numbers >= _FIRST_MILLIS, numbers // 1000, numbers)
