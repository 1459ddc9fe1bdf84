"""The behaviour of Flink CDC's pipelines from MySQL to Paimon that no other test compares."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest

from penstock.pipelines.commands.main import main
from penstock.pipelines.config import yaml_file
from penstock.table.catalog.catalog import Catalog
from penstock.table.handle import Table
from tests.here import note_as_spark_does, run
from tests.integration.mysql.playground import DATABASE, Playground
from tests.integration.mysql.sync import Sync

FILE = r"""
source:
  type: mysql
  hostname: 127.0.0.1
  port: {port}
  username: cdc
  password: cdc
  tables: {database}.\.*
  server-id: 7400-7499
  server-time-zone: UTC
  metadata.list: op_ts
transform:
  - source-table: {database}.ALPHA
    projection: >-
      ID, CONCAT('v', VERSION) AS VERSION, LOWER(NAME) AS NAME,
      CASE WHEN AGE < 18 THEN 'Juvenile' WHEN AGE >= 18 THEN NAME END AS ROLE
    filter: AGE < 19
  - source-table: {database}.BETA
    projection: >-
      \*, CAST(VERSION AS DOUBLE) + 100 AS VERSION,
      CAST(AGE AS VARCHAR) || ' - ' || NAME AS LABEL, '大五 ÀÆÉ' AS TEXT
  - source-table: {database}.GAMMA
    projection: ID || ' <- id' AS UID, *
    filter: ID > 1
  - source-table: {database}.DELTA
    projection: \*, __schema_name__ || '.' || __table_name__ AS PLACE, __data_event_type__ AS KIND, op_ts AS OPTS
  - source-table: {database}.CLOCKS
    projection: >-
      ID, LOCALTIME as lcl_t, CURRENT_TIME as cur_t, CAST(CURRENT_TIMESTAMP AS TIMESTAMP) as cur_ts,
      CAST(NOW() AS TIMESTAMP) as now_ts, LOCALTIMESTAMP as lcl_ts, CURRENT_DATE as cur_dt
route:
  - source-table: {database}.ALPHA
    sink-table: other.PEOPLE
  - source-table: {database}.\.*
    sink-table: ods.new_<>
    replace-symbol: <>
sink:
  type: paimon
  catalog.properties.metastore: filesystem
  catalog.properties.warehouse: {warehouse}
  table.properties.bucket: 1
pipeline:
  name: shop
  parallelism: 2
  local-time-zone: America/Los_Angeles
  schema.change.behavior: evolve
  route-mode: FIRST_MATCH
"""
PEOPLE = "(ID INT PRIMARY KEY, VERSION VARCHAR(17), AGE INT, NAME VARCHAR(99))"


def rows(warehouse: Path, name: str, key: str = "ID") -> list[tuple[Any, ...]]:
    table = Catalog(str(warehouse)).table(name)
    assert isinstance(table, Table)
    return [tuple(row.values()) for row in table.scan().to_arrow().sort_by(key).to_pylist()]


@pytest.mark.mysql
def test_projections_and_filters_of_a_file_follow_schema_changes(
    mysql: Playground, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mysql.start_over()
    mysql.run(
        *(f"CREATE TABLE {name} {PEOPLE}" for name in ("ALPHA", "BETA")),
        "INSERT INTO ALPHA VALUES (1, '8', 17, 'Alice'), (2, '8.1', 18, 'Bob'), (3, '10', 19, 'Carol')",
        "INSERT INTO BETA VALUES (1, '11', 21, 'Eva'), (2, '12', 22, 'Fred')",
        *(f"CREATE TABLE {name} (ID INT PRIMARY KEY, V VARCHAR(9))" for name in ("GAMMA", "DELTA", "CLOCKS", "PLAIN")),
        *(f"INSERT INTO {name} VALUES (1, 'a'), (2, NULL)" for name in ("GAMMA", "DELTA", "CLOCKS", "PLAIN")),
    )
    warehouse, path = tmp_path / "warehouse", tmp_path / "flink.yaml"
    path.write_text(FILE.format(port=mysql.port, database=DATABASE, warehouse=warehouse))
    run(yaml_file.load(path))
    assert rows(warehouse, "other.PEOPLE") == [(1, "v8", "alice", "Juvenile"), (2, "v8.1", "bob", "Bob")]
    place = f"{DATABASE}.DELTA"
    assert rows(warehouse, "ods.new_DELTA") == [(1, "a", place, "+I", 0), (2, None, place, "+I", 0)]
    mysql.run(
        "UPDATE ALPHA SET AGE = 20 WHERE ID = 1",
        "UPDATE ALPHA SET AGE = 10 WHERE ID = 3",
        "DELETE FROM BETA WHERE ID = 1",
        "ALTER TABLE GAMMA ADD COLUMN CODENAME TINYINT AFTER V, ADD COLUMN FIRST VARCHAR(17) FIRST",
        "INSERT INTO GAMMA VALUES ('First', 3, '8', 8)",
        "ALTER TABLE GAMMA CHANGE COLUMN CODENAME CODE_NAME DOUBLE",
        "INSERT INTO GAMMA VALUES ('1st', 4, '9', 9.5)",
        "ALTER TABLE GAMMA DROP COLUMN CODE_NAME",
        "INSERT INTO GAMMA VALUES ('x', 5, '10')",
        "UPDATE DELTA SET V = 'zz' WHERE ID = 1",
        "DELETE FROM DELTA WHERE ID = 2",
        "INSERT INTO CLOCKS VALUES (3, 'later')",
        "ALTER TABLE PLAIN MODIFY V VARCHAR(30), ADD W BIT(1)",
        "INSERT INTO PLAIN VALUES (3, 'longer than nine', b'1')",
    )
    run(yaml_file.load(path))
    assert rows(warehouse, "other.PEOPLE") == [(2, "v8.1", "bob", "Bob"), (3, "v10", "carol", "Juvenile")]
    assert rows(warehouse, "ods.new_BETA") == [(2, 22, "Fred", 112.0, "22 - Fred", "大五 ÀÆÉ")]
    assert rows(warehouse, "ods.new_GAMMA") == [
        ("2 <- id", 2, None, None, None),
        ("3 <- id", 3, "8", "First", None),  # read again for the new type, when the source had dropped the column
        ("4 <- id", 4, "9", "1st", 9.5),
        ("5 <- id", 5, "10", "x", None),
    ]
    ((*row, millis),) = rows(warehouse, "ods.new_DELTA")
    assert (row, abs(millis - dt.datetime.now().timestamp() * 1000) < 600_000) == ([1, "zz", place, "+U"], True)
    for _, local, current, stamp, now, local_stamp, day in rows(warehouse, "ods.new_CLOCKS"):
        assert (local, stamp) == (current, now)
        assert (local_stamp.replace(microsecond=0).time(), local_stamp.date()) == (local, day)
        assert stamp - local_stamp in {dt.timedelta(hours=7), dt.timedelta(hours=8)}  # of Los Angeles
    assert rows(warehouse, "ods.new_PLAIN")[2] == (3, "longer than nine", True)
    mysql.run("INSERT INTO PLAIN VALUES (4, 'later', b'0')")
    run(yaml_file.load(path))  # beyond the position of the table that was read again
    note_as_spark_does(warehouse / "_penstock" / "shop")
    assert main(["verify", str(path)]) == 0
    assert capsys.readouterr().out.count("equal    ") == 6


@pytest.mark.mysql
def test_a_key_beside_an_index_on_a_json_array(mysql: Playground, tmp_path: Path) -> None:
    """MySQL keeps such an index in a hidden column, which the log does not have."""
    mysql.start_over()
    mysql.run(
        "CREATE TABLE t (id INT PRIMARY KEY, tags JSON, KEY k ((CAST(tags AS CHAR(64) ARRAY))))",
        """INSERT INTO t VALUES (1, '["a", "b"]'), (2, '[]')""",
    )
    sync = Sync(mysql, tmp_path, "t", ["table-name=t"])
    sync.run()
    mysql.run(
        """INSERT INTO t VALUES (3, '["c"]')""", "UPDATE t SET tags = '[]' WHERE id = 1", "DELETE FROM t WHERE id = 2"
    )
    sync.run()
    assert {row["id"]: row["tags"] for row in sync.rows()} == {1: "[]", 3: '["c"]'}


def test_chunks_of_a_key_beyond_the_signed_numbers(server: Playground, tmp_path: Path) -> None:
    keys = [0, 1, 2**63 - 1, 2**63, 2**63 + 1, 2**64 - 2, 2**64 - 1]
    server.run(
        "CREATE TABLE t (id BIGINT UNSIGNED PRIMARY KEY, v INT)",
        "INSERT INTO t VALUES " + ", ".join(f"({key}, 1)" for key in keys),
    )
    sync = Sync(server, tmp_path, "t", ["table-name=t", "scan.incremental.snapshot.chunk.size=2"])
    sync.run()
    server.run(f"UPDATE t SET v = 2 WHERE id = {2**64 - 1}", f"DELETE FROM t WHERE id = {2**63}")
    sync.run()
    expected = {key: 2 if key == 2**64 - 1 else 1 for key in keys if key != 2**63}
    assert {int(row["id"]): row["v"] for row in sync.rows()} == expected
