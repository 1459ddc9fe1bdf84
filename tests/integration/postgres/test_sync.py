"""Paimon's PostgreSQL actions against a real server: snapshot, log, restart, schema changes, values."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path

import pytest

from penstock.errors import ConfigError
from penstock.ingest.postgres.errors import SlotAhead, SlotMissing
from penstock.ingest.postgres.server.lsn import parse_lsn
from tests.here import Log
from tests.integration.postgres.sync import SLOT, PgPlayground, PgSync

pytestmark = pytest.mark.postgres


def orders(server: PgPlayground, count: int = 500) -> None:
    server.create(
        "orders", "id int PRIMARY KEY, name varchar(20) NOT NULL, price numeric(10,2), at timestamptz, big text"
    )
    server.run(
        "ALTER TABLE orders ALTER big SET STORAGE EXTERNAL",
        "INSERT INTO orders SELECT i, 'name ' || i, i + 0.25, '2026-01-01 00:00:00+00', repeat(md5(i::text), 100) "
        f"FROM generate_series(0, {count - 1}) i",
    )


def equal_to_source(sync: PgSync, table: str = "orders") -> bool:
    """Compare ids, names and lengths of long texts, with sums that the server computes."""
    rows = sync.rows(table)
    mine = (len(rows), sum(rows), sum(len(row["big"] or "") for row in rows.values()))
    theirs = sync.server.run(f"SELECT count(*), coalesce(sum(id), 0), coalesce(sum(length(big)), 0) FROM {table}")
    return "|".join(map(str, mine)) == theirs


def test_table_is_copied_followed_and_continued_after_a_restart(server: PgPlayground, tmp_path: Path) -> None:
    orders(server)
    sync = PgSync(server, tmp_path, "orders", ["table-name=orders", "scan.incremental.snapshot.chunk.size=100"])
    sync.run()
    rows = sync.rows()
    assert equal_to_source(sync)
    assert rows[3]["name"] == "name 3"
    assert rows[3]["price"] == Decimal("3.25")
    assert rows[3]["at"] == dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    server.run(
        "UPDATE orders SET name = 'changed' WHERE id < 10",
        "DELETE FROM orders WHERE id BETWEEN 10 AND 19",
        "INSERT INTO orders (id, name) VALUES (1000, 'new')",
        "UPDATE orders SET id = 2000 WHERE id = 20",
        "BEGIN; DELETE FROM orders; ROLLBACK",
    )
    sync.run()
    rows = sync.rows()
    assert set(rows) == {*range(10), *range(21, 500), 1000, 2000}
    assert (rows[3]["name"], rows[1000]["name"], rows[2000]["name"]) == ("changed", "new", "name 20")
    assert equal_to_source(sync)
    before = sync.target().store.snapshots.latest_id()
    sync.run()
    assert sync.target().store.snapshots.latest_id() == before


def test_unchanged_long_values_are_kept(server: PgPlayground, tmp_path: Path) -> None:
    orders(server, 20)
    sync = PgSync(server, tmp_path, "orders", ["table-name=orders"])
    sync.run()
    server.run(
        "UPDATE orders SET name = 'small change'",
        "UPDATE orders SET id = 100 WHERE id = 1",
        "UPDATE orders SET big = 'short' WHERE id = 2",
        "UPDATE orders SET name = 'then deleted' WHERE id = 3",
        "DELETE FROM orders WHERE id = 3",
        f"INSERT INTO orders VALUES (200, 'n', 1, NULL, '{'x' * 5000}')",
        "UPDATE orders SET name = 'again' WHERE id = 200",
    )
    sync.run()
    rows = sync.rows()
    assert equal_to_source(sync)
    assert rows[200]["big"] == "x" * 5000
    assert (rows[200]["name"], rows[100]["name"], rows[2]["big"]) == ("again", "small change", "short")
    assert rows[0]["big"] == rows[0]["big"][:32] * 100


def test_columns_are_added_and_widened(server: PgPlayground, tmp_path: Path) -> None:
    server.create("t", "id int PRIMARY KEY, n int, gone text")
    server.run("INSERT INTO t VALUES (1, 1, 'a')")
    sync = PgSync(server, tmp_path, "t", ["table-name=t"])
    sync.run()
    server.run(
        "ALTER TABLE t ADD added date",
        "INSERT INTO t VALUES (2, 2, 'b', '2026-02-03')",
        "ALTER TABLE t ALTER n TYPE bigint",
        "INSERT INTO t VALUES (3, 9000000000, 'c')",
        "ALTER TABLE t DROP gone",
        "INSERT INTO t VALUES (4, 4)",
        "ALTER TABLE t ADD ip inet",
        "INSERT INTO t VALUES (5, 5, NULL, '10.0.0.1')",
    )
    sync.run()
    rows = sync.rows()
    assert rows[2]["added"] == dt.date(2026, 2, 3)
    assert rows[3]["n"] == 9_000_000_000
    # The table was read again after the type of a column, so that older rows have no value of a dropped one.
    assert (rows[1]["gone"], rows[4]["gone"], rows[5]["ip"]) == (None, None, "10.0.0.1")


def test_database_with_a_table_that_is_added_later(server: PgPlayground, tmp_path: Path) -> None:
    orders(server, 10)
    server.create("nokey", "id int")
    sync = PgSync(server, tmp_path)
    sync.run()
    assert sync.tables() == ["orders"]
    server.create("later", "id int PRIMARY KEY, big text")
    server.run("INSERT INTO later VALUES (1, 'a'), (2, 'b')")
    sync.run()
    server.run("INSERT INTO later VALUES (3, 'c')", "DELETE FROM later WHERE id = 1")
    sync.run()
    assert sorted(sync.tables()) == ["later", "orders"]
    assert equal_to_source(sync, "later")


VALUES = {
    "bool": ("true", True),
    "int2": ("-32768", -32768),
    "int8": ("9223372036854775807", 9_223_372_036_854_775_807),
    "float4": ("1.5", 1.5),
    "numeric(38,10)": ("-1234567890123456789012345678.0123456789", Decimal("-1234567890123456789012345678.0123456789")),
    "numeric": ("12.5", Decimal("12.500000000000000000")),
    "numeric(50,1)": ("1.5", "1.5"),
    "char(5)": ("'ab'", "ab   "),
    "bytea": (r"'\xdeadbeef'", b"\xde\xad\xbe\xef"),
    "date": ("'2024-02-29'", dt.date(2024, 2, 29)),
    "time": ("'12:34:56.789'", dt.time(12, 34, 56, 789_000)),
    "timestamp": ("'2024-02-29 12:34:56.789012'", dt.datetime(2024, 2, 29, 12, 34, 56, 789_012)),
    "timestamptz": ("'2024-02-29 12:34:56+02'", dt.datetime(2024, 2, 29, 10, 34, 56, tzinfo=dt.UTC)),
    "uuid": ("'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
    "jsonb": ("""'{"a": 1}'""", '{"a": 1}'),
    "bit(11)": ("B'11111000111'", b"\x07\xc7"),
    "bit(1)": ("B'1'", True),
    "varchar(8)[]": ("'{a,NULL,c}'", ["a", None, "c"]),
    "json": ("""'{"b": [1, 2]}'""", '{"b": [1, 2]}'),
    "int4[]": ("'{1,NULL,3}'", [1, None, 3]),
    "text[]": ("""'{a,"b c"}'""", ["a", "b c"]),
    "mood": ("'sad'", "sad"),
    "mood[]": ("'{sad,happy}'", ["sad", "happy"]),
    "positive": ("7", 7),
}
TEXT_VALUES = {
    "inet": ("'10.0.0.1/8'", "10.0.0.1/8"),
    "inet DEFAULT NULL": ("'10.0.0.1'", "10.0.0.1"),
    "inet[]": ("'{10.0.0.1,::1}'", "{10.0.0.1,::1}"),
    "cidr": ("'10.0.0.1'", "10.0.0.1/32"),
    "macaddr": ("'08:00:2b:01:02:03'", "08:00:2b:01:02:03"),
    "xml": ("'<a> </a>'", "<a> </a>"),
    "tsvector": ("'b a'", "'a' 'b'"),
    '"char"': ("'x'", "x"),
    "float8[]": ("'{0.1,1e300}'", [0.1, 1e300]),
    "oid": ("4000000000", "4000000000"),
    "interval": ("'1 day 2 hours'", "1 day 02:00:00"),
    "money": ("12.5", "$12.50"),
    "int4range": ("'[1,5)'", "[1,5)"),
    "point": ("'(1,2)'", "(1,2)"),
    "bit varying(16)": ("B'1011'", b"\x0b"),
}


@pytest.mark.parametrize("more", [{}, TEXT_VALUES], ids=["binary", "text"])
def test_values_are_the_same_from_snapshot_and_log(
    server: PgPlayground, tmp_path: Path, more: dict[str, tuple[str, object]]
) -> None:
    values: dict[str, tuple[str, object]] = {**VALUES, **more}
    server.run("CREATE TYPE mood AS ENUM ('sad', 'happy')", "CREATE DOMAIN positive AS int CHECK (VALUE > 0)")
    columns = ", ".join(f"c{number} {kind}" for number, kind in enumerate(values))
    server.create("v", f"id int PRIMARY KEY, {columns}")
    row = ", ".join(text for text, _ in values.values())
    server.run(f"INSERT INTO v VALUES (1, {row})", "INSERT INTO v (id) VALUES (2)")
    sync = PgSync(server, tmp_path, "v", ["table-name=v"])
    sync.run()
    server.run(f"INSERT INTO v VALUES (3, {row})", "INSERT INTO v (id) VALUES (4)")
    sync.run()
    rows = sync.rows()
    for number, (kind, (_, wanted)) in enumerate(values.items()):
        found = [rows[id_][f"c{number}"] for id_ in (1, 2, 3, 4)]
        assert found == [wanted, None, wanted, None], kind


def test_values_that_no_type_can_store_become_null(server: PgPlayground, tmp_path: Path) -> None:
    server.create("odd", "id int PRIMARY KEY, n numeric(5,2), d date, t timestamp, a int[]")
    statement = "INSERT INTO odd VALUES ({}, 'NaN', 'infinity', '-infinity', '{{{{1,2}},{{3,4}}}}')"
    server.run(statement.format(1))
    sync = PgSync(server, tmp_path, "odd", ["table-name=odd"])
    sync.run()
    server.run(statement.format(2))
    sync.run()
    for id_ in (1, 2):
        assert sync.rows()[id_] == {"id": id_, "n": None, "d": None, "t": None, "a": None}


def test_partitioned_tables_are_captured_as_one(server: PgPlayground, tmp_path: Path) -> None:
    server.create("p", "id int PRIMARY KEY, big text) PARTITION BY RANGE (id")
    server.run(
        "CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (100)",
        "CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (100) TO (200)",
        "INSERT INTO p SELECT i, 'x' FROM generate_series(50, 150) i",
    )
    sync = PgSync(server, tmp_path)
    sync.run()
    server.run(
        "UPDATE p SET id = 199 WHERE id = 50", "DELETE FROM p WHERE id = 51", "UPDATE p SET big = 'yy' WHERE id = 120"
    )
    sync.run()
    assert sync.tables() == ["p"]
    assert equal_to_source(sync, "p")
    assert sync.rows("p")[120]["big"] == "yy"


def test_full_identity_yields_both_images(server: PgPlayground, tmp_path: Path) -> None:
    orders(server, 5)
    server.run("ALTER TABLE orders REPLICA IDENTITY FULL")
    sync = PgSync(server, tmp_path, "orders", ["table-name=orders"])
    sync.run()
    server.run(
        "UPDATE orders SET name = 'x' WHERE id = 1",
        "UPDATE orders SET id = 50 WHERE id = 2",
        "DELETE FROM orders WHERE id = 3",
    )
    sync.run()
    assert set(sync.rows()) == {0, 1, 4, 50}
    assert equal_to_source(sync)


def test_wal_is_confirmed_behind_the_tables(server: PgPlayground, tmp_path: Path) -> None:
    orders(server, 5)
    sync = PgSync(server, tmp_path, "orders", ["table-name=orders"])
    sync.run()
    confirmed = f"SELECT confirmed_flush_lsn - '0/0' FROM pg_replication_slots WHERE slot_name = '{SLOT}'"
    before = int(server.run(confirmed))
    server.run("CREATE TABLE other AS SELECT generate_series(1, 1000)")
    sync.run()
    server.run("INSERT INTO other VALUES (1)")
    sync.run()
    assert int(server.run(confirmed)) > before


def test_lost_positions_are_errors_and_reading_again_repairs_them(server: PgPlayground, tmp_path: Path) -> None:
    orders(server, 5)
    sync = PgSync(server, tmp_path, "orders", ["table-name=orders"])
    sync.run()
    server.run("INSERT INTO orders (id, name) VALUES (100, 'lost')")
    server.run(f"SELECT pg_replication_slot_advance('{SLOT}', pg_current_wal_lsn())")
    server.run("INSERT INTO orders (id, name) VALUES (101, 'there')")
    with pytest.raises(SlotAhead):
        sync.run()
    server.run(f"SELECT pg_drop_replication_slot('{SLOT}')")
    with pytest.raises(SlotMissing) as caught:
        sync.run()
    assert "--resnapshot" in str(caught.value)
    sync.flags = ["--resnapshot"]
    sync.run()
    assert equal_to_source(sync)


def test_tables_without_a_key_are_refused(server: PgPlayground, tmp_path: Path) -> None:
    server.create("nokey", "id int")
    with pytest.raises(ConfigError, match="none of the selected tables has a primary key"):
        PgSync(server, tmp_path, "nokey", ["table-name=nokey"]).run()


def test_rows_that_are_older_than_a_column_get_its_value(server: PgPlayground, tmp_path: Path) -> None:
    server.create("filled", "id int PRIMARY KEY, a int")
    server.run("INSERT INTO filled SELECT i, i FROM generate_series(1, 3) i")
    sync = PgSync(server, tmp_path, "filled", ["table-name=filled"])
    sync.run()
    server.run(
        "ALTER TABLE filled ADD d text DEFAULT 'seven', ADD n int NOT NULL DEFAULT 5, ADD e int",
        "UPDATE filled SET a = 10 WHERE id = 1",
        "DELETE FROM filled WHERE id = 2",
    )
    sync.run()
    sync.run()
    rows = sync.rows()
    assert {number: (row["a"], row["d"], row["n"], row["e"]) for number, row in rows.items()} == {
        1: (10, "seven", 5, None),
        3: (3, "seven", 5, None),
    }


def test_deletes_are_applied_or_logged_in_tables_ordered_by_a_field(
    server: PgPlayground, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server.create("ordered", 'id int PRIMARY KEY, "Changed" int, "Day" date')
    server.run("INSERT INTO ordered SELECT i, i, '2024-01-01' FROM generate_series(1, 4) i")
    flags = ["--table-conf", "sequence.field=changed", "--catalog-conf", "case-sensitive=false"]
    sync = PgSync(server, tmp_path, "ordered", ["table-name=ordered"], flags)
    sync.run()
    server.run("DELETE FROM ordered WHERE id = 2")
    sync.run()
    assert "event=deletes_without_effect table=public.ordered deletes=1 missing=Changed" in caplog.text
    server.run("ALTER TABLE ordered REPLICA IDENTITY FULL", "DELETE FROM ordered WHERE id = 3")
    sync.flags = [*flags, "--reset", "ordered"]
    sync.run()
    assert set(sync.rows()) == {1, 4}
    server.run("DELETE FROM ordered WHERE id = 4")
    sync.flags = flags
    sync.run()
    assert set(sync.rows()) == {1}
    assert all(verdict.is_equal for verdict in sync.verified().values())


def test_rows_move_between_partitions_of_columns_in_mixed_case(server: PgPlayground, tmp_path: Path) -> None:
    server.create("moving", 'id int PRIMARY KEY, "Day" date')
    server.run("ALTER TABLE moving REPLICA IDENTITY FULL", "INSERT INTO moving VALUES (1, '2024-01-01')")
    flags = ["--primary-keys", "ID,Day", "--partition-keys", "Day", "--catalog-conf", "case-sensitive=false"]
    sync = PgSync(server, tmp_path, "moving", ["table-name=moving"], flags)
    sync.run()
    server.run("UPDATE moving SET \"Day\" = '2024-02-02'")
    sync.run()
    assert sync.target().scan().to_arrow().to_pylist() == [{"id": 1, "day": dt.date(2024, 2, 2)}]
    assert all(verdict.is_equal for verdict in sync.verified().values())


def test_the_server_keeps_the_wal_of_two_batches_at_most(server: PgPlayground, tmp_path: Path) -> None:
    orders(server, 5)
    sync = PgSync(server, tmp_path, "orders", ["table-name=orders"])
    sync.run()
    kept = f"SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = '{SLOT}'"
    for number in range(6, 11):
        server.run(f"INSERT INTO orders (id, name) VALUES ({number}, 'new')")
        sync.run()
        log = Log.at(tmp_path / "checkpoint" / "log.json")
        ends = [parse_lsn(end["log"]) for end in log.ends]
        assert len(ends) > number - 5
        assert parse_lsn(server.run(kept)) >= ends[-3]
