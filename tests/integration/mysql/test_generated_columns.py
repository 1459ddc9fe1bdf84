"""Generated columns, which MariaDB 11.8.9 leaves out of the row images of updates and deletes."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.ingest.mysql.errors import RowImageError
from penstock.ingest.mysql.generated_values import ROW_GONE
from penstock.pipelines.tasks.batch_report import BatchReport
from tests.integration.mysql.playground import Playground
from tests.integration.mysql.sync import Sync

COLUMNS = {
    "doubled": "INT AS (v * 2) STORED",
    "computed": "INT AS (v + 1) VIRTUAL",
    "word": "VARCHAR(20) AS (CONCAT(name, '!')) STORED",
    "ratio": "DOUBLE AS (v / 3) STORED",
    "big": "DECIMAL(20, 4) AS (v * 1.5) STORED",
    "day": "DATE AS (DATE(made)) STORED",
    "raw": "VARBINARY(9) AS (UNHEX(HEX(v))) VIRTUAL",
    "maybe": "INT AS (NULLIF(v, 9)) STORED",
}


# Types of keys with two values each. Rows are found by them at the server.
KEYS = {
    "BIT(1)": ("b'0'", "b'1'"),
    "BIT(9)": ("b'100100111'", "b'1'"),
    "BIT(64)": ("b'0'", "~0"),
    "TINYINT(1)": ("0", "1"),
    "FLOAT": ("0.1", "-1e30"),
    "DOUBLE": ("0.1", "1e300"),
    "DECIMAL(38, 30)": ("0.000000012345678901234567890001", "0.000000012345678901234567890002"),
    "ENUM('a', 'b')": ("'a'", "'b'"),
    "VARBINARY(9)": ("X'00'", "X'27'"),
    "BLOB": ("X'00FF'", "X'27'"),
    "TEXT": ("'ä'", "''''"),
    "TIMESTAMP(6)": ("'2024-01-01 01:02:03.123456'", "'2026-10-25 01:30:00'"),
}


def leaves_out(server: Playground) -> bool:
    """Return whether updates lack generated columns."""
    server.run(
        "CREATE TABLE tried (id INT PRIMARY KEY, a INT, b INT AS (a) STORED)", "INSERT INTO tried(id) VALUES (1)"
    )
    start = server.here()
    server.run("UPDATE tried SET a = 1")
    try:
        server.log_since(start)
    except RowImageError:
        return True
    finally:
        server.run("DROP TABLE tried")
    return False


def test_changes_of_rows_with_generated_columns_are_complete(server: Playground, tmp_path: Path) -> None:
    columns = ", ".join(f"{name} {type_}" for name, type_ in COLUMNS.items())
    server.run(
        f"CREATE TABLE t (k VARCHAR(9) COLLATE utf8mb4_bin, n INT, v INT, name VARCHAR(9), made DATETIME(3), {columns},"
        " PRIMARY KEY (k, n))",
        "INSERT INTO t(k, n, v, name, made) VALUES ('a', 1, 1, 'x', '2024-01-31 10:00:00'), ('A', 1, 2, 'it''s', NULL),"
        " ('ä', 2, NULL, NULL, NULL), ('moved', 3, 3, 'm', NULL), ('gone', 4, 4, 'g', NULL)",
    )
    sync = Sync(server, tmp_path, "t", ["table-name=t"])
    sync.run()
    server.run(
        "UPDATE t SET v = 7 WHERE k = 'a'",
        "UPDATE t SET v = 9 WHERE k = 'a'",
        "UPDATE t SET name = 'ü', made = '2025-02-28' WHERE k = 'A'",
        "UPDATE t SET v = 5 WHERE k = 'ä'",
        "UPDATE t SET n = 33, v = 6 WHERE k = 'moved'",
        "UPDATE t SET v = 8 WHERE k = 'gone'",
        "DELETE FROM t WHERE k = 'gone'",
        "INSERT INTO t(k, n, v) VALUES ('new', 5, 5) ON DUPLICATE KEY UPDATE v = 0",
        "INSERT INTO t(k, n, v) VALUES ('new', 5, 5) ON DUPLICATE KEY UPDATE v = 11",
        "REPLACE INTO t(k, n, v) VALUES ('new', 5, 12)",
    )
    reports: list[BatchReport] = []
    sync.run(lambda _, report: reports.append(report))
    assert [verdict.is_equal for verdict in sync.verified()] == [True]
    rows = {row["k"]: row for row in sync.rows(order="k")}
    assert set(rows) == {"a", "A", "ä", "moved", "new"}
    found = rows["a"]
    assert (found["doubled"], found["computed"], found["word"], found["maybe"]) == (18, 10, "x!", None)
    gone = sum(report.passed_over[f"messages.{ROW_GONE}"] for report in reports)
    assert gone == (1 if leaves_out(server) else 0)


def test_rows_with_generated_columns_are_found_by_keys_of_every_type(server: Playground, tmp_path: Path) -> None:
    for number, (kind, values) in enumerate(KEYS.items()):
        part = "k(9)" if kind in {"BLOB", "TEXT"} else "k"
        server.run(
            f"CREATE TABLE t{number} (k {kind} NOT NULL, v INT, g INT AS (v * 2) STORED, PRIMARY KEY ({part}))",
            f"INSERT INTO t{number}(k, v) VALUES ({values[0]}, 1), ({values[1]}, 2)",
        )
    sync = Sync(server, tmp_path)
    sync.run()
    server.run(*(f"UPDATE t{number} SET v = v + 10" for number in range(len(KEYS))))
    sync.run()
    found = {kind: [(row["v"], row["g"]) for row in sync.rows(f"t{n}", order="v")] for n, kind in enumerate(KEYS)}
    assert found == {kind: [(11, 22), (12, 24)] for kind in KEYS}


def test_a_generated_column_that_is_needed_to_find_rows_is_refused(server: Playground, tmp_path: Path) -> None:
    lacks = leaves_out(server)
    server.run("CREATE TABLE t (id INT, v INT, p INT AS (v % 3) STORED, PRIMARY KEY (id))")
    server.run("INSERT INTO t(id, v) VALUES (1, 1), (2, 2)")
    sync = Sync(server, tmp_path, "t", ["table-name=t"], flags=["--partition-keys", "p", "--primary-keys", "id,p"])
    sync.run()
    server.run("UPDATE t SET v = 3 WHERE id = 1", "DELETE FROM t WHERE id = 2")
    if lacks:
        with pytest.raises(RowImageError, match="by which rows are found") as refused:
            sync.run()
        assert refused.value.facts["columns"] == "p"
        return
    sync.run()
    assert sync.rows() == [{"id": 1, "v": 3, "p": 0}]


def test_images_without_columns_that_are_not_generated_stay_refused(server: Playground, tmp_path: Path) -> None:
    server.run("CREATE TABLE t (id INT PRIMARY KEY, v INT, w INT)", "INSERT INTO t VALUES (1, 1, 1)")
    sync = Sync(server, tmp_path, "t", ["table-name=t"])
    sync.run()
    server.run("SET SESSION binlog_row_image = MINIMAL", "DELETE FROM t", "SET SESSION binlog_row_image = FULL")
    with pytest.raises(RowImageError, match="without all their columns") as refused:
        sync.run()
    assert refused.value.facts["columns"] == "v, w"


@pytest.mark.mysql
def test_a_short_image_of_a_table_without_a_key_is_explained_by_the_setting(mysql: Playground, tmp_path: Path) -> None:
    mysql.start_over()
    mysql.run("CREATE TABLE t (v INT, w INT)", "INSERT INTO t VALUES (1, 1)")
    sync = Sync(mysql, tmp_path, "t", ["table-name=t"], flags=["--include-keyless", "append"])
    sync.run()
    mysql.run(
        "SET SESSION binlog_row_image = MINIMAL", "INSERT INTO t(v) VALUES (2)", "SET SESSION binlog_row_image = FULL"
    )
    with pytest.raises(RowImageError, match="without all their columns") as refused:
        sync.run()
    assert "binlog_row_image = FULL" in str(refused.value)
