"""Pipeline files against real servers: init, check, plan, and a file of Flink CDC that runs as it is."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from penstock.errors import ConfigError
from penstock.ingest.mysql.errors import NoUsableKey
from penstock.pipelines.commands.main import main
from penstock.pipelines.config import yaml_file
from penstock.table.catalog.catalog import Catalog
from penstock.table.handle import Table
from tests.here import run
from tests.integration.mysql.playground import DATABASE, Playground

FLINK = r"""
source:
  type: mysql
  hostname: 127.0.0.1
  port: PORT
  username: cdc
  password: "${TEST_MYSQL_PASSWORD}"
  tables: DATABASE.\.*
  server-id: 7400-7499
  schema-change.enabled: true
transform:
  - source-table: DATABASE.orders
    projection: \*, UPPER(status) as loud
    filter: amount > 0
route:
  - source-table: DATABASE.\.*
    sink-table: ods.ods_<>
    replace-symbol: <>
sink:
  type: paimon
  catalog.properties.metastore: filesystem
  catalog.properties.warehouse: WAREHOUSE
  table.properties.bucket: 1
pipeline:
  name: shop
  parallelism: 2
  execution.runtime-mode: BATCH
"""


@pytest.fixture
def file(server: Playground, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    server.run(
        "CREATE TABLE orders (id INT PRIMARY KEY, status VARCHAR(10), amount DECIMAL(10, 2))",
        "CREATE TABLE users (id INT PRIMARY KEY, name VARCHAR(10))",
        "INSERT INTO orders VALUES (1, 'new', 5), (2, 'paid', 0), (3, 'new', 7)",
        "INSERT INTO users VALUES (1, 'ann')",
    )
    monkeypatch.setenv("TEST_MYSQL_PASSWORD", "cdc")
    path = tmp_path / "flink.yaml"
    text = FLINK.replace("PORT", str(server.port)).replace("DATABASE", DATABASE)
    path.write_text(text.replace("WAREHOUSE", f"{tmp_path}/warehouse"))
    return path


def rows(tmp_path: Path, name: str) -> list[dict[str, object]]:
    table = Catalog(f"{tmp_path}/warehouse").table(name)
    assert isinstance(table, Table)
    found: list[dict[str, object]] = table.scan().to_arrow().sort_by("id").to_pylist()
    return found


def test_a_file_of_flink_cdc_runs_unchanged(
    file: Path, server: Playground, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", str(file), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["ok"]
    assert main(["plan", str(file)]) == 0
    out = capsys.readouterr().out
    assert "create ods.ods_orders" in out
    assert "loud" in out
    run(yaml_file.load(file))
    assert [(row["id"], row["loud"]) for row in rows(tmp_path, "ods.ods_orders")] == [(1, "NEW"), (3, "NEW")]
    assert rows(tmp_path, "ods.ods_users") == [{"id": 1, "name": "ann"}]
    server.run(
        "UPDATE orders SET amount = 0 WHERE id = 1",
        "UPDATE orders SET amount = 9 WHERE id = 2",
        "ALTER TABLE users ADD COLUMN vip INT",
        "INSERT INTO users VALUES (2, 'bob', 7)",
    )
    run(yaml_file.load(file))
    assert [(row["id"], row["loud"]) for row in rows(tmp_path, "ods.ods_orders")] == [(2, "PAID"), (3, "NEW")]
    assert [row["vip"] for row in rows(tmp_path, "ods.ods_users")] == [None, 7]


def test_a_table_of_several_source_tables_is_not_emptied_for_one_of_them(
    file: Path, server: Playground, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    text = (
        OURS.replace("PORT", str(server.port))
        .replace("DATABASE", DATABASE)
        .replace("WAREHOUSE", f"{tmp_path}/warehouse")
    )
    text = text.replace(
        "  server-time-zone: auto\n", "  ddl: {truncate: delete-all, drop: delete-all, rename-column: rename}\n"
    )
    text += f"route:\n  - {{source-table: '{DATABASE}.t_.*', sink-table: ods.t}}\n"
    server.run("CREATE TABLE t_1 (id INT PRIMARY KEY, a INT)", "CREATE TABLE t_2 (id INT PRIMARY KEY, a INT)")
    server.run("INSERT INTO t_1 VALUES (1, 1)", "INSERT INTO t_2 VALUES (2, 2)")
    run(yaml_file.read(text))
    server.run(
        "ALTER TABLE t_2 RENAME COLUMN a TO b", "TRUNCATE t_1", "DROP TABLE users", "INSERT INTO t_2 VALUES (3, 3)"
    )
    for _ in range(2):
        run(yaml_file.read(text))
    assert [(row["id"], row["a"], row["b"]) for row in rows(tmp_path, "ods.t")] == [
        (1, 1, None),
        (2, 2, None),
        (3, None, 3),
    ]
    assert rows(tmp_path, "ods.users") == [], "a table of one source table follows it"
    for event in ("truncate_not_followed", "rename_columns_not_followed"):
        assert f"event={event} table=ods.t " in caplog.text


def test_init_reads_the_server_and_writes_a_file_that_runs(
    file: Path, server: Playground, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MYSQL_PASSWORD", "cdc")
    made = tmp_path / "made.yaml"
    source = f"mysql://cdc@127.0.0.1:{server.port}/{DATABASE}"
    assert main(["init", source, f"{tmp_path}/lake", "--output", str(made)]) == 0
    assert "2 tables" in capsys.readouterr().out
    assert main(["check", str(made)]) == 0
    assert "cdc" not in made.read_text().replace("username: cdc", "")
    server.run("CREATE TABLE keyless (a INT)")
    assert main(["check", str(made)]) == 0
    shown = capsys.readouterr().out
    assert f"{DATABASE}.keyless is left out: the source table has no primary key" in shown
    assert "--include-keyless append" in shown


OURS = """
pipeline: {name: shop, trigger: available-now, local-time-zone: UTC}
source:
  type: mysql
  hostname: 127.0.0.1
  port: PORT
  username: cdc
  password: "${TEST_MYSQL_PASSWORD}"
  tables: ["DATABASE.*"]
  server-time-zone: auto
  snapshot: {order: [DATABASE.users, "*"], parallel: 1}
sink:
  catalog: {warehouse: WAREHOUSE}
  database: ods
  table-options: {bucket: 1}
  no-primary-key: skip
  metadata-columns: {table_name: _table}
  expire: {snapshots-retained: 10..100, time-retained: 1h}
errors: {position-lost: resnapshot}
"""


@pytest.fixture
def ours(file: Path, server: Playground, tmp_path: Path) -> Path:
    path = tmp_path / "ours.yaml"
    text = OURS.replace("PORT", str(server.port)).replace("DATABASE", DATABASE)
    path.write_text(text.replace("WAREHOUSE", f"{tmp_path}/warehouse"))
    return path


def test_tables_are_read_again_if_the_binlog_is_lost_and_the_file_allows_it(
    ours: Path, server: Playground, tmp_path: Path
) -> None:
    run(yaml_file.load(ours))
    assert rows(tmp_path, "ods.users") == [{"id": 1, "name": "ann", "_table": "users"}]
    assert Catalog(f"{tmp_path}/warehouse").table("ods.users").options["snapshot.num-retained.max"] == "100"
    server.run(
        "DELETE FROM users WHERE id = 1",
        "INSERT INTO users VALUES (2, 'bob')",
        "FLUSH BINARY LOGS",
        "INSERT INTO users VALUES (3, 'cy')",
        "FLUSH BINARY LOGS",
    )
    server.run(f"PURGE BINARY LOGS TO '{server.here().file}'")
    run(yaml_file.load(ours))
    assert [row["id"] for row in rows(tmp_path, "ods.users")] == [2, 3]
    assert [row["id"] for row in rows(tmp_path, "ods.orders")] == [1, 2, 3]


def test_tables_without_a_key_can_be_refused_by_name(ours: Path, server: Playground) -> None:
    server.run("CREATE TABLE k (a INT)")
    ours.write_text(ours.read_text().replace("no-primary-key: skip", "no-primary-key: fail"))
    with pytest.raises(NoUsableKey, match=f"{DATABASE}.k"):
        run(yaml_file.load(ours))


def test_one_table_is_emptied_and_read_again_while_others_continue(
    ours: Path, server: Playground, tmp_path: Path
) -> None:
    run(yaml_file.load(ours))
    users, orders = (Catalog(f"{tmp_path}/warehouse").table(f"ods.{name}") for name in ("users", "orders"))
    assert isinstance(users, Table)
    assert isinstance(orders, Table)
    users.delete(pc.field("id") == 1)
    with users.writer(commit_user="by hand") as writer:
        writer.write(pa.table({"id": pa.array([99], pa.int32()), "name": ["stray"], "_table": ["users"]}))
        writer.commit()
    before = orders.latest_snapshot
    text = ours.read_text()
    ours.write_text(text.replace("trigger: available-now", "trigger: available-now, reset: [ods.user]"))
    with pytest.raises(ConfigError, match=r"no table of the source goes to ods\.user") as caught:
        run(yaml_file.load(ours))
    assert "did you mean ods.users?" in str(caught.value)
    server.run("INSERT INTO users VALUES (2, 'bob')")
    ours.write_text(text.replace("trigger: available-now", "trigger: available-now, reset: [ods.users]"))
    run(yaml_file.load(ours))
    assert [row["name"] for row in rows(tmp_path, "ods.users")] == ["ann", "bob"]
    assert orders.latest_snapshot == before
    emptied = len(users.snapshots)
    ours.write_text(text)
    run(yaml_file.load(ours))
    assert len(users.snapshots) == emptied


def test_a_table_of_several_sources_is_read_again_from_all_of_them(
    ours: Path, server: Playground, tmp_path: Path
) -> None:
    server.run("CREATE TABLE users_2 (id INT PRIMARY KEY, name VARCHAR(10))", "INSERT INTO users_2 VALUES (7, 'dan')")
    route = f'route: [{{source-table: "{DATABASE}.users.*", sink-table: ods.all_users}}]\n'
    ours.write_text(ours.read_text() + route)
    run(yaml_file.load(ours))
    ours.write_text(ours.read_text().replace("available-now", "available-now, reset: ods.all_users"))
    run(yaml_file.load(ours))
    assert [row["name"] for row in rows(tmp_path, "ods.all_users")] == ["ann", "dan"]


def test_status_warns_of_a_short_binlog_retention(
    ours: Path, server: Playground, capsys: pytest.CaptureFixture[str]
) -> None:
    run(yaml_file.load(ours))
    before = server.rows("SELECT @@GLOBAL.binlog_expire_logs_seconds")[0][0]
    server.run("SET GLOBAL binlog_expire_logs_seconds = 7200")
    try:
        capsys.readouterr()
        assert main(["status", str(ours), "--json"]) == 0
        warned = json.loads(capsys.readouterr().out)["warnings"]
    finally:
        server.run(f"SET GLOBAL binlog_expire_logs_seconds = {before}")
    assert warned == ["binlogs are kept for a short time only: 2 h, wanted 7 days"]
