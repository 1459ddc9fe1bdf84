"""Random tables: all types, keys, partitions, formats, deleted rows, and schemas that change between commits."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from penstock.errors import ConfigError
from penstock.table.catalog.catalog import Catalog
from penstock.table.handle import Table
from penstock.table.schema.changes import AddColumn, DropColumn, RenameColumn, SchemaChange, UpdateColumnType
from penstock.table.schema.type_text import written
from tests.random_tables import values

# Types that a column may get. The files that are there keep theirs, and are read through casts.
WIDER = {
    "TINYINT": ("INT", "STRING"),
    "SMALLINT": ("BIGINT", "DOUBLE"),
    "INT": ("BIGINT", "STRING", "DECIMAL(18, 4)"),
    "BIGINT": ("STRING", "INT"),
    "FLOAT": ("DOUBLE",),
    "DECIMAL(5, 2)": ("DECIMAL(18, 4)", "DECIMAL(38, 10)", "DOUBLE"),
    "DECIMAL(18, 4)": ("DECIMAL(5, 2)",),
    "DATE": ("TIMESTAMP(3)",),
    "CHAR(5)": ("STRING",),
    "VARCHAR(40)": ("STRING", "BYTES"),
    "TIMESTAMP(0)": ("TIMESTAMP(6)", "DATE"),
    "TIMESTAMP(6)": ("TIMESTAMP(3)", "TIMESTAMP(0)"),
    "BOOLEAN": ("STRING", "INT"),
}


@dataclass(frozen=True)
class Limits:
    """What tables of a test may have: types, and file formats."""

    types: Sequence[str] = (*values.PLAIN, *values.DECIMALS, *values.TIMES, *values.LOCAL_TIMES, *values.CLOCKS)
    nested: Sequence[str] = values.NESTED
    formats: Sequence[str] = ("parquet", "orc", "avro")


def random_table(catalog: Catalog, name: str, seed: int, limits: Limits) -> Table:
    """Create a table, and write, delete, compact and alter it."""
    choice = random.Random(seed)
    columns = [(f"c{number}", choice.choice(limits.types)) for number in range(choice.randint(3, 6))]
    columns += [(f"n{number}", choice.choice(limits.nested)) for number in range(choice.randrange(3))]
    parts = [("p", choice.choice(values.PARTITIONS))] if choice.random() < 0.5 else []
    keys = [("k", choice.choice(values.KEYS))] if choice.random() < 0.6 else []
    options = _options(choice, limits, keyed=bool(keys))
    if any("TIMESTAMP(9)" in text for _, text in columns) and options["file.format"] == "avro":
        options["file.format"] = "parquet"
    key = [name for name, _ in (*keys, *parts)] if keys else []
    table = catalog.create_table(name, [*parts, *keys, *columns], key, [name for name, _ in parts], options)
    for turn in range(choice.randint(2, 5)):
        _write(choice, table, deletes=bool(keys) and options.get("merge-engine") == "deduplicate")
        if choice.random() < 0.3:
            table.compact(full=choice.random() < 0.5)
        if turn and choice.random() < 0.6:
            table = _altered(choice, catalog, name, table, turn)
    if not keys and choice.random() < 0.5:
        column = choice.choice([column for column, _ in columns[:2]])
        if column in table.schema.names:
            table.delete(pa.compute.field(column).is_null())
    return table.refresh()


def _options(choice: random.Random, limits: Limits, *, keyed: bool) -> dict[str, str]:
    options = {"file.format": choice.choice(limits.formats)}
    options["metadata.stats-mode"] = choice.choice(["truncate(16)", "truncate(16)", "full", "counts", "none"])
    if not keyed:
        options |= {"bucket": "-1", "target-file-size": choice.choice(["4kb", "128mb"])}
        return options | ({"deletion-vectors.enabled": "true"} if choice.random() < 0.4 else {})
    options["bucket"] = choice.choice(["1", "2", "-1"])
    options["merge-engine"] = choice.choice(["deduplicate", "deduplicate", "partial-update", "first-row"])
    if options["merge-engine"] == "deduplicate":
        options |= choice.choice([{}, {"deletion-vectors.enabled": "true"}, {"changelog-producer": "lookup"}])
        options |= {"write-only": "true"} if choice.random() < 0.3 else {}
    return options


def _write(choice: random.Random, table: Table, *, deletes: bool) -> None:
    length, schema = choice.randint(1, 60), table.schema
    must = {field.name for field in table.definition.fields if not field.type.nullable}
    nulls = choice.choice([0.0, 0.1, 0.5, 1.0])
    rows = [
        values.array(
            choice, field.type, length, 0.0 if field.name in must else nulls, getattr(column.type, "length", 0)
        )
        for field, column in zip(schema, table.definition.fields, strict=True)
    ]
    kinds = [choice.choice(["+I", "+I", "+I", "-D"]) for _ in range(length)] if deletes else None
    with table.writer() as writer:
        writer.write(pa.Table.from_arrays(rows, schema=schema), kinds)
        writer.commit()


def _altered(choice: random.Random, catalog: Catalog, name: str, table: Table, turn: int) -> Table:
    """Return the table with another schema; the same one if the change is refused."""
    fields = [field for field in table.definition.fields if field.name not in {"p", "k"}]
    field = choice.choice(fields)
    text = written(field.type)
    changes: list[list[SchemaChange]] = [
        [AddColumn(f"added{turn}", choice.choice(["INT", "STRING", "TIMESTAMP(3)", "DECIMAL(5, 2)"]))],
        [RenameColumn(field.name, f"named{turn}")],
        # The name of a column that is gone: its values in older files must not come back.
        [DropColumn(field.name), AddColumn(field.name, choice.choice(["INT", "STRING", text]))],
        *([UpdateColumnType(field.name, wider)] for wider in WIDER.get(text, ())),
    ]
    try:
        catalog.alter_table(name, choice.choice(changes))
    except ConfigError:
        return table
    return catalog.table(name)
