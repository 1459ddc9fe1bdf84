"""Small tables for tests: made in one line, on the local disk, with time and names from a seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from penstock.storage.environment import seeded
from penstock.storage.local import LocalStorage
from penstock.table.handle import Table
from penstock.table.meta.store import TableStore
from penstock.table.schema.schema_files import SchemaFiles
from penstock.table.schema.table_schema import TableSchema
from penstock.table.values.types import Field, parse_type

Columns = Sequence[tuple[str, str]]
ORDERS: Columns = [("id", "BIGINT NOT NULL"), ("name", "STRING"), ("amount", "DECIMAL(10, 2)")]


def new_table(
    folder: Path,
    columns: Columns = ORDERS,
    *,
    keys: Sequence[str] = ("id",),
    partitions: Sequence[str] = (),
    options: Mapping[str, str] | None = None,
    seed: int = 1,
) -> Table:
    storage = LocalStorage(sync=False)
    root = f"{folder}/warehouse/shop.db/orders"
    fields = tuple(Field(number, name, parse_type(text)) for number, (name, text) in enumerate(columns))
    schema = TableSchema(
        0, fields, len(fields) - 1, tuple(partitions), tuple(keys), {"bucket": "2", **(options or {})}, None, 1
    )
    SchemaFiles(storage, root).create(schema)
    return Table(TableStore.open(storage, root, ambient=seeded(seed)))


def rows(table: Table, *values: Sequence[object]) -> pa.Table:
    columns = zip(*values, strict=True)
    arrays = [pa.array(list(column), field.type) for column, field in zip(columns, table.schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=table.schema)


def content(table: Table) -> list[tuple[object, ...]]:
    """The rows as a sorted list of tuples."""
    found = table.scan().to_arrow().to_pylist()
    return sorted((tuple(row.values()) for row in found), key=repr)
