"""Values stored out of line that an update did not touch: the log does not contain them.

They are taken from the last image of the same row in the same block, else from the row that the server has now. That
row may be newer; the changes in between follow in the log. If the row is gone, its delete follows too, and the update
is left out: a null would be a wrong value.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from penstock.formats.demand import needed
from penstock.ingest.database.buffers import with_values_at
from penstock.ingest.postgres.received import Received
from penstock.ingest.postgres.relation import PgType, Relation
from penstock.ingest.postgres.server.catalog import as_logged, own_rows, quoted, relations
from penstock.ingest.postgres.server.visibility import wait_for_standbys
from penstock.ingest.postgres.snapshot.chunks import key_literals
from penstock.ingest.postgres.values.binary import binary_column
from penstock.ingest.postgres.values.columns import value_column
from penstock.ingest.postgres.values.copy_rows import cells_of, rows_of
from penstock.ingest.postgres.values.windows import Shape
from penstock.row_kinds import DELETE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.byte_buffers import Bools, Int64s
    from penstock.formats.change import ChangeBatch
    from penstock.formats.demand import DemandPolicy
    from penstock.ingest.postgres.log.decode import LoggedRows
    from penstock.ingest.postgres.relation import Column
    from penstock.ingest.postgres.server.connection import PgConnection

ROW_GONE, COLUMN_GONE = "unchanged-value-of-deleted-row", "unchanged-value-of-dropped-column"
_KEYS_AT_ONCE = 1000
_NUMBER = PgType("int8")


def completed(
    connection: PgConnection, logged: LoggedRows, oddities: Counter[str], policy: DemandPolicy | None = None
) -> ChangeBatch:
    """Return the rows with all values that are needed; rows whose values are gone are left out and counted."""
    batch = logged.batch
    if not logged.unchanged:
        return batch
    # Columns that are not needed stay null: the user may have no right to read them.
    demand = needed(policy, batch.schema)
    missing = {name: mask for name, mask in logged.unchanged.items() if demand.includes(name)}
    rows = _from_block(batch, logged.relation, missing)
    wanted = np.zeros(len(batch), np.bool_)
    for mask in missing.values():
        wanted |= mask
    if not wanted.any():
        return replace(batch, rows=rows)
    rows, gone = _from_server(connection, rows, logged.relation, missing, np.flatnonzero(wanted), oddities)
    whole = replace(batch, rows=rows)
    if not len(gone):
        return whole
    oddities[ROW_GONE] += len(gone)
    keep = np.ones(len(batch), np.bool_)
    keep[gone] = False
    return whole.filter(keep)


def _from_block(batch: ChangeBatch, relation: Relation, missing: dict[str, Bools]) -> pa.RecordBatch:
    """Fill values from the last earlier image of the same key; removes the filled rows from `missing`."""
    keys = _key_numbers(batch.rows.select(list(relation.key)))
    # Stable, so that the images of a key stay in the order of the log.
    order = np.argsort(keys, kind="stable")
    first = np.ones(len(order), np.bool_)
    first[1:] = keys[order][1:] != keys[order][:-1]
    place = np.arange(len(order))
    begin = np.maximum.accumulate(np.where(first, place, 0))
    # A delete ends the life of a row; key columns are all that it contains.
    ends = np.isin(batch.kinds[order], [DELETE])
    columns = list(batch.rows.columns)
    for number, column in enumerate(relation.columns):
        mask = missing.get(column.name)
        if mask is None:
            continue
        lacks = mask[order]
        # For each image the nearest one at or before it that has the value. It belongs to the same key if it is not
        # before the key's first image.
        source = np.maximum.accumulate(np.where(lacks, -1, place))
        usable = lacks & (source >= begin)
        usable[usable] &= ~ends[source[usable]]
        to, donor = order[usable], order[source[usable]]
        index = np.arange(len(order))
        index[to] = donor
        columns[number] = columns[number].take(pa.array(index))
        left = mask.copy()
        left[to] = False
        missing[column.name] = left
    return pa.RecordBatch.from_arrays(columns, names=batch.rows.schema.names)


def _key_numbers(keys: pa.RecordBatch) -> Int64s:
    """Return a number for every distinct key."""
    codes = [column.dictionary_encode("encode").indices.to_numpy(zero_copy_only=False) for column in keys.columns]
    _, numbers = np.unique(np.stack(codes, axis=1).astype(np.int64), axis=0, return_inverse=True)
    found: Int64s = numbers.reshape(-1).astype(np.int64)
    return found


def _from_server(
    connection: PgConnection,
    rows: pa.RecordBatch,
    relation: Relation,
    missing: dict[str, Bools],
    wanted: Int64s,
    oddities: Counter[str],
) -> tuple[pa.RecordBatch, Int64s]:
    """Fill values from the rows that the server has now; also returns the rows that it does not have any more."""
    wait_for_standbys(connection)
    now = relations(connection, [relation.oid]).get(relation.oid)
    # Without the table or its key columns no row can be found, so all of them count as gone.
    if now is None or not set(relation.key) <= {column.name for column in now.columns}:
        return rows, wanted
    current = {column.name: column for column in now.columns}
    names = [name for name, mask in missing.items() if mask.any()]
    for name in names:
        if name not in current:
            oddities[COLUMN_GONE] += int(missing[name].sum())
    selected = [column for column in relation.columns if column.name in names and column.name in current]
    columns = dict(zip(rows.schema.names, rows.columns, strict=True))
    keys = [key_literals(connection, columns[name].take(pa.array(wanted))) for name in relation.key]
    types = [str(_sql_type(connection, now, name)) for name in relation.key]
    shapes = [Shape.of(type_) for type_ in (_NUMBER, *(column.type for column in selected))]
    seen = np.zeros(len(wanted), np.bool_)
    for first in range(0, len(wanted), _KEYS_AT_ONCE):
        key_places = range(first, min(first + _KEYS_AT_ONCE, len(wanted)))
        lines = [
            f"({place}, {', '.join(f'{key[place]}::{kind}' for key, kind in zip(keys, types, strict=True))})"
            for place in key_places
        ]
        messages = Received.joined(list(connection.copied(_statement(now, relation.key, selected, lines))))
        found = list(cells_of(rows_of(messages), shapes))
        places = binary_column(found[0], _NUMBER, oddities).to_numpy(zero_copy_only=False).astype(np.int64)
        seen[places] = True
        for declared, cells in zip(selected, found[1:], strict=True):
            column = value_column(cells, relation, declared, oddities, binary=declared.type.is_binary)
            mask = missing[declared.name]
            to = wanted[places]
            chosen = mask[to]
            columns[declared.name] = with_values_at(columns[declared.name], to[chosen], column.filter(pa.array(chosen)))
    return pa.RecordBatch.from_arrays(list(columns.values()), names=rows.schema.names), wanted[~seen]


def _statement(now: Relation, key: Sequence[str], selected: Sequence[Column], lines: Sequence[str]) -> str:
    """Return one query for many keys, which are numbered so that each found row can be assigned to its place.

    Each of the `lines` has a number and the values of a key.
    """
    names_of_keys = ", ".join(f"k{number}" for number in range(len(key)))
    match = " AND ".join(f"t.{quoted(name)} = k.k{number}" for number, name in enumerate(key))
    values = "".join(f", {as_logged(f't.{quoted(column.name)}', column.type)}" for column in selected)
    return (
        f"SELECT k.n::int8{values} FROM (VALUES {', '.join(lines)}) k(n, {names_of_keys}) "
        f"JOIN {own_rows(now.name, now.kind)} t ON {match}"
    )


def _sql_type(connection: PgConnection, relation: Relation, name: str) -> str | None:
    return connection.value(
        f"SELECT format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = {relation.oid} "
        f"AND attname = {connection.literal(name)}"
    )
