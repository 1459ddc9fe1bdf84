"""The tables of the database `sys`, also where some tables are of another kind."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from penstock.table.catalog.catalog import Catalog
from penstock.table.sql.interpreter import Interpreter


@pytest.mark.parametrize(("kind", "read"), [("format-table", 1), ("object-table", 1), ("materialized-table", 2)])
def test_tables_of_other_kinds_are_listed_and_only_their_partitions_left_out(
    tmp_path: Path, kind: str, read: int
) -> None:
    catalog = Catalog(tmp_path, {"local.sync": "false"})
    catalog.create_database("d")
    with Interpreter(catalog, "d") as made:
        for name in ("a", "b"):
            list(
                made.run(
                    f"CREATE TABLE {name} (id INT, p STRING) PARTITIONED BY (p); INSERT INTO {name} VALUES (1, 'x')"
                )
            )
    schema = tmp_path / "d.db" / "a" / "schema" / "schema-0"
    described = json.loads(schema.read_text())
    described["options"] |= {"type": kind, "owner": "ann"}
    schema.write_text(json.dumps(described))
    with Interpreter(Catalog(tmp_path, {"local.sync": "false"}), "d") as interpreter:
        (tables,) = interpreter.run("SELECT table_name, table_type, owner FROM sys.tables ORDER BY 1")
        (partitions,) = interpreter.run("SELECT table_name FROM sys.partitions")
    assert [tuple(row.values()) for row in tables.to_pylist()] == [("a", kind, "ann"), ("b", "table", None)]
    assert len(partitions) == read
