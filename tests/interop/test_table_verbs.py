"""Tables that our verbs changed, as Java Paimon reads and goes on writing them."""

from __future__ import annotations

import math
from pathlib import Path

import pyarrow as pa
import pytest

import penstock
from penstock.errors import ConfigError
from penstock.table.catalog.clone import clone_table
from penstock.table.handle import Table
from penstock.table.sql.dml.merge_into import MergeSource, merge_into
from penstock.table.sql.dml.merge_query import Clause
from tests.golden.relations import difference
from tests.interop.oracle.client import Oracle
from tests.invariants import check_invariants

COLUMNS = [("dt", "STRING NOT NULL"), ("id", "INT NOT NULL"), ("v", "STRING")]
ROWS = [("+I", dt, number, f"{dt}{number}") for dt in ("a", "b") for number in range(20)]


def made(oracle: Oracle, warehouse: Path, *, keys: bool = True, **options: str) -> Table:
    path = oracle.create(
        warehouse,
        "shop.t",
        COLUMNS,
        primary_keys=["dt", "id"] if keys else [],
        partition_keys=["dt"],
        options={"bucket": "2" if keys else "-1", **{key.replace("__", "-"): value for key, value in options.items()}},
    )
    oracle.write(path, ROWS[:25])
    oracle.write(path, ROWS[25:])
    return penstock.Catalog(str(warehouse)).table("shop.t")


def assert_java_reads(table: Table, oracle: Oracle, rows: int) -> None:
    java = oracle.read(Path(table.path))
    ours = table.scan().to_arrow()
    assert difference(java, ours) is None
    assert ours.num_rows == rows


def goes_on(table: Table, oracle: Oracle, rows: int) -> None:
    """Java writes and compacts what we left."""
    oracle.write(Path(table.path), [("+I", "a", 100, "java")], compact="full")
    assert_java_reads(table, oracle, rows + 1)
    check_invariants(table, oracle=oracle)


def test_java_reads_rows_deleted_by_key(oracle: Oracle, tmp_path: Path) -> None:
    table = made(oracle, tmp_path)
    table.delete("id % 4 = 0")
    assert_java_reads(table, oracle, 30)
    goes_on(table, oracle, 30)


@pytest.mark.parametrize("vectors", ["false", "true"])
def test_java_reads_rows_deleted_without_keys(oracle: Oracle, tmp_path: Path, vectors: str) -> None:
    table = made(oracle, tmp_path, keys=False, **{"deletion-vectors.enabled": vectors})
    table.delete("id % 4 = 0")
    assert_java_reads(table, oracle, 30)
    table.delete("id % 4 = 1 and dt = 'a'")
    assert_java_reads(table, oracle, 25)
    oracle.write(Path(table.path), [("+I", "a", 100, "java")])
    assert_java_reads(table, oracle, 26)
    assert table.compact(full=True)
    assert_java_reads(table, oracle, 26)
    check_invariants(table, oracle=oracle)


def test_java_reads_and_writes_a_rescaled_table(oracle: Oracle, tmp_path: Path) -> None:
    table = made(oracle, tmp_path)
    oracle.alter(Path(table.path), [{"kind": "set", "key": "bucket", "value": "3"}])
    for dt in ("a", "b"):
        table.refresh().rescale(partition={"dt": dt})
    assert_java_reads(table, oracle, 40)
    goes_on(table, oracle, 40)


@pytest.mark.parametrize("type_", ["DOUBLE", "FLOAT"])
@pytest.mark.parametrize("dropped", ["0.0", "-0.0", "NaN", "1.5", "2.5"])
def test_a_partition_of_a_float_is_dropped_as_java_drops_it(
    oracle: Oracle, tmp_path: Path, type_: str, dropped: str
) -> None:
    """Each zero is a partition of its own, and NaN is equal to itself."""
    left = []
    for name in ("java", "ours"):
        path = oracle.create(
            tmp_path, f"shop.{name}", [("p", type_), ("v", "INT")], partition_keys=["p"], options={"bucket": "-1"}
        )
        table = penstock.Catalog(str(tmp_path)).table(f"shop.{name}")
        with table.writer() as writer:
            values = pa.array([0.0, -0.0, math.nan, 1.5]).cast(table.schema.field("p").type)
            writer.write(pa.table([values, [0, 1, 2, 3]], schema=table.schema))
            writer.commit()
        if name == "java":
            oracle.drop_partition(path, {"p": dropped})
        else:
            table.drop_partitions([{"p": float(dropped)}])
        left.append(sorted(table.refresh().scan().to_arrow()["v"].to_pylist()))
    assert (
        left[0] == left[1] == [number for number, text in enumerate(["0.0", "-0.0", "NaN", "1.5"]) if text != dropped]
    )


def test_java_reads_a_merged_table(oracle: Oracle, tmp_path: Path) -> None:
    table = made(oracle, tmp_path)
    catalog = penstock.Catalog(str(tmp_path))
    clauses = [
        Clause("matched-upsert", "v = 'new'", "s.id < 5"),
        Clause("matched-delete", condition="s.id > 15"),
        Clause("not-matched-insert", "s.dt, s.id, s.v"),
    ]
    view = "CREATE TEMP VIEW s AS SELECT dt, id, v FROM t WHERE dt = 'b' UNION ALL SELECT 'c', 1, 'first'"
    merge_into(catalog, "shop.t", MergeSource("s", [view]), "t.dt = s.dt AND t.id = s.id", clauses)
    assert_java_reads(table, oracle, 37)
    goes_on(table, oracle, 37)


def test_java_reads_a_clone(oracle: Oracle, tmp_path: Path) -> None:
    table = made(oracle, tmp_path)
    clone = clone_table(table, penstock.Catalog(str(tmp_path / "copy")), "shop.copy", where="dt = 'a'")
    assert_java_reads(clone, oracle, 20)
    goes_on(clone, oracle, 20)


def test_java_reads_tables_whose_tags_moved(oracle: Oracle, tmp_path: Path) -> None:
    table = made(oracle, tmp_path)
    table.create_tag("t", 1, retain_millis=86_400_000)
    table.replace_tag("t", 2)
    table.rename_tag("t", "u")
    assert difference(oracle.read(Path(table.path), tag="u"), table.scan(tag="u").to_arrow()) is None
    assert table.tags == {"u": 2}


def test_java_reads_our_statistics(oracle: Oracle, tmp_path: Path) -> None:
    table = made(oracle, tmp_path)
    table.analyze()

    java = oracle.system(Path(table.path), "statistics")
    assert difference(java, table.statistics) is None
    assert len(java.rows) == 1
    goes_on(table, oracle, 40)


def test_files_outside_of_the_table_are_read_and_not_written(oracle: Oracle, tmp_path: Path) -> None:
    place = {"data-file.external-paths": f"file://{tmp_path}/outside"}
    outside = {**place, "data-file.external-paths.strategy": "round-robin"}
    table = made(oracle, tmp_path, **outside)
    assert not list(Path(table.path).rglob("*.parquet"))
    assert list((tmp_path / "outside").rglob("*.parquet"))
    assert_java_reads(table, oracle, 40)
    assert table.remove_orphan_files(older_than=1 << 60, dry_run=True) == []
    with pytest.raises(ConfigError, match=r"data-file.external-paths = .* cannot be written here"):
        table.writer()


@pytest.mark.parametrize("producer", ["none", "input", "lookup"])
def test_java_reads_a_table_changed_by_sql(oracle: Oracle, tmp_path: Path, producer: str) -> None:
    table = made(oracle, tmp_path, **{"changelog-producer": producer})
    script = """
        UPDATE t SET v = upper(v) WHERE dt = 'a' AND id < 5;
        DELETE FROM t WHERE id BETWEEN 5 AND 9 AND dt = 'b';
        MERGE INTO t USING (SELECT 'a' AS dt, range::INT AS id, 'new' AS v FROM range(18, 22)) AS s
            ON t.dt = s.dt AND t.id = s.id
            WHEN MATCHED AND s.id = 18 THEN DELETE
            WHEN MATCHED THEN UPDATE SET v = s.v
            WHEN NOT MATCHED THEN INSERT *
            WHEN NOT MATCHED BY SOURCE AND t.id = 0 THEN UPDATE SET v = 'zero';
        INSERT OVERWRITE t PARTITION (dt = 'c') SELECT id, v FROM t WHERE dt = 'a' AND id > 15;
        ALTER TABLE t ADD COLUMN n INT DEFAULT 7 AFTER id
    """
    with pytest.raises(ConfigError, match="a default cannot be added"):
        penstock.sql(script, tmp_path, database="shop")
    penstock.sql(
        "ALTER TABLE t ADD COLUMN n INT AFTER id; INSERT INTO t VALUES ('d', 1, 2, 'x')", tmp_path, database="shop"
    )
    assert_java_reads(table.refresh(), oracle, 42)
    changed = penstock.sql(
        "SELECT id, v FROM t WHERE dt = 'a' AND (id IN (0, 4) OR id > 17) ORDER BY id", tmp_path, database="shop"
    )
    expected = {"id": [0, 4, 19, 20, 21], "v": ["zero", "A4", "new", "new", "new"]}
    assert changed.to_pydict() == expected
    goes_on_after_alter(table.refresh(), oracle, 42)


@pytest.mark.parametrize("vectors", ["false", "true"])
def test_java_reads_a_table_without_keys_changed_by_sql(oracle: Oracle, tmp_path: Path, vectors: str) -> None:
    table = made(oracle, tmp_path, keys=False, **{"deletion-vectors.enabled": vectors})
    script = """
        UPDATE t SET v = upper(v), dt = 'c' WHERE dt = 'a' AND id < 5;
        DELETE FROM t WHERE id IN (SELECT max(id) FROM t);
        MERGE INTO t USING (SELECT 'b' AS dt, range::INT AS id, 'new' AS v FROM range(16, 22)) AS s
            ON t.dt = s.dt AND t.id = s.id
            WHEN MATCHED AND s.id = 16 THEN DELETE
            WHEN MATCHED THEN UPDATE SET v = s.v
            WHEN NOT MATCHED THEN INSERT *
    """
    penstock.sql(script, tmp_path, database="shop")
    assert_java_reads(table, oracle, 40)
    oracle.write(Path(table.path), [("+I", "a", 100, "java")])
    assert (
        penstock.sql("UPDATE t SET v = 'ours' WHERE v = 'java'", tmp_path, database="shop")["updated"][0].as_py() == 1
    )
    assert_java_reads(table, oracle, 41)
    check_invariants(table, oracle=oracle)


def goes_on_after_alter(table: Table, oracle: Oracle, rows: int) -> None:
    """Java writes and compacts a table with one more column."""
    oracle.write(Path(table.path), [("+I", "a", 100, 1, "java")], compact="full")
    assert_java_reads(table, oracle, rows + 1)
    check_invariants(table, oracle=oracle)


@pytest.mark.parametrize("clause", ["WITH ('bucket' = '2')", "USING paimon TBLPROPERTIES ('bucket' = '2')"])
def test_java_reads_a_table_that_sql_created(oracle: Oracle, tmp_path: Path, clause: str) -> None:
    by = " PARTITIONED BY (dt)"
    parts = f"{by} {clause}" if clause.startswith("WITH") else clause.replace("paimon", f"paimon{by}")
    script = f"""
        CREATE DATABASE shop; USE shop;
        CREATE TABLE t (dt STRING, id BIGINT, at TIMESTAMP_LTZ(3), price DECIMAL(10, 2) DEFAULT 1.50 COMMENT 'net',
            tags ARRAY<STRING>, size ROW<w INT, h INT>, PRIMARY KEY (dt, id) NOT ENFORCED) COMMENT 'all' {parts};
        INSERT INTO t (dt, id, at, tags, size) VALUES ('a', 1, '2026-01-31 12:00:00.123', ['x'], {{'w': 1, 'h': 2}});
        UPDATE t SET price = price * 2;
        CREATE TABLE copied WITH ('primary-key' = 'id', 'bucket' = '1') AS SELECT id, price, tags FROM t
    """
    penstock.sql(script, tmp_path)
    catalog = penstock.Catalog(tmp_path)
    for name in ("shop.t", "shop.copied"):
        assert_java_reads(catalog.table(name), oracle, 1)
