"""`penstock verify`: tables against their sources at one place of the log."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from penstock.errors import ConfigError
from penstock.pipelines.api.compared_columns import INEXACT, NULLS
from penstock.pipelines.commands.main import main
from penstock.table.catalog.catalog import Catalog
from tests.integration.mysql.playground import Playground
from tests.integration.mysql.sync import Sync
from tests.integration.mysql.test_snapshot_equals_log import random_table

TYPES = (
    "CREATE TABLE many (a VARCHAR(10) COLLATE utf8mb4_general_ci, b INT, flag TINYINT(1), tiny TINYINT UNSIGNED,"
    " big BIGINT UNSIGNED, price DECIMAL(20, 4), ratio DOUBLE, small FLOAT, day DATE, at DATETIME(3),"
    " stamp TIMESTAMP(6) NULL, clock TIME, year_ YEAR, kind ENUM('x', 'y'), tags SET('p', 'q'), bits BIT(12),"
    " data VARBINARY(9), note TEXT, doc JSON, PRIMARY KEY (a, b))"
)


def fill(server: Playground, first: int, last: int) -> None:
    rows = ", ".join(
        f"('k{n % 9}', {n}, {n % 2}, {n % 200}, 18446744073709551{n % 600:03}, -{n}.1234, {n / 7}, {n / 3},"
        f" '2020-02-{1 + n % 28:02}', '2021-01-01 10:00:00.{n % 1000:03}', '2022-06-01 00:00:{n % 60:02}.000001',"
        f" '11:22:{n % 60:02}', 2000 + {n % 99}, '{'xy'[n % 2]}', 'p,q', b'{n % 512:b}', X'00FF{n % 256:02X}',"
        f" 'text {n} é 中', '[{n}, {{\"a\": 1.5}}]')"
        for n in range(first, last)
    )
    server.run(f"INSERT INTO many VALUES {rows}")


def test_equal_tables_of_every_type_and_both_kinds_of_keys(server: Playground, tmp_path: Path) -> None:
    server.run(TYPES, "CREATE TABLE one (id BIGINT PRIMARY KEY, v INT)")
    fill(server, 0, 300)
    server.run("INSERT INTO one VALUES " + ", ".join(f"({n * 1000}, {n})" for n in range(500)))
    sync = Sync(server, tmp_path, conf=["scan.incremental.snapshot.chunk.size=70", "server-time-zone=Asia/Shanghai"])
    sync.run()
    fill(server, 300, 350)
    server.run("UPDATE many SET note = 'changed', flag = 1 - flag WHERE b % 7 = 0", "DELETE FROM one WHERE v % 5 = 0")
    sync.run()
    # What comes later is no difference: both sides are compared at the place that the tables stand for.
    server.run("DELETE FROM many WHERE b < 100", "UPDATE one SET v = -v", "INSERT INTO one VALUES (77, 77)")
    verdicts = {verdict.table: verdict for verdict in sync.verified()}
    assert all(verdict.is_equal for verdict in verdicts.values()), verdicts
    assert (verdicts["ods.many"].source_rows, verdicts["ods.many"].table_rows) == (350, 350)
    assert verdicts["ods.one"].table_rows == 400
    sync.run()
    assert all(verdict.is_equal for verdict in sync.verified())


@pytest.mark.parametrize("seed", [1, 2])
def test_every_type_of_both_servers_is_written_from_snapshot_and_binlog(
    server: Playground, tmp_path: Path, seed: int
) -> None:
    """Each row once as it was read, and once more, under another key, as it was logged."""
    random_table(server, random.Random(seed), rows=30)
    sync = Sync(server, tmp_path)
    sync.run()
    assert [verdict for verdict in sync.verified() if not verdict.is_equal] == []
    read = {row.pop("id"): row for row in sync.rows("t")}
    server.run("UPDATE t SET id = id + 1000")
    sync.run()
    assert [verdict for verdict in sync.verified() if not verdict.is_equal] == []
    assert {row.pop("id") - 1000: row for row in sync.rows("t")} == read


@pytest.mark.mysql
def test_different_rows_are_listed_with_their_ranges_and_set_the_exit_code(
    mysql: Playground, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mysql.start_over()
    mysql.run("CREATE TABLE one (id INT PRIMARY KEY, v INT)")
    mysql.run("INSERT INTO one VALUES " + ", ".join(f"({n}, {n})" for n in range(10_000)))
    sync = Sync(mysql, tmp_path)
    sync.run()
    words = ["verify", sync.command, *sync.words]
    assert main(words) == 0
    assert "equal    ods.one: 10,000 rows at" in capsys.readouterr().out
    table = sync.target("one")
    kinds = pa.array([3, 2, 0], pa.int8())
    with table.writer(commit_user="vandal") as writer:
        writer.write(
            pa.table({"id": pa.array([5, 5000, 20_000], pa.int32()), "v": pa.array([5, 1, 1], pa.int32())}), kinds
        )
        writer.commit()
    assert main([*words, "--json"]) == 1
    output = json.loads(capsys.readouterr().out)
    assert output["equal"] is False
    [reported] = output["tables"]
    assert reported["ranges"] == ["id from 0 to 4095", "id from 4096 to 8191", "id from 16384 to 20479"]
    assert [(key["how"], key["key"]["id"]) for key in reported["keys"]] == [
        ("missing", 5),
        ("extra", 20_000),
        ("changed", 5000),
    ]
    assert main(words) == 1
    assert "changed  id=5000" in capsys.readouterr().out


@pytest.mark.mysql
def test_tables_that_cannot_be_compared_are_listed(mysql: Playground, tmp_path: Path) -> None:
    mysql.start_over()
    mysql.run("CREATE TABLE t (id INT)", "INSERT INTO t VALUES (1)")
    sync = Sync(mysql, tmp_path, "t", ["table-name=t"], ["--sync-primary-keys-from-source-schema", "false"])
    sync.run()
    with pytest.raises(ConfigError, match="cannot be compared"):
        sync.verified()


@pytest.mark.mysql
def test_computed_keys_are_compared(mysql: Playground, tmp_path: Path) -> None:
    mysql.start_over()
    mysql.run("CREATE TABLE t (id INT PRIMARY KEY, at DATETIME, v INT)")
    mysql.run(*(f"INSERT INTO t VALUES ({n}, '2026-01-0{1 + n % 3} 23:30:00', {n})" for n in range(30)))
    keys = ["--partition-keys", "dt", "--primary-keys", "id,dt", "--computed-column", "dt=date_format(at,yyyy-MM-dd)"]
    sync = Sync(mysql, tmp_path, "t", ["table-name=t", "server-time-zone=Asia/Shanghai"], keys)
    sync.run()
    mysql.run("UPDATE t SET at = '2026-01-09 00:00:00' WHERE id < 5", "DELETE FROM t WHERE id > 25")
    sync.run()
    [verdict] = sync.verified()
    assert (verdict.is_equal, verdict.source_rows, verdict.table_rows) == (True, 26, 26)
    table = sync.target("t")
    assert {row["dt"] for row in table.scan().to_arrow().to_pylist()} >= {"2026-01-09"}
    rows = table.scan().to_arrow().filter(pc.field("id") == 7)
    with table.writer(commit_user="vandal") as writer:
        writer.write(rows, pa.array([3], pa.int8()))
        writer.write(rows.set_column(rows.schema.get_field_index("dt"), "dt", pa.array(["2026-02-02"])))
        writer.commit()
    [verdict] = sync.verified()
    assert not verdict.is_equal
    assert [(difference.how, difference.key["id"], difference.key["dt"]) for difference in verdict.keys] == [
        ("missing", 7, "2026-01-02"),
        ("extra", 7, "2026-02-02"),
    ]


@pytest.mark.mysql
def test_keys_that_depend_on_the_time_cannot_be_compared(mysql: Playground, tmp_path: Path) -> None:
    mysql.start_over()
    mysql.run("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    keys = ["--primary-keys", "id,seen", "--computed-column", "seen=now()"]
    sync = Sync(mysql, tmp_path, "t", ["table-name=t"], keys)
    sync.run()
    with pytest.raises(ConfigError, match="key of this table cannot be computed again") as caught:
        sync.verified()
    assert caught.value.facts["columns"] == "seen"


@pytest.mark.mysql
def test_tables_are_compared_beside_one_that_cannot_be(
    mysql: Playground, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mysql.start_over()
    mysql.run("CREATE TABLE one (id INT PRIMARY KEY)", "CREATE TABLE total (id INT PRIMARY KEY)")
    mysql.run("INSERT INTO one VALUES (1)", "INSERT INTO total VALUES (2)")
    mysql.run("CREATE TABLE `no$table` (id INT PRIMARY KEY)", "INSERT INTO `no$table` VALUES (3)")
    sync = Sync(mysql, tmp_path)
    catalog = Catalog(f"{tmp_path}/warehouse")
    catalog.create_database("ods", ignore_if_exists=True)
    columns = pa.schema([pa.field("id", pa.int32(), nullable=False)])
    catalog.create_table("ods.total", columns, ["id"], options={"bucket": "1", "merge-engine": "aggregation"})
    sync.run()
    words = ["verify", sync.command, *sync.words]
    assert main(words) == 0
    output = capsys.readouterr().out
    assert "equal    ods.one: 1 rows" in output
    assert "skipped  ods.total: rows of this table do not correspond to rows of its source" in output
    assert "skipped  ods.no$table: 'no$table' cannot be the name of a table" in output
    assert main([*words, "--tables", "total"]) == 2
    assert "cannot be compared" in capsys.readouterr().err


def test_tables_are_equal_after_random_changes_between_restarts(server: Playground, tmp_path: Path) -> None:
    dice = random.Random(7)
    server.run(
        "CREATE TABLE t (k VARCHAR(8) PRIMARY KEY, v INT, w VARCHAR(30))", "CREATE TABLE u (id INT PRIMARY KEY, v INT)"
    )
    sync = Sync(server, tmp_path, conf=["scan.incremental.snapshot.chunk.size=20"], flags=["--max-batch-rows", "50"])

    def change(*_: object) -> None:
        for _turn in range(5):
            key, other = dice.randint(0, 150), dice.randint(0, 150)
            server.run(
                dice.choice(
                    [
                        f"REPLACE INTO t VALUES ('K{key}', {other}, REPEAT('x', {key % 30}))",
                        f"UPDATE IGNORE t SET k = 'k{other}' WHERE k = 'k{key}'",
                        f"DELETE FROM t WHERE v % 11 = {key % 11}",
                        f"REPLACE INTO u VALUES ({key}, {other}), ({key + 1}, {other}), ({key + 500}, 1)",
                        f"UPDATE u SET v = v + 1 WHERE id > {other}",
                    ]
                )
            )

    for _turn in range(30):
        change()
    sync.run(change)
    for _turn in range(3):
        sync.run(change)
    assert [verdict for verdict in sync.verified() if not verdict.is_equal] == []


def test_values_changed_by_type_rules_are_counted_separately(
    server: Playground, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.run(
        "CREATE TABLE odd (id INT PRIMARY KEY, at TIME(6), flag TINYINT(1), day DATE)",
        "INSERT INTO odd VALUES (1, '12:34:56.123456', 1, '2020-01-01'), (2, '-01:00:00', 2, '0000-00-00'),"
        " (3, '12:34:56.123000', -1, NULL), (4, NULL, 0, NULL), (5, NULL, NULL, NULL)",
    )
    sync = Sync(server, tmp_path)
    sync.run()
    (verdict,) = sync.verified()
    assert verdict.is_equal
    assert dict(verdict.lossy) == {INEXACT: 3, NULLS: 2}
    assert main(["verify", "mysql-sync-database", *sync.words]) == 0
    assert f"3 {INEXACT}" in capsys.readouterr().out


def test_a_renamed_column_and_a_parked_table_hide_no_other(
    server: Playground, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.run("CREATE TABLE a (id INT PRIMARY KEY, v INT)", "CREATE TABLE b (id INT PRIMARY KEY, v INT)")
    server.run("INSERT INTO a VALUES (1, 1)", "INSERT INTO b VALUES (1, 1)")
    sync = Sync(server, tmp_path, flags=("--on-rename-column", "rename", "--isolate", "true"))
    sync.run()
    server.run("ALTER TABLE a RENAME COLUMN v TO w")
    sync.run()
    assert [verdict.is_equal for verdict in sync.verified()] == [True, True]
    server.run("ALTER TABLE b MODIFY v VARBINARY(20)", "INSERT INTO b VALUES (2, 'x')", "INSERT INTO a VALUES (2, 2)")
    sync.run()
    capsys.readouterr()
    assert main(["verify", "mysql-sync-database", *sync.words, "--wait", "1"]) == 0
    output = capsys.readouterr().out
    assert "equal    ods.a: 2 rows" in output
    assert "skipped  ods.b: the table is parked" in output


def test_a_table_whose_source_was_just_altered_hides_no_other(
    server: Playground, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.run("CREATE TABLE a (id INT PRIMARY KEY, v INT)", "CREATE TABLE b (id INT PRIMARY KEY, v INT)")
    server.run("INSERT INTO b VALUES (1, 1)")
    sync = Sync(server, tmp_path)
    sync.run()
    server.run("ALTER TABLE b MODIFY v VARBINARY(20)", "INSERT INTO b VALUES (2, 'x')")
    assert main(["verify", "mysql-sync-database", *sync.words, "--wait", "1"]) == 3
    output = capsys.readouterr().out
    assert "equal    ods.a: 0 rows" in output
    assert "skipped  ods.b: the source table was altered" in output
