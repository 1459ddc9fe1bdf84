"""A small shop: canal messages of two tables, and the plainest shaping that can carry them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from penstock.formats.change import ChangeBatch, DecodeOptions
from penstock.ingest.fetched import Fetched
from penstock.pipelines.run.shaping import Drift, Fitted
from penstock.table.schema.schema_files import SchemaFiles
from penstock.table.schema.table_schema import TableSchema
from penstock.table.storage.local import LocalStorage
from penstock.table.values.arrow_types import arrow_schema
from penstock.table.values.types import Field, parse_type

KINDS = {"bigint": "BIGINT", "int": "INT", "varchar(20)": "VARCHAR(20)"}


@dataclass(frozen=True)
class PlainShaping:
    warehouse: str
    options: tuple[tuple[str, str], ...] = (("bucket", "2"),)

    def decode_options(self, known: Mapping[str, TableSchema]) -> DecodeOptions:
        return DecodeOptions(before_images="key-changes")

    def target(self, database: str | None, table: str | None) -> str | None:
        return None if table == "secret" else f"ods.{table}"

    def fit(self, change: ChangeBatch, table: TableSchema, fetched: Fetched | None) -> Fitted | None:
        names = [field.name for field in change.schema.fields]
        if not set(names) <= set(table.names):
            return None
        columns = [
            pc.cast(change.columns.column(names.index(field.name)), field.type)
            if field.name in names
            else pa.nulls(len(change), field.type)
            for field in arrow_schema(table.fields)
        ]
        batch = pa.RecordBatch.from_arrays(columns, schema=arrow_schema(table.fields))
        return Fitted(batch, change.kinds, change.pos, change.sub)

    def evolved(self, table: str, current: TableSchema | None, drifts: Sequence[Drift]) -> TableSchema:
        database, _, name = table.partition(".")
        files = SchemaFiles(LocalStorage(sync=False), f"{self.warehouse}/{database}.db/{name}")
        keys = drifts[0].schema.primary_keys
        fields = list(current.fields) if current else []
        for drift in drifts:
            for column in drift.schema.fields:
                if column.name not in {field.name for field in fields}:
                    kind = KINDS[column.type or "varchar(20)"] + (" NOT NULL" if column.name in keys else "")
                    fields.append(Field(len(fields), column.name, parse_type(kind)))
        if current:
            made = replace(current, id=current.id + 1, fields=tuple(fields), highest_field_id=len(fields) - 1)
        else:
            made = TableSchema(0, tuple(fields), len(fields) - 1, (), tuple(keys), dict(self.options), None, 1)
        assert files.create(made)
        return made


def change(
    kind: str, table: str, *rows: Mapping[str, object], old: Sequence[Mapping[str, object]] | None = None
) -> str:
    """A canal message; columns named q... are ints, id is the key."""
    names = list(rows[0])
    types = {name: "bigint" if name == "id" else "int" if name.startswith("q") else "varchar(20)" for name in names}
    data = [{name: None if value is None else str(value) for name, value in row.items()} for row in rows]
    return json.dumps(
        {
            "type": kind,
            "database": "shop",
            "table": table,
            "isDdl": False,
            "pkNames": ["id"],
            "mysqlType": types,
            "data": data,
            "old": old,
            "es": 1_700_000_000_000,
            "ts": 1_700_000_000_001,
        }
    )


def put(folder: Path, name: str, *messages: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f".{name}").write_text("\n".join(messages) + "\n")
    (folder / f".{name}").rename(folder / name)
