"""The behaviour of Paimon's actions with a MySQL source that no other test compares."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.errors import ConfigError
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
