"""The behaviour of Paimon's actions with a PostgreSQL source that no other test compares."""

from __future__ import annotations

from pathlib import Path

import pytest

import penstock
from penstock.errors import ConfigError, SchemaConflict
from penstock.ingest.postgres.errors import IdentityTooWeak
from tests.integration.postgres.sync import DATABASE, PgPlayground, PgSync

pytestmark = pytest.mark.postgres


def equal(sync: PgSync) -> dict[str, bool]:
    return {name: verdict.is_equal for name, verdict in sync.verified().items()}


def test_shards_in_several_schemas_are_one_table_with_computed_partitions(server: PgPlayground, tmp_path: Path) -> None:
    server.run("CREATE SCHEMA more", "ALTER SCHEMA more OWNER TO cdc")
    shards = ["public.orders_1", "public.orders_2", "more.orders_1"]
    for number, shard in enumerate(shards):
        server.create(shard, "id int PRIMARY KEY, at date NOT NULL, v varchar(10)")
        # The partition is computed from a column that updates would not contain otherwise.
        server.run(f"ALTER TABLE {shard} REPLICA IDENTITY FULL")
        server.run(f"INSERT INTO {shard} VALUES ({number}, '2023-05-0{number + 1}', 'copied')")
    server.create("orders_x", "id int PRIMARY KEY, at date NOT NULL, v varchar(10)")
    flags = ["--computed-column", "y=year(at)", "--primary-keys", "id,y", "--partition-keys", "y"]
    for name in ("database_name", "schema_name", "table_name"):
        flags += ["--metadata-column", name]
    sync = PgSync(server, tmp_path, "orders", ["schema-name=(public|more)", r"table-name=orders_\d+"], flags)
    sync.run()
    server.run(
        "ALTER TABLE orders_1 ADD COLUMN a int, ADD COLUMN b text, ALTER v TYPE varchar(40)",
        "INSERT INTO orders_1 VALUES (10, '2024-01-01', 'a name of more than ten letters', 1, 'one')",
        "INSERT INTO more.orders_1 VALUES (20, '2024-01-01', 'old')",
        "ALTER TABLE more.orders_1 ADD COLUMN b text, ADD COLUMN c bigint",
        "INSERT INTO more.orders_1 VALUES (21, '2025-01-01', 'new', 'two', 5000000000)",
        "UPDATE orders_2 SET v = 'changed'",
        "INSERT INTO orders_x VALUES (99, '2024-01-01', 'no shard')",
    )
    sync.run()
    rows = sync.rows()
    assert {key: (row["schema_name"], row["table_name"], row["y"], row["v"]) for key, row in rows.items()} == {
        0: ("public", "orders_1", 2023, "copied"),
        1: ("public", "orders_2", 2023, "changed"),
        2: ("more", "orders_1", 2023, "copied"),
        10: ("public", "orders_1", 2024, "a name of more than ten letters"),
        20: ("more", "orders_1", 2024, "old"),
        21: ("more", "orders_1", 2025, "new"),
    }
    assert [(row["a"], row["b"], row["c"]) for key, row in sorted(rows.items()) if key in (10, 20, 21)] == [
        (1, "one", None),
        (None, None, None),
        (None, "two", 5_000_000_000),
    ]
    assert {row["database_name"] for row in rows.values()} == {DATABASE}
    types = {field.name: field.type.nullable for field in sync.target().store.schema().fields}
    assert (types["database_name"], types["schema_name"], types["table_name"]) == (False, False, False)
    assert sync.target().partition_keys == ["y"]


def test_keys_that_the_source_lacks_are_refused(server: PgPlayground, tmp_path: Path) -> None:
    server.create("t", "id int PRIMARY KEY, v int NOT NULL")
    server.run("ALTER TABLE t REPLICA IDENTITY FULL")
    for flags, missing in ((["--primary-keys", "id,nope"], "nope"), (["--partition-keys", "day"], "day")):
        with pytest.raises(ConfigError, match=missing):
            PgSync(server, tmp_path / missing, "t", ["table-name=t"], flags).run()
        assert not (tmp_path / missing / "warehouse" / "ods.db" / "t").exists()
    # The unique key of the flags instead of that of the source.
    server.run("INSERT INTO t VALUES (1, 7), (2, 8)")
    sync = PgSync(server, tmp_path / "both", "t", ["table-name=t"], ["--primary-keys", "id,v", "--partition-keys", "v"])
    sync.run()
    server.run("UPDATE t SET v = 9 WHERE id = 1", "DELETE FROM t WHERE id = 2")
    sync.run()
    assert {(row["id"], row["v"]) for row in sync.rows().values()} == {(1, 9)}


def test_reading_again_repairs_a_table_that_needed_old_rows(server: PgPlayground, tmp_path: Path) -> None:
    server.create("t", "id int PRIMARY KEY, v int NOT NULL")
    server.run("INSERT INTO t VALUES (1, 7), (2, 8)")
    sync = PgSync(server, tmp_path, "t", ["table-name=t"], ["--primary-keys", "id,v"])
    sync.run()
    server.run("UPDATE t SET v = 9 WHERE id = 1")
    for _ in range(2):
        with pytest.raises(IdentityTooWeak):
            sync.run()
    # What the hint says. The batch is in the checkpoint, and can never be written.
    server.run("ALTER TABLE t REPLICA IDENTITY FULL")
    keys = sync.flags
    sync.flags = [*keys, "--resnapshot"]
    sync.run()
    sync.flags = keys
    server.run("UPDATE t SET v = 10 WHERE id = 2")
    sync.run()
    assert {(row["id"], row["v"]) for row in sync.rows().values()} == {(1, 9), (2, 10)}


def test_an_existing_table_that_cannot_store_the_rows_is_refused(server: PgPlayground, tmp_path: Path) -> None:
    server.create("t", "id int PRIMARY KEY, v text")
    server.run("INSERT INTO t VALUES (1, 'a')")
    catalog = penstock.Catalog(str(tmp_path / "warehouse"))
    catalog.create_database("ods")
    catalog.create_table("ods.t", [("id", "INT NOT NULL"), ("v", "INT")], ["id"])
    with pytest.raises(SchemaConflict, match="v") as caught:
        PgSync(server, tmp_path, "t", ["table-name=t"]).run()
    assert "t" in str(caught.value.facts.get("table"))
    assert sync_rows(catalog) == []


def sync_rows(catalog: penstock.Catalog) -> list[object]:
    return list(catalog.table("ods.t").scan().to_arrow().to_pylist())


def test_names_are_literal_where_sql_has_wildcards(server: PgPlayground, tmp_path: Path) -> None:
    for name in ("a_b", "axb", "p%q", "Mixed Case"):
        server.create(f'"{name}"', 'id int PRIMARY KEY, "v %_""x" text')
        server.run(f"INSERT INTO \"{name}\" VALUES (1, 'of {name}')")
    sync = PgSync(server, tmp_path, flags=["--including-tables", "a_b|p%q"])
    sync.run()
    server.run(*(f"INSERT INTO \"{name}\" VALUES (2, 'more')" for name in ("a_b", "axb", "p%q")))
    sync.run()
    assert sorted(sync.tables()) == ["a_b", "p%q"]
    assert sync.rows("p%q") == {1: {"id": 1, 'v %_"x': "of p%q"}, 2: {"id": 2, 'v %_"x': "more"}}
    assert equal(sync) == {"a_b": True, "p%q": True}


def test_table_options_follow_the_flags(server: PgPlayground, tmp_path: Path) -> None:
    server.create("t", "id int PRIMARY KEY")
    sync = PgSync(server, tmp_path, "t", ["table-name=t"], ["--table-conf", "bucket=1"])
    sync.run()
    sync.flags = ["--table-conf", "bucket=1", "--table-conf", "snapshot.num-retained.max=70"]
    server.run("INSERT INTO t VALUES (1)")
    sync.run()
    assert sync.target().store.schema().options["snapshot.num-retained.max"] == "70"
    sync.flags = ["--table-conf", "bucket=4"]
    server.run("INSERT INTO t VALUES (2)")
    sync.run()
    assert sync.target().store.schema().options["bucket"] == "1"
    assert set(sync.rows()) == {1, 2}
    assert equal(sync) == {"t": True}


def test_a_unique_index_without_primary_key_is_not_a_key(server: PgPlayground, tmp_path: Path) -> None:
    server.create("t", "id int NOT NULL, v text NOT NULL")
    server.run("CREATE UNIQUE INDEX t_lower ON t (lower(v))", "CREATE UNIQUE INDEX t_v ON t (v)")
    server.run("ALTER TABLE t REPLICA IDENTITY USING INDEX t_v", "INSERT INTO t VALUES (1, 'a')")
    with pytest.raises(ConfigError, match="primary key"):
        PgSync(server, tmp_path, "t", ["table-name=t"]).run()
