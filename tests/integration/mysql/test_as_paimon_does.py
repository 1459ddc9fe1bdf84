"""The behaviour of Paimon's actions with a MySQL source that no other test compares."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from penstock.errors import ConfigError, DecodeError, SchemaConflict
from penstock.table.catalog.catalog import Catalog
from penstock.table.schema.changes import UpdateColumnComment
from penstock.table.schema.type_text import written
from tests.integration.mysql.playground import DATABASE, Playground
from tests.integration.mysql.sync import Sync


def test_metadata_that_every_row_has_is_not_null(server: Playground, tmp_path: Path) -> None:
    server.run("CREATE TABLE t (id INT PRIMARY KEY, v INT NOT NULL)", "INSERT INTO t VALUES (1, 1)")
    names = ["table_name", "database_name", "op_ts"]
    flags = [word for name in names for word in ("--metadata-column", name)]
    sync = Sync(server, tmp_path, "t", ["table-name=t"], [*flags, "--metadata-column-prefix", "_m_"])
    sync.run()
    server.run("INSERT INTO t VALUES (2, 2)", "ALTER TABLE t ADD COLUMN more INT", "INSERT INTO t VALUES (3, 3, 3)")
    sync.run()
    columns = {field.name: field.type.nullable for field in sync.target().store.schema().fields}
    assert columns == {"id": False, "v": False, "more": True, "_m_table_name": False} | dict.fromkeys(
        ["_m_database_name", "_m_op_ts"], False
    )
    assert {(row["_m_database_name"], row["_m_table_name"]) for row in sync.rows()} == {(DATABASE, "t")}
    assert sync.rows()[0]["_m_op_ts"].timestamp() == 0  # of a row that was copied
    assert sync.rows()[2]["_m_op_ts"].timestamp() > 0


def test_times_as_texts_have_the_digits_of_paimon(server: Playground, tmp_path: Path) -> None:
    kinds = {
        "d0": ("DATETIME", "2023-03-23 14:30:05.000"),
        "d2": ("DATETIME(2)", "2023-03-23 14:30:05.120"),
        "d3": ("DATETIME(3)", "2023-03-23 14:30:05.123"),
        "d4": ("DATETIME(4)", "2023-03-23 14:30:05.123400"),
        "d6": ("DATETIME(6)", "2023-03-23 14:30:05.123456"),
        "s0": ("TIMESTAMP NULL", "2023-03-23 14:30:05.000000"),
        "s3": ("TIMESTAMP(3) NULL", "2023-03-23 14:30:05.123000"),
        "s6": ("TIMESTAMP(6) NULL", "2023-03-23 14:30:05.123456"),
    }
    server.run(
        f"CREATE TABLE t (id INT PRIMARY KEY, {', '.join(f'{name} {kind}' for name, (kind, _) in kinds.items())})"
    )
    # Servers round; what is cut off here would be rounded down.
    values = [f"'{text}'" for _, text in kinds.values()]
    server.run(f"INSERT INTO t VALUES (1, {', '.join(values)})")
    sync = Sync(server, tmp_path, "t", ["table-name=t"], ["--type-mapping", "to-string"])
    sync.run()
    server.run(f"INSERT INTO t VALUES (2, {', '.join(values)})", "INSERT INTO t (id) VALUES (3)")
    sync.run()
    wanted = {name: text for name, (_, text) in kinds.items()}
    copied, logged, empty = ({name: row[name] for name in kinds} for row in sync.rows())
    assert (copied, logged, empty) == (wanted, wanted, dict.fromkeys(kinds))
    assert [verdict for verdict in sync.verified() if not verdict.is_equal] == []


@pytest.mark.parametrize("options", [[], ["--table-conf", "bucket=2"]])
def test_shards_with_different_keys_are_reported_with_their_keys(
    server: Playground, tmp_path: Path, options: list[str]
) -> None:
    server.run(
        "CREATE TABLE incompatible_pk_1 (k INT PRIMARY KEY, v1 VARCHAR(10))",
        "CREATE TABLE incompatible_pk_2 (k INT, v1 VARCHAR(10), PRIMARY KEY (k, v1))",
    )
    sync = Sync(server, tmp_path, "t", ["table-name=incompatible_pk_\\d+"], options)
    with pytest.raises(ConfigError, match=r"can't infer primary keys .* different primary keys") as caught:
        sync.run()
    assert caught.value.facts["keys"] == f"{DATABASE}.incompatible_pk_1: k; {DATABASE}.incompatible_pk_2: k, v1"
    sync.flags = [*options, "--primary-keys", "k"]
    sync.run()
    assert sync.target().store.schema().primary_keys == ("k",)


# Each with the server's own expression.
COMPUTED = {
    "year_of_day": ("year(DAY)", "YEAR(Day)"),
    "month_of_at": ("month(at)", "MONTH(At)"),
    "hour_of_stamp": ("hour(Stamp)", "HOUR(Stamp)"),
    "text_of_at": ("date_format(at, yyyy-MM-dd HH)", "DATE_FORMAT(At, '%Y-%m-%d %H')"),
    "part": ("substring(day, 5)", "SUBSTRING(Day, 6)"),
    "cut": ("trUNcate(id, 2)", "Id - Id % 2"),
    "eleven": ("cast(11, INT)", "11"),
    "trimmed": ("trim(of_computed)", "TRIM(LOWER(V))"),
    "of_computed": ("lower(up)", "LOWER(V)"),
    "up": ("upper(V)", "UPPER(V)"),
    "from_seconds": ("minute(seconds)", "MINUTE(FROM_UNIXTIME(Seconds))"),
    "from_millis": ("second(millis, 3)", "SECOND(FROM_UNIXTIME(Millis DIV 1000))"),
    "from_micros": (
        "date_format(micros, yyyy-MM-dd HH:mm:ss.SSSSSS, 6)",
        "CONCAT(DATE_FORMAT(FROM_UNIXTIME(Micros DIV 1000000), '%Y-%m-%d %H:%i:%s.'), Micros % 1000000)",
    ),
    "from_nanos": (
        "date_format(nanos, yyyy-MM-dd HH:mm:ss.SSSSSSSSS, 9)",
        "CONCAT(DATE_FORMAT(FROM_UNIXTIME(Nanos DIV 1000000000), '%Y-%m-%d %H:%i:%s.'), Nanos % 1000000000)",
    ),
}


def test_computed_columns_of_every_kind_in_a_catalog_with_lower_case_names(server: Playground, tmp_path: Path) -> None:
    server.run(
        "CREATE TABLE t (Id INT PRIMARY KEY, Day DATE, At DATETIME, Stamp TIMESTAMP NULL, V VARCHAR(10),"
        " Seconds INT, Millis BIGINT, Micros BIGINT, Nanos BIGINT)"
    )
    instant = "1704067262, 1704067262123, 1704067262123456, 1704067262123456789"
    row = f"'2023-03-23', '2022-01-01 14:30', '2021-09-15 15:00:10', ' vaLUE ', {instant}"
    server.run(f"INSERT INTO t VALUES (1, {row})", "INSERT INTO t (Id, Day) VALUES (2, '2023-03-23')")
    flags = [word for name, (rule, _) in COMPUTED.items() for word in ("--computed-column", f"{name}={rule}")]
    flags += ["--partition-keys", "YEAR_OF_DAY", "--primary-keys", "ID,YEAR_OF_DAY"]
    sync = Sync(server, tmp_path, "t", ["table-name=t"], [*flags, "--catalog-conf", "case-sensitive=false"])
    sync.run()
    server.run(
        f"INSERT INTO t VALUES (3, {row})",
        "INSERT INTO t (Id, Day) VALUES (4, '2023-03-23'), (5, '2020-02-20'), (6, '2020-02-20')",
        "UPDATE t SET Day = '1999-12-31' WHERE Id = 5",  # to another partition
    )
    sync.run()
    server.run("UPDATE t SET Day = '2001-12-31' WHERE Id = 1", "DELETE FROM t WHERE Id = 6")
    sync.run()
    assert sync.target().primary_keys == ["id", "year_of_day"]
    rows = [tuple(row[name] for name in ("id", "day", *COMPUTED)) for row in sync.rows()]
    of_server = ", ".join(sql for _, sql in COMPUTED.values())
    assert rows == list(server.rows(f"SELECT Id, Day, {of_server} FROM t ORDER BY Id"))
    assert [row[0] for row in rows] == [1, 2, 3, 4, 5]


def comments(sync: Sync, table: str) -> dict[str, str | None]:
    definition = sync.target(table).definition
    return {"": definition.comment, **{field.name: field.description for field in definition.fields}}


def test_existing_tables_get_columns_and_options_and_keep_comments_and_buckets(
    server: Playground, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server.run(
        "CREATE TABLE t (id INT PRIMARY KEY COMMENT 'primary', v VARCHAR(10) COMMENT 'v') COMMENT 'old'",
        "CREATE TABLE older (id INT PRIMARY KEY, c DATE, d VARCHAR(10) COMMENT 'd of the source')",
        "INSERT INTO older VALUES (1, '2024-01-01', 'x')",
    )
    catalog = Catalog(f"{tmp_path}/warehouse")
    catalog.create_database("ods")
    catalog.create_table(
        "ods.older", [("id", "INT NOT NULL"), ("d", "STRING")], primary_keys=["id"], options={"bucket": "1"}
    )
    catalog.alter_table("ods.older", [UpdateColumnComment("id", "the key"), UpdateColumnComment("d", "own")])
    flags = ["--table-conf", "bucket=2", "--table-conf", "write-only=true"]
    sync = Sync(server, tmp_path, flags=flags)
    sync.run()
    assert "event=option_kept table=ods.older option=bucket value=1 wanted=2" in caplog.text
    assert sync.target("older").definition.options == {"bucket": "1", "write-only": "true"}
    assert comments(sync, "t") == {"": "old", "id": "primary", "v": "v"}
    server.run(
        "ALTER TABLE t COMMENT 'new'",
        "ALTER TABLE t MODIFY COLUMN v VARCHAR(20) COMMENT 'v-new', ADD w INT COMMENT 'w'",
        "INSERT INTO t VALUES (3, 'longer than ten', 30)",
        "ALTER TABLE older ADD e DECIMAL(6, 2)",
        "INSERT INTO older VALUES (2, NULL, NULL, 2.59)",
    )
    # Columns that a pipeline gets later.
    sync.flags = [*flags, "--computed-column", "cut=truncate(e, 10)", "--metadata-column", "table_name"]
    sync.run()
    assert comments(sync, "older") == {
        "": None,
        "id": "the key",
        "d": "own",
        "c": None,
        "e": None,
        "cut": None,
        "table_name": None,
    }
    assert (comments(sync, "t")["v"], comments(sync, "t")["w"]) == ("v", "w")
    assert [(row["id"], row["cut"], row["table_name"]) for row in sync.rows("older")] == [
        (1, None, None),
        (2, Decimal("2.50"), "older"),
    ]
    sync.conf = ["debezium.include.schema.comments=true"]
    server.run("ALTER TABLE t COMMENT 'newest', MODIFY COLUMN v VARCHAR(20) COMMENT 'v-newest'", "DELETE FROM older")
    server.run("INSERT INTO t VALUES (4, 'x', 1)")
    sync.run()
    found = comments(sync, "t")
    assert (found[""], found["id"], found["v"], found["w"]) == ("newest", "primary", "v-newest", "w")
    assert all(verdict.is_equal for verdict in sync.verified())


def test_shards_with_other_columns_are_one_table_and_incompatible_ones_are_left_out(
    server: Playground, tmp_path: Path
) -> None:
    one, two = f"{DATABASE}_1", f"{DATABASE}_2"
    server.run(*(f"CREATE DATABASE {name}" for name in (one, two)))
    try:
        server.run(
            f"CREATE TABLE {one}.t1 (k INT PRIMARY KEY, v1 VARCHAR(10))",
            f"CREATE TABLE {two}.t1 (k INT PRIMARY KEY, v1 VARCHAR(20), v2 BIGINT)",
            f"CREATE TABLE {one}.t2 (k BIGINT PRIMARY KEY, v1 FLOAT)",
            f"CREATE TABLE {two}.t2 (k INT PRIMARY KEY, v1 DOUBLE)",
            f"CREATE TABLE {one}.t3 (k INT PRIMARY KEY, v1 VARCHAR(10))",
            f"CREATE TABLE {two}.t3 (k INT, v1 VARCHAR(10))",
            f"CREATE TABLE {one}.bad (k VARCHAR(9) PRIMARY KEY, v1 INT)",
            f"CREATE TABLE {two}.bad (k VARCHAR(9) PRIMARY KEY, v1 VARCHAR(10))",
            f"INSERT INTO {one}.t1 VALUES (1, 'a')",
            f"INSERT INTO {two}.t1 VALUES (2, 'b', 2)",
        )
        catalog = Catalog(f"{tmp_path}/warehouse")
        catalog.create_database("ods")
        catalog.create_table("ods.bad", [("k", "STRING NOT NULL"), ("v1", "INT")], primary_keys=["k"])
        sync = Sync(server, tmp_path, conf=[f"database-name={DATABASE}_.*"], flags=["--mode", "divided"])
        with pytest.raises(SchemaConflict, match="not compatible") as caught:
            sync.run()
        assert (caught.value.facts["table"], caught.value.facts["source"]) == ("ods.bad", f"{two}.bad")
        sync.flags = ["--ignore-incompatible", "true", "--mode", "divided"]
        sync.run()
        server.run(
            f"INSERT INTO {one}.t1 VALUES (3, 'c')",
            f"INSERT INTO {two}.t1 VALUES (4, 'longer than ten', 400)",
            f"ALTER TABLE {one}.t2 ADD v2 INT",
            f"ALTER TABLE {two}.t2 ADD v3 VARCHAR(10)",
            f"INSERT INTO {one}.t2 VALUES (5000000000, 1.5, 1)",
            f"INSERT INTO {two}.t2 VALUES (3, 3.3, 'db2')",
            f"INSERT INTO {one}.t3 VALUES (1, 'x')",
            f"INSERT INTO {two}.t3 VALUES (3, 'y')",
            f"INSERT INTO {one}.bad VALUES ('a', 1)",  # fits, and the other shard does not
            f"INSERT INTO {two}.bad VALUES ('b', 'y')",
            f"CREATE TABLE {one}.t4 (k INT PRIMARY KEY, v1 VARCHAR(10))",
            f"INSERT INTO {one}.t4 VALUES (1, 'x')",
            f"CREATE TABLE {two}.t4 (k INT PRIMARY KEY, v1 VARCHAR(12), w DATE)",
            f"INSERT INTO {two}.t4 VALUES (2, 'y', NULL)",
        )
        sync.flags = ["--ignore-incompatible", "true", "--mode", "combined"]
        sync.run()
        assert [tuple(row.values()) for row in sync.rows("t1", "k")] == [
            (1, "a", None),
            (2, "b", 2),
            (3, "c", None),
            (4, "longer than ten", 400),
        ]
        assert [tuple(row.values()) for row in sync.rows("t2", "k")] == [
            (3, 3.3, None, "db2"),
            (5_000_000_000, 1.5, 1, None),
        ]
        assert (sync.rows("t3", "k"), sync.rows("bad", "k")) == ([{"k": 1, "v1": "x"}], [])
        assert [tuple(row.values()) for row in sync.rows("t4", "k")] == [(1, "x", None), (2, "y", None)]
        verdicts = {verdict.table: verdict for verdict in sync.verified()}
        assert [name for name, verdict in verdicts.items() if not verdict.is_equal] == ["ods.bad"]
        assert "ignore-incompatible leaves it out" in str(verdicts["ods.bad"].not_compared)
        assert not verdicts["ods.bad"].is_early
    finally:
        server.run(*(f"DROP DATABASE IF EXISTS {name}" for name in (one, two)))


MAPPED = {
    "flag": ("TINYINT(1)", "100", "TINYINT"),
    "required": ("INT NOT NULL DEFAULT 7", "5", "INT"),
    "fixed": ("CHAR(5)", "'a'", "STRING"),
    "varied": ("VARCHAR(9)", "'b'", "STRING"),
    "long_text": ("LONGTEXT", "'l'", "BYTES"),
    "big": ("BIGINT UNSIGNED", "9223372036854775807", "BIGINT"),
    "medium": ("MEDIUMINT UNSIGNED", "16777215", "BIGINT"),
    "price": ("DECIMAL(10, 2) UNSIGNED", "1.50", "DECIMAL(10, 2)"),
    "bits": ("BIT(1)", "b'1'", "BOOLEAN"),
    "shape": ("GEOMETRY", "ST_GeomFromText('POINT(1 2)')", "STRING"),
    "year_": ("YEAR", "2024", "INT"),
}
MAPPING = "tinyint1-not-bool,to-nullable,char-to-string,longtext-to-bytes,bigint-unsigned-to-bigint"


def test_type_mappings_apply_to_copied_altered_and_later_tables(server: Playground, tmp_path: Path) -> None:
    columns = ", ".join(f"{name} {kind}" for name, (kind, _, _) in MAPPED.items())
    values = ", ".join(sql for _, sql, _ in MAPPED.values())
    server.run(f"CREATE TABLE t (id INT PRIMARY KEY, {columns})", f"INSERT INTO t VALUES (1, {values})")
    server.run("CREATE TABLE altered (id INT PRIMARY KEY)", "INSERT INTO altered VALUES (1)")
    sync = Sync(server, tmp_path, flags=["--type-mapping", MAPPING])
    sync.run()
    server.run(
        "INSERT INTO t (id) VALUES (2)",
        *(f"ALTER TABLE altered ADD {name} {kind}" for name, (kind, _, _) in MAPPED.items()),
        f"INSERT INTO altered VALUES (2, {values})",
        f"CREATE TABLE later (id INT PRIMARY KEY, {columns})",
        f"INSERT INTO later VALUES (2, {values})",
    )
    sync.run()
    for table, full in (("t", 1), ("altered", 2), ("later", 2)):
        fields = sync.target(table).definition.fields[1:]
        assert {field.name: written(field.type) for field in fields} == {
            name: type_ for name, (_, _, type_) in MAPPED.items()
        }
        row = next(row for row in sync.rows(table) if row["id"] == full)
        assert (row["flag"], row["fixed"], row["long_text"], row["big"]) == (100, "a", b"l", 2**63 - 1)
        assert (row["bits"], row["year_"]) == (True, 2024)
        assert row["shape"].startswith('{"coordinates":[1,2],"type":"Point"')
    assert all(verdict.is_equal for verdict in sync.verified())
    server.run("INSERT INTO t (id, big) VALUES (3, 18446744073709551615)")
    with pytest.raises(DecodeError, match="'18446744073709551615' does not fit"):
        sync.run()
    sync.flags = ["--type-mapping", MAPPING.replace("tinyint1-not-bool,", "")]
    with pytest.raises(SchemaConflict) as caught:
        sync.run()
    reason = str(caught.value.facts["reason"])
    assert reason.endswith(tuple(f"TINYINT to BOOLEAN of Paimon table ods.{name}." for name in ("t", "altered")))


def test_keys_and_partitions_apply_to_the_tables_that_have_the_columns(server: Playground, tmp_path: Path) -> None:
    server.run(
        "CREATE TABLE t1 (k INT PRIMARY KEY, part INT NOT NULL, v INT)",
        "CREATE TABLE t2 (k INT PRIMARY KEY, v INT)",
        "CREATE TABLE t3 (k3 INT PRIMARY KEY, v INT NOT NULL)",
        *(
            f"INSERT INTO {name} VALUES {row}"
            for name, row in (("t1", "(1, 1, 1), (2, 2, 2)"), ("t3", "(1, 1), (2, 2)"))
        ),
    )
    flags = ["--primary-keys", "k,part", "--partition-keys", "part", "--multiple-table-partition-keys", "t3=v"]
    sync = Sync(server, tmp_path, flags=[*flags, "--table-conf", "bucket=1"])
    sync.run()
    server.run(
        "UPDATE t1 SET part = 5 WHERE k = 1",
        "UPDATE t3 SET v = 5 WHERE k3 = 1",
        "CREATE TABLE t4 (k INT PRIMARY KEY, part INT NOT NULL)",
        "INSERT INTO t4 VALUES (1, 1)",
        "INSERT INTO t2 VALUES (1, 1)",
    )
    sync.run()
    tables = {name: sync.target(name) for name in sync.tables()}
    assert {name: (table.primary_keys, table.partition_keys) for name, table in tables.items()} == {
        "t1": (["k", "part"], ["part"]),
        "t2": (["k"], []),
        "t3": (["k3"], ["v"]),
        "t4": (["k", "part"], ["part"]),
    }
    assert all(verdict.is_equal for verdict in sync.verified())
    append = Sync(server, tmp_path / "append", "t2", ["table-name=t2"])
    append.flags = ["--sync-primary-keys-from-source-schema", "false", "--table-conf", "bucket-key=v"]
    append.flags = [*append.flags, "--table-conf", "bucket=2"]
    append.run()
    server.run("INSERT INTO t2 VALUES (2, 1)")
    append.run()
    assert append.target().primary_keys == []
    assert append.rows(order="k") == [{"k": 1, "v": 1}, {"k": 2, "v": 1}]


def test_tables_of_databases_that_are_created_later_are_captured(server: Playground, tmp_path: Path) -> None:
    one, two = f"{DATABASE}_1", f"{DATABASE}_2"
    try:
        server.run(
            f"CREATE DATABASE {one}",
            *(f"CREATE TABLE {one}.{name} (id INT PRIMARY KEY)" for name in ("t", "ta")),
            f"INSERT INTO {one}.t VALUES (1)",
        )
        flags = ["--including-tables", "t.*|s.+", "--excluding-tables", "ta|sa"]
        sync = Sync(server, tmp_path, conf=[f"database-name={DATABASE}_[12]"], flags=flags)
        sync.run()
        server.run(
            f"CREATE DATABASE {two}",
            f"CREATE TABLE {two}.t (id INT PRIMARY KEY, v INT)",
            f"INSERT INTO {two}.t VALUES (2, 2)",
            *(f"CREATE TABLE {two}.{name} (id INT PRIMARY KEY)" for name in ("s1", "sa")),
            *(f"INSERT INTO {two}.{name} VALUES (3)" for name in ("s1", "sa")),
            f"CREATE TABLE {one}.t_like LIKE {two}.t",
            f"INSERT INTO {one}.t_like VALUES (7, 7)",
            f"CREATE TABLE {one}.t_select (PRIMARY KEY (id)) AS SELECT * FROM {two}.t",
            f"CREATE TABLE {one}.t_keyless (id INT)",
            "CREATE TABLE s9 (id INT PRIMARY KEY)",
        )
        sync.run()
        assert {name: sync.ids(name) for name in sync.tables()} == {
            "s1": [3],
            "t": [1, 2],
            "t_like": [7],
            "t_select": [2],
        }
        assert all(verdict.is_equal for verdict in sync.verified())
    finally:
        server.run(*(f"DROP DATABASE IF EXISTS {name}" for name in (one, two)))
