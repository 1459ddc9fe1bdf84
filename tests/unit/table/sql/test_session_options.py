"""SET in a script: what it lists, and names that differ from a known one by a letter."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.errors import ConfigError
from penstock.table.catalog.catalog import Catalog
from penstock.table.sql.interpreter import Interpreter


def test_set_alone_lists_the_options_that_are_set(tmp_path: Path) -> None:
    with Interpreter(Catalog(f"{tmp_path}")) as interpreter:
        *_, listed = interpreter.run("SET 'pipeline.name' = 'x'; SET spark.paimon.scan.snapshot-id = 3; SET")
        assert listed.to_pylist() == [
            {"key": "pipeline.name", "value": "x"},
            {"key": "spark.paimon.scan.snapshot-id", "value": "3"},
        ]
        *_, listed = interpreter.run("RESET; SET")
        assert listed.num_rows == 0


SHOP = """
CREATE DATABASE shop;
CREATE TABLE shop.orders (id INT); CREATE TABLE shop.orders2 (id INT);
INSERT INTO shop.orders VALUES (1); INSERT INTO shop.orders2 VALUES (1);
INSERT INTO shop.orders VALUES (2); INSERT INTO shop.orders2 VALUES (2);
"""
COUNTS = "SELECT (SELECT count(*) FROM shop.orders) AS one, (SELECT count(*) FROM shop.orders2) AS two"


@pytest.mark.parametrize(
    ("names", "counts"),
    [
        ("default_catalog.shop.orders", [1, 2]),
        ("*.*.orders2", [2, 1]),
        ("*.shop.*", [1, 1]),
        ("*.other.*", [2, 2]),
    ],
)
def test_options_of_reads_are_for_the_tables_that_they_name(tmp_path: Path, names: str, counts: list[int]) -> None:
    with Interpreter(Catalog(f"{tmp_path}")) as interpreter:
        list(interpreter.run(SHOP))
        name = f"paimon.{names}.scan.snapshot-id"  # in Flink; Spark has a prefix
        for written in (f"'{name}'", f"spark.{name}", f"`spark.{name}`"):
            *_, found = interpreter.run(f"SET {written} = 1; {COUNTS}")
            assert list(found.to_pylist()[0].values()) == counts
            *_, found = interpreter.run(f"RESET {written}; {COUNTS}")
            assert list(found.to_pylist()[0].values()) == [2, 2]


def test_an_option_of_one_table_wins_over_the_option_of_all(tmp_path: Path) -> None:
    with Interpreter(Catalog(f"{tmp_path}")) as interpreter:
        list(interpreter.run(SHOP))
        own = "SET spark.paimon.*.shop.orders.scan.snapshot-id = 2; SET spark.paimon.scan.snapshot-id = 1"
        *_, found = interpreter.run(f"{own}; {COUNTS}")
        assert list(found.to_pylist()[0].values()) == [2, 1]


def test_the_names_of_flink_are_those_of_spark_without_its_prefix(tmp_path: Path) -> None:
    with Interpreter(Catalog(f"{tmp_path}")) as interpreter:
        list(interpreter.run(SHOP))
        own = "SET 'paimon.*.shop.orders.scan.snapshot-id' = '2'; SET 'scan.snapshot-id' = '1'"
        *_, found = interpreter.run(f"{own}; {COUNTS}")
        assert list(found.to_pylist()[0].values()) == [2, 1]
        *_, found = interpreter.run(f"RESET 'scan.snapshot-id'; {COUNTS}")
        assert list(found.to_pylist()[0].values()) == [2, 2]


def test_streams_begin_as_the_options_of_their_table_order(tmp_path: Path) -> None:
    with Interpreter(Catalog(f"{tmp_path}"), until_caught_up=True) as interpreter:
        list(interpreter.run(SHOP))
        list(interpreter.run("SET 'execution.runtime-mode' = 'streaming'"))
        list(interpreter.run("SET spark.paimon.*.shop.orders.scan.mode = latest"))
        for table, count in (("orders", 0), ("orders2", 2)):
            rows = interpreter.last_result(f"SELECT id FROM shop.{table}")
            assert rows is not None
            assert rows.num_rows == count


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("spark.paimon.lake.shop.orders.scan.snapshot-id", "there is no catalog 'lake'"),
        ("spark.paimon.*.shop.orders.bucket", "is not an option of reads"),
        ("spark.paimon.*.orders.scan.snapshot-id", "is not an option of reads"),
    ],
)
def test_an_option_of_a_table_that_could_have_no_effect_is_refused(tmp_path: Path, written: str, message: str) -> None:
    with Interpreter(Catalog(f"{tmp_path}")) as interpreter, pytest.raises(ConfigError, match=message):
        list(interpreter.run(f"SET {written} = 1"))


def test_a_snapshot_that_a_query_names_wins_over_that_of_the_session(tmp_path: Path) -> None:
    with Interpreter(Catalog(f"{tmp_path}")) as interpreter:
        list(interpreter.run(f"{SHOP}; SET spark.paimon.scan.snapshot-id = 2"))
        for named in (
            "VERSION AS OF 1",
            "/*+ OPTIONS('scan.snapshot-id' = '1') */",
            "/*+ OPTIONS('scan.version'='1') */",
        ):
            (found,) = interpreter.run(f"SELECT count(*) AS n FROM shop.orders {named}")
            assert found.to_pylist() == [{"n": 1}]


def test_system_tables_with_the_state_of_a_snapshot_follow_the_session(tmp_path: Path) -> None:
    with Interpreter(Catalog(f"{tmp_path}")) as interpreter:
        list(interpreter.run(f"{SHOP}; SET spark.paimon.*.shop.orders.scan.snapshot-id = 1"))
        counted = {
            text: next(iter(interpreter.run(f"SELECT count(*) AS n FROM shop.{text}"))).to_pylist()[0]["n"]
            for text in (
                "orders$audit_log",
                "orders$audit_log VERSION AS OF 2",
                "orders$snapshots",
                "orders2$audit_log",
            )
        }
    assert counted == {
        "orders$audit_log": 1, "orders$audit_log VERSION AS OF 2": 2, "orders$snapshots": 2, "orders2$audit_log": 2,
    }  # fmt: skip


def test_the_audit_log_has_the_changes_that_the_session_names(tmp_path: Path) -> None:
    with Interpreter(Catalog(f"{tmp_path}")) as interpreter:
        list(interpreter.run(f"{SHOP}; SET 'paimon.*.shop.orders.incremental-between' = '1,2'"))
        found = [
            next(iter(interpreter.run(f"SELECT rowkind, id FROM shop.orders{read}"))).to_pylist()
            for read in (
                "",
                "$audit_log",
                "$audit_log VERSION AS OF 1",
                "$audit_log /*+ OPTIONS('scan.mode' = 'latest') */",
            )
        ]
        assert found[0] == found[1] != found[2]
        assert [len(rows) for rows in found] == [1, 1, 1, 2]


@pytest.mark.parametrize(("table", "exists"), [("orders", True), ("nosuch", False), ("*", True)])
def test_an_option_of_a_table_that_does_not_exist_is_reported(tmp_path: Path, table: str, exists: bool) -> None:
    with Interpreter(Catalog(f"{tmp_path}")) as interpreter:
        list(interpreter.run(SHOP))
        (said,) = interpreter.run(f"SET spark.paimon.*.shop.{table}.scan.snapshot-id = 1")
    expected = "OK" if exists else "has no effect as long as there is no table shop.nosuch"
    assert said.to_pylist()[0]["result"].endswith(expected)


@pytest.mark.parametrize("written", ["execution.runtime-mod", "execution.runtimemode", "pipeline.nam"])
def test_a_misspelt_option_with_an_effect_is_refused(tmp_path: Path, written: str) -> None:
    """It was accepted as an option of Flink without effect, and a stream ran as a batch."""
    with Interpreter(Catalog(f"{tmp_path}")) as interpreter, pytest.raises(ConfigError) as refused:
        list(interpreter.run(f"SET '{written}' = 'streaming'"))
    assert "did you mean" in (refused.value.hint or "")


@pytest.mark.parametrize("written", ["execution.checkpointing.mode", "pipeline.jars", "execution.target"])
def test_options_of_flink_without_effect_are_named(tmp_path: Path, written: str) -> None:
    with Interpreter(Catalog(f"{tmp_path}")) as interpreter:
        (said,) = interpreter.run(f"SET '{written}' = 'x'")
    assert said.to_pylist() == [{"result": f"{written} has no effect here"}]
