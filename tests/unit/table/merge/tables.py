"""Small tables for the tests of the LSM tree: schemas from type texts, runs from rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from penstock.table.merge.engines.registry import merge_spec
from penstock.table.merge.key_groups import KIND, SEQUENCE
from penstock.table.merge.spec import MergeSpec
from penstock.table.schema.table_schema import TableSchema
from penstock.table.values.arrow_types import arrow_schema
from penstock.table.values.types import Field, parse_type

Row = dict[str, Any]
SYSTEM = [pa.field(SEQUENCE, pa.int64(), nullable=False), pa.field(KIND, pa.int8(), nullable=False)]


def schema_of(
    columns: Mapping[str, Any], primary_keys: Sequence[str] = ("k",), **options: str | Mapping[str, str]
) -> TableSchema:
    """Options with dots and hyphens come as one mapping `options`."""
    fields = []
    for place, (name, type_) in enumerate(columns.items()):
        fields.append(Field(place, name, parse_type(type_)))
    given = options.get("options", {})
    assert isinstance(given, Mapping)
    return TableSchema(0, tuple(fields), len(fields), primary_keys=tuple(primary_keys), options=dict(given))


def spec_of(
    columns: Mapping[str, Any], options: Mapping[str, str] | None = None, keys: Sequence[str] = ("k",)
) -> MergeSpec:
    return merge_spec(schema_of(columns, keys, options=options or {}))


def rows_table(spec: MergeSpec, records: Sequence[tuple[int, int, Row]]) -> pa.Table:
    """(sequence number, kind, row) as a table."""
    schema = pa.schema([*SYSTEM, *arrow_schema(spec.fields)])
    columns: list[list[Any]] = [[s for s, _, _ in records], [k for _, k, _ in records]]
    columns += [[row.get(field.name) for _, _, row in records] for field in spec.fields]
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)
