"""The columns that Spark passes to a write, compared with those of the table by name and kind of time."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from penstock.table.buckets.input_rows import RowRefused


def as_written(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return the batch with the names as the table spells them. RowRefused for a time of the other kind."""
    found = batch.rename_columns(_as_the_table_spells(batch.schema.names, schema.names))
    _refuse_other_times(found, schema)
    return found


def _as_the_table_spells(given: Sequence[str], known: Sequence[str]) -> list[str]:
    """Return the names as the table spells them.

    Spark does not distinguish ID from id, so a name that differs from exactly one table column in case only means that
    column.
    """
    by_letters: dict[str, list[str]] = {}
    for name in known:
        by_letters.setdefault(name.lower(), []).append(name)
    alike = {name: by_letters.get(name.lower(), []) for name in given if name not in known}
    spelt = [alike[name][0] if len(alike.get(name, ())) == 1 else name for name in given]
    return spelt if len(set(spelt)) == len(spelt) else list(given)


def _refuse_other_times(batch: pa.RecordBatch, schema: pa.Schema) -> None:
    """Raise RowRefused when an instant is written to a local time column, or the reverse.

    Only the user knows the zone that converts them.
    """
    for field in batch.schema:
        if not pa.types.is_timestamp(field.type) or field.name not in schema.names:
            continue
        wanted = schema.field(field.name).type
        if pa.types.is_timestamp(wanted) and (wanted.tz is None) != (field.type.tz is None):
            kind = "timestamp_ntz" if wanted.tz is None else "timestamp"
            raise RowRefused(
                f"column {field.name!r} does not fit: it is {field.type}, and the table needs {wanted}",
                hint=f"cast it to {kind} in Spark",
            )
