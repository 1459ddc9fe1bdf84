"""The tables of the database `sys`, also where some tables are of another kind."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from penstock.errors import TableCorrupt
from penstock.storage.local import LocalStorage
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


@pytest.fixture
def damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Interpreter:
    """Return a catalog with three tables, of which the first two have schema files that cannot be read."""
    catalog = Catalog(tmp_path, {"local.sync": "false"})
    catalog.create_database("d")
    with Interpreter(catalog, "d") as made:
        for name in ("cut", "denied", "whole"):
            columns = "(id INT, p STRING) PARTITIONED BY (p) WITH ('owner' = 'ann')"
            list(made.run(f"CREATE TABLE {name} {columns}; INSERT INTO {name} VALUES (1, 'x')"))
    (tmp_path / "d.db/cut/schema/schema-0").write_text('{"id": 0, "fie')
    real = LocalStorage.read

    def read(storage: LocalStorage, path: str, *rest: int) -> bytes:
        if "/denied/schema/" in path:
            raise PermissionError(13, "Permission denied", path)
        return real(storage, path, *rest)

    monkeypatch.setattr(LocalStorage, "read", read)
    return Interpreter(Catalog(tmp_path, {"local.sync": "false"}), "d")


@pytest.mark.parametrize("name", ["tables", "partitions", "all_table_options"])
def test_a_table_that_cannot_be_read_does_not_hide_the_others(
    damaged: Interpreter, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    (found,) = damaged.run(f"SELECT DISTINCT table_name FROM sys.{name}")
    assert found.to_pylist() == [{"table_name": "whole"}]
    said = [record.getMessage() for record in caplog.records]
    for broken in ("cut", "denied"):
        assert any(f"event=table_not_described table=d.{broken} " in text for text in said), (broken, said)


def test_an_error_that_no_table_escapes_is_raised(damaged: Interpreter, tmp_path: Path) -> None:
    shutil.rmtree(tmp_path / "d.db/whole")
    with pytest.raises(TableCorrupt, match="schema-0"):
        list(damaged.run("SELECT * FROM sys.tables"))
