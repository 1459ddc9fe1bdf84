"""Tables that streaming INSERT statements wrote, as Java Paimon reads and goes on writing them."""

from __future__ import annotations

from pathlib import Path

import penstock
from penstock.table.catalog.catalog import Catalog
from tests.golden.relations import difference
from tests.interop.oracle.client import Oracle
from tests.invariants import check_invariants

SOURCE = [("id", "INT NOT NULL"), ("g", "INT NOT NULL"), ("v", "BIGINT")]
STREAM = "SET 'execution.runtime-mode' = 'streaming';"
INSERTS = """
BEGIN STATEMENT SET;
INSERT INTO paid SELECT id, v * 2 FROM s WHERE v > 10;
INSERT INTO sums SELECT g, v FROM s;
INSERT INTO log SELECT rowkind, id FROM s$audit_log;
END;
"""


def test_java_reads_what_streams_wrote_from_its_changelog(oracle: Oracle, tmp_path: Path) -> None:
    options = {"bucket": "1", "changelog-producer": "lookup"}
    source = oracle.create(tmp_path, "shop.s", SOURCE, primary_keys=["id"], options=options)
    oracle.write(source, [("+I", number, number % 2, number * 5) for number in range(6)])
    tables = """
    CREATE TABLE paid (id INT, w BIGINT, PRIMARY KEY (id) NOT ENFORCED) WITH (
        'bucket' = '1', 'changelog-producer' = 'input');
    CREATE TABLE sums (g INT, v BIGINT, PRIMARY KEY (g) NOT ENFORCED) WITH (
        'bucket' = '1', 'merge-engine' = 'aggregation', 'fields.v.aggregate-function' = 'sum');
    CREATE TABLE log (kind STRING, id INT);
    """
    penstock.sql(f"{tables} {STREAM} {INSERTS}", tmp_path, database="shop", until_caught_up=True)
    oracle.write(source, [("+U", 3, 0, 1), ("-D", 5, 1, 25), ("+I", 7, 1, 100)])
    penstock.sql(f"{STREAM} {INSERTS}", tmp_path, database="shop", until_caught_up=True)
    catalog = Catalog(tmp_path)
    expected = {"paid": {4: 40, 7: 200}, "sums": {0: 31, 1: 105}}
    for name, rows in expected.items():
        table = catalog.table(f"shop.{name}")
        ours = table.scan().to_arrow()
        assert dict(zip(*(column.to_pylist() for column in ours.columns), strict=True)) == rows
        assert difference(oracle.read(Path(table.path)), ours) is None
        check_invariants(table, oracle=oracle)
    log = catalog.table("shop.log")
    assert difference(oracle.read(Path(log.path)), log.scan().to_arrow()) is None
    assert sorted(log.scan().to_pandas()["kind"]) == ["+I"] * 7 + ["+U", "-D", "-U"]
