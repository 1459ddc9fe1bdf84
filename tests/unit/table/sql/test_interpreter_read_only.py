"""Statements on a warehouse that this user may read only: each ends with an error, and none changes a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.errors import PenstockError
from penstock.storage.local import LocalStorage
from penstock.table.catalog.catalog import Catalog
from penstock.table.sql.interpreter import Interpreter

TABLES = """
CREATE TABLE k (id INT, v INT, p STRING, PRIMARY KEY (id, p) NOT ENFORCED) PARTITIONED BY (p) WITH ('bucket' = '1');
CREATE TABLE a (id INT, v INT);
CREATE TABLE dv (id INT, v INT, PRIMARY KEY (id) NOT ENFORCED)
  WITH ('bucket' = '-1', 'deletion-vectors.enabled' = 'true');
INSERT INTO k VALUES (1, 1, 'a'), (2, 2, 'b'); INSERT INTO k VALUES (1, 5, 'a');
INSERT INTO a VALUES (1, 1); INSERT INTO a VALUES (2, 1);
INSERT INTO dv VALUES (1, 1); INSERT INTO dv VALUES (1, 2);
CALL sys.create_tag('d.k', 'x', 1); CALL sys.create_branch('d.k', 'b', 'x')
"""
STATEMENTS = """
INSERT INTO k VALUES (3, 3, 'c')
INSERT INTO a VALUES (3, 3)
INSERT INTO dv VALUES (3, 3)
INSERT OVERWRITE k SELECT * FROM k
UPDATE k SET v = 7
UPDATE a SET v = 7
UPDATE dv SET v = 7
DELETE FROM k WHERE id = 1
DELETE FROM a WHERE id = 1
DELETE FROM dv WHERE id = 1
DELETE FROM a
TRUNCATE TABLE a
MERGE INTO k USING (SELECT 1 AS x) AS s ON s.x = id WHEN MATCHED THEN UPDATE SET v = 1
CREATE DATABASE e
DROP DATABASE d CASCADE
CREATE TABLE n (id INT)
CREATE TABLE n AS SELECT * FROM a
DROP TABLE a
ALTER TABLE a RENAME TO z
ALTER TABLE a ADD c INT
ALTER TABLE k DROP PARTITION (p = 'a')
COMMENT ON TABLE k IS 'x'
ANALYZE TABLE k COMPUTE STATISTICS
CALL sys.compact('d.k')
CALL sys.compact('d.a')
CALL sys.compact_manifest('d.k')
CALL sys.expire_snapshots('d.k', 1)
CALL sys.create_tag('d.k', 'y', 1)
CALL sys.delete_tag('d.k', 'x')
CALL sys.rename_tag('d.k', 'x', 'z')
CALL sys.replace_tag('d.k', 'x', 2)
CALL sys.create_branch('d.k', 'c', 'x')
CALL sys.delete_branch('d.k', 'b')
CALL sys.fast_forward('d.k', 'b')
CALL sys.rollback_to('d.k', snapshot_id => 1)
CALL sys.reset_consumer('d.k', 'c', 1)
CALL sys.rescale('d.k', 2)
CALL sys.mark_partition_done('d.k', 'p=a')
"""
CHANGES = ("create", "delete", "delete_tree", "mkdirs", "open_output", "rename_tree", "write", "write_hint")


def files(folder: Path) -> dict[str, tuple[int, int]]:
    found = ((path, path.stat()) for path in folder.rglob("*"))
    return {str(path): (stat.st_mtime_ns, stat.st_size) for path, stat in found}


def test_no_statement_changes_a_warehouse_that_is_read_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    warehouse = tmp_path / "lake"
    with Interpreter(Catalog(warehouse, {"local.sync": "false"}), "d") as made:
        list(made.run(f"CREATE DATABASE d; {TABLES}"))

    def refused(_: LocalStorage, path: str, *rest: object, **more: object) -> None:
        raise PermissionError(13, "Permission denied", path)

    for name in (*CHANGES, "write_together"):
        monkeypatch.setattr(LocalStorage, name, refused)
    before = files(warehouse)
    for statement in STATEMENTS.strip().splitlines():
        with (
            Interpreter(Catalog(warehouse, {"local.sync": "false"}), "d") as lake,
            pytest.raises((PenstockError, OSError), match=r"Permission denied.*lake"),
        ):
            list(lake.run(statement))
        assert files(warehouse) == before, statement
