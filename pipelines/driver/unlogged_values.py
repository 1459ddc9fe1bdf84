"""Values that a statement at the source gave to older rows: their tables are read again.

`ALTER TABLE ... ADD COLUMN c INT DEFAULT 7` gives every row a value at once, and `MODIFY c DECIMAL(8, 1)` rounds the
values of all. No log of a database shows these values.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence

from penstock.ingest.source import SILENT_VALUES, Barrier, RereadableSource
from penstock.pipelines.mapping.table_mapping import SeenSchema
from penstock.pipelines.tasks.read import BatchReader
from penstock.table.options.changelogs import CHANGELOG_PRODUCER
from penstock.table.options.merge_engines import MERGE_ENGINE
from penstock.table.schema.table_schema import TableSchema

log = logging.getLogger(__name__)

# In other engines, a row that is read again counts twice, or is ignored.
_REPLACES_ROWS = frozenset({"deduplicate", "partial-update"})


def fill_added_columns(reader: BatchReader, current: TableSchema, seen: Sequence[SeenSchema]) -> None:
    """Request that source tables are read again whose new columns have values in older rows, which no log shows."""
    source = reader.source
    if not isinstance(source, RereadableSource):
        return
    for table, added in _added_columns(reader, current, seen).items():
        filled = source.filled_columns(table, added)
        if filled:
            log.info("event=added_columns_have_values source=%s columns=%s", ".".join(table), ",".join(filled))
            request_reading(source, current, seen[0].table, table, filled)


def fill_logged_columns(reader: BatchReader, barriers: Sequence[Barrier], tables: Collection[str]) -> None:
    """Request that source tables are read again in which the source itself has found values that its log lacks."""
    for barrier in barriers:
        target = reader.mapping.target(barrier.database, barrier.table) if barrier.kind in SILENT_VALUES else None
        if target is not None and target in tables:
            schema = reader.warehouse.store(target).schema()
            columns = [column for column, _ in barrier.columns]
            source = (barrier.database, barrier.table)
            if barrier.kind == "changed-values":
                placed = {*schema.primary_keys, *schema.partition_keys} & set(map(reader.mapping.column, columns))
                _request_changed(reader.source, schema, target, source, columns, moves=bool(placed))
            else:
                request_reading(reader.source, schema, target, source, columns)


def request_reading(
    source: object, current: TableSchema, table: str, from_table: tuple[str, str], columns: Sequence[str]
) -> None:
    """Request that a source table is read again, if the target table replaces rows that are written a second time."""
    name = ".".join(from_table)
    hint = f"older rows are null in them; `penstock signal PIPELINE snapshot {name}` reads the table again"
    _request(source, _refusal(current), ("added_columns_not_filled", hint), table, from_table, columns)


def _request_changed(
    source: object,
    current: TableSchema,
    table: str,
    from_table: tuple[str, str],
    columns: Sequence[str],
    *,
    moves: bool,
) -> None:
    """Request that a table with changed values is read again.

    If the values decide in which partition or bucket a row is (`moves`), the old rows would stay beside the new ones.
    Then a hint is logged to empty the table and read it again.
    """
    hint = (
        "older rows keep the values that they had before the statement;"
        f" `penstock run PIPELINE --reset {table}` reads the table again"
    )
    refusal = "they are in its key or partition" if moves else _refusal(current)
    _request(source, refusal, ("changed_values_not_read", hint), table, from_table, columns)


def _request(
    source: object,
    refusal: str | None,
    refused: tuple[str, str],
    table: str,
    from_table: tuple[str, str],
    columns: Sequence[str],
) -> None:
    """Request the reading, or log the event and the hint of `refused`."""
    assert isinstance(source, RereadableSource)
    if refusal is None:
        source.read_again(from_table)
        return
    event, hint = refused
    text = "event=%s table=%s source=%s columns=%s reason=%s hint=%s"
    log.warning(text, event, table, ".".join(from_table), ",".join(columns), refusal, hint)


def _added_columns(
    reader: BatchReader, current: TableSchema, found: Sequence[SeenSchema]
) -> dict[tuple[str, str], set[str]]:
    """Return the new columns of each source table that the schemas seen in a batch have."""
    tables: dict[tuple[str, str], set[str]] = {}
    for seen in found:
        schema = seen.schema
        added = {field.name for field in schema.fields if reader.mapping.column(field.name) not in current.names}
        if added and schema.database is not None and schema.table is not None:
            tables.setdefault((schema.database, schema.table), set()).update(added)
    return tables


def _refusal(table: TableSchema) -> str | None:
    """Return why rows of the table must not be written a second time, None if they may."""
    options = table.typed
    if not table.primary_keys:
        return "the table has no primary key"
    if options[MERGE_ENGINE] not in _REPLACES_ROWS:
        return f"merge-engine={options[MERGE_ENGINE]}"
    # Its changelog contains the rows as they arrive: each would be inserted a second time.
    return "changelog-producer=input" if options[CHANGELOG_PRODUCER].copies_input else None
