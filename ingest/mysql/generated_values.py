"""Values of generated columns that the binlog lacks: MariaDB 11.8.9 leaves them out of updates and deletes.

They are taken from the row that the server has now. That row may be newer; the changes in between follow in the log. If
the row is gone, its delete follows too, and the update is left out: a null would be a wrong value. Rows before a change
and deleted rows, which no server has, keep a null.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from penstock.formats.change import ChangeBatch
from penstock.formats.demand import DemandPolicy, needed
from penstock.ingest.database.buffers import with_values_at
from penstock.ingest.mysql.definition import MySqlColumn, MySqlType, TableDefinition
from penstock.ingest.mysql.errors import RowImageError
from penstock.ingest.mysql.server.catalog import definitions, generated_columns, quoted
from penstock.ingest.mysql.server.connection import connected
from penstock.ingest.mysql.snapshot.chunk import Chunk, key_rows
from penstock.ingest.mysql.snapshot.columns import column_of, expression
from penstock.ingest.mysql.snapshot.read import BLOCK_BYTES
from penstock.ingest.mysql.snapshot.text_rows import select
from penstock.ingest.mysql.values.rules import CellContext, ValueRules
from penstock.row_kinds import INSERT, UPDATE_AFTER

if TYPE_CHECKING:
    from penstock.byte_buffers import Int64s
    from penstock.ingest.mysql.server.address import ServerAddress
    from penstock.ingest.mysql.server.connection import Connection

ROW_GONE, COLUMN_GONE = "generated-value-of-deleted-row", "generated-value-of-dropped-column"
_PLACE = MySqlColumn("n", MySqlType("bigint"))


@dataclass(frozen=True, slots=True)
class GeneratedValues:
    """The server that has the values, and how they are read. It is sent to tasks."""

    server: ServerAddress
    rules: ValueRules
    demand: DemandPolicy | None = None

    def completed(self, batch: ChangeBatch, lacking: Sequence[str], oddities: Counter[str]) -> ChangeBatch:
        """Return the rows with the values of the columns that their images lack.

        Rows that the server does not have any more are left out and counted. RowImageError if a column is not generated
        or the table has no key to find the row by.
        """
        with connected(self.server) as connection:
            name = (batch.schema.database or "", batch.schema.table or "")
            now = definitions(connection, [name]).get(name)
            remaining = [] if now is None else [name for name in lacking if now.column(name) is not None]
            stored = sorted(set(remaining) - generated_columns(connection, name))
            if stored or not batch.schema.primary_keys:
                raise _refused(batch, stored, lacking)
            wanted = np.flatnonzero(np.isin(batch.kinds, [INSERT, UPDATE_AFTER]))
            if not len(wanted):
                return batch
            # Without the table or its key columns no row can be found, so all of them count as gone.
            if now is None or not all(now.column(primary_key) for primary_key in batch.schema.primary_keys):
                return _without(batch, wanted, oddities)
            demand = needed(self.demand, batch.schema)
            oddities[COLUMN_GONE] += len(wanted) * (len(lacking) - len(remaining))
            selected = [column for column in now.columns if column.name in remaining and demand.includes(column.name)]
            return self._filled(connection, batch, now, selected, wanted, oddities)

    def _filled(
        self,
        connection: Connection,
        batch: ChangeBatch,
        current: TableDefinition,
        selected: Sequence[MySqlColumn],
        wanted: Int64s,
        oddities: Counter[str],
    ) -> ChangeBatch:
        columns = dict(zip(batch.rows.schema.names, batch.rows.columns, strict=True))
        chunk = Chunk(current.database, current.table, 0, batch.schema.primary_keys)
        keys = pa.Table.from_batches([batch.rows]).select(list(chunk.key)).take(pa.array(wanted))
        seen = np.zeros(len(wanted), np.bool_)
        first = 0
        for literals in key_rows(connection, chunk, keys):
            statement = _statement(chunk, selected, literals, first)
            first += len(literals)
            for block in select(connection, statement, BLOCK_BYTES):
                places, *values = (
                    column_of(texts, CellContext(column, current.qualified, self.rules, oddities, in_key=False))
                    for column, texts in zip([_PLACE, *selected], block.cells(), strict=True)
                )
                at = places.to_numpy(zero_copy_only=False).astype(np.int64)
                seen[at] = True
                for column, found in zip(selected, values, strict=True):
                    columns[column.name] = with_values_at(columns[column.name], wanted[at], found)
        rows = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
        whole = replace(batch, rows=rows)
        return whole if seen.all() else _without(whole, wanted[~seen], oddities)


def _statement(chunk: Chunk, selected: Sequence[MySqlColumn], literals: Sequence[Sequence[str]], first: int) -> str:
    """Return one query for many keys, which are numbered so that each found row can be assigned to its place."""
    values = "".join(f", {expression(quoted(column.name), column.type)}" for column in selected)
    table = f"{quoted(chunk.database)}.{quoted(chunk.table)}"
    return " UNION ALL ".join(
        f"SELECT {first + place} AS n{values} FROM {table} WHERE "
        + " AND ".join(f"{quoted(name)} = {literal}" for name, literal in zip(chunk.key, key, strict=True))
        for place, key in enumerate(literals)
    )


def _without(batch: ChangeBatch, gone: Int64s, oddities: Counter[str]) -> ChangeBatch:
    oddities[ROW_GONE] += len(gone)
    keep = np.ones(len(batch), np.bool_)
    keep[gone] = False
    return batch.filter(keep)


def _refused(batch: ChangeBatch, stored: Sequence[str], lacking: Sequence[str]) -> RowImageError:
    """Return the error for columns that are not generated, or else for generated ones of a table without a key."""
    hint = (
        "SET PERSIST binlog_row_image = FULL (MariaDB: SET GLOBAL), make sure that no session sets another value, and "
        "read the table again (--resnapshot)"
        if stored
        else "the server leaves generated columns out of its binlog: add a primary key to the table, with which their "
        "values can be read, or leave the table out of the pipeline"
    )
    return RowImageError(
        "the binlog contains rows without all their columns",
        table=f"{batch.schema.database}.{batch.schema.table}",
        columns=", ".join(stored or lacking),
        hint=hint,
    )
