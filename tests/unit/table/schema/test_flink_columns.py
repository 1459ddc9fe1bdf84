"""Computed columns and watermarks that tables keep for Flink, in statements and in changes of the schema."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import penstock
from penstock.errors import ConfigError, PenstockError
from penstock.table.schema.flink_columns import mentions_column
from penstock.table.sql.interpreter import Interpreter

CREATE = """CREATE TABLE j (id INT NOT NULL, price DOUBLE, total AS `price` * 2 COMMENT 'twice', qty INT,
proc AS PROCTIME(), ts TIMESTAMP(3), tl BIGINT, tlz AS TO_TIMESTAMP_LTZ(`tl`, 3),
WATERMARK FOR ts AS `ts` - INTERVAL '5' SECOND, PRIMARY KEY (id) NOT ENFORCED)"""
# As Flink 1.20 with Paimon 1.3.1 writes them for this statement. It also writes the types of other expressions, which
# it does not read.
OF_FLINK = {
    "schema.2.name": "total",
    "schema.2.expr": "`price` * 2",
    "schema.2.comment": "twice",
    "schema.4.name": "proc",
    "schema.4.expr": "PROCTIME()",
    "schema.4.data-type": "TIMESTAMP(3) WITH LOCAL TIME ZONE NOT NULL",
    "schema.7.name": "tlz",
    "schema.7.expr": "TO_TIMESTAMP_LTZ(`tl`, 3)",
    "schema.7.data-type": "TIMESTAMP(3) WITH LOCAL TIME ZONE",
    "schema.watermark.0.rowtime": "ts",
    "schema.watermark.0.strategy.expr": "`ts` - INTERVAL '5' SECOND",
    "schema.watermark.0.strategy.data-type": "TIMESTAMP(3)",
}
SHOWN = """CREATE TABLE `shop`.`j` (
  `id` INT NOT NULL,
  `price` DOUBLE,
  `total` AS `price` * 2 COMMENT 'twice',
  `qty` INT,
  `proc` AS PROCTIME(),
  `ts` TIMESTAMP(3),
  `tl` BIGINT,
  `tlz` AS TO_TIMESTAMP_LTZ(`tl`, 3),
  WATERMARK FOR `ts` AS `ts` - INTERVAL '5' SECOND,
  PRIMARY KEY (`id`) NOT ENFORCED
)"""


class Shop:
    def __init__(self, folder: Path) -> None:
        self.catalog = penstock.Catalog(folder / "lake", {"local.sync": "false"})
        self.catalog.create_database("shop")
        self.interpreter = Interpreter(self.catalog, "shop")
        self.run(CREATE)

    def run(self, script: str) -> list[dict[str, object]]:
        (*_, last) = self.interpreter.run(script)
        rows: list[dict[str, object]] = last.to_pylist()
        return rows

    def refused(self, script: str) -> PenstockError:
        with pytest.raises(PenstockError) as caught:
            self.run(script)
        return caught.value

    def options(self, table: str = "j") -> dict[str, str]:
        store = self.catalog.store(f"shop.{table}")
        return dict(json.loads(store.storage.read(store.schemas.path(store.schema().id)))["options"])

    def shown(self, table: str = "j") -> str:
        return str(self.run(f"SHOW CREATE TABLE {table}")[0]["statement"])


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    made = Shop(tmp_path)
    with made.interpreter:
        yield made


def test_a_table_keeps_computed_columns_and_the_watermark_as_flink_does(shop: Shop) -> None:
    assert shop.options() == OF_FLINK
    assert shop.catalog.table("shop.j").definition.fields[-1].name == "tl"
    assert shop.shown() == SHOWN
    shop.run("INSERT INTO j VALUES (1, 2.5, 3, TIMESTAMP '2026-01-31 12:00:00', 0)")
    assert list(shop.run("SELECT * FROM j")[0]) == ["id", "price", "qty", "ts", "tl"]
    # What is shown makes the same table again.
    shop.run(shop.shown().replace("`j`", "`k`"))
    assert shop.options("k") == OF_FLINK


def test_like_copies_what_flink_copies(shop: Shop) -> None:
    shop.run("ALTER TABLE j SET ('snapshot.num-retained.max' = '99')")
    own = {"snapshot.num-retained.max": "99"}
    watermark = {key: text for key, text in OF_FLINK.items() if "watermark" in key}
    computed = {key: text for key, text in OF_FLINK.items() if "watermark" not in key}
    for clause, options in (
        ("", own | OF_FLINK),
        ("(EXCLUDING OPTIONS)", OF_FLINK),
        ("(EXCLUDING GENERATED)", own | watermark),
        ("(EXCLUDING WATERMARKS EXCLUDING OPTIONS)", computed),
    ):
        shop.run(f"CREATE OR REPLACE TABLE dropped (a INT); DROP TABLE dropped; CREATE TABLE dropped LIKE j {clause}")
        assert shop.options("dropped") == options, clause
        shop.run("DROP TABLE dropped")


def test_a_query_that_names_a_computed_column_is_refused_with_its_expression(shop: Shop) -> None:
    for query in ("SELECT total FROM j", "SELECT id FROM j WHERE TOTAL > 1", "SELECT o.total FROM shop.j AS o"):
        error = shop.refused(query)
        assert error.hint == "Flink computes the column total: write its expression, `price` * 2"
    assert "Flink" not in str(shop.refused("SELECT nothing FROM j").hint)


def test_places_stay_among_the_columns_when_some_are_dropped(shop: Shop) -> None:
    shop.run("ALTER TABLE j DROP COLUMN qty; ALTER TABLE j ADD COLUMN more INT")
    shop.run("CREATE TABLE last (a INT, b INT, c AS `a` + 1, d AS `a` + 2); ALTER TABLE last DROP b")
    assert {key: text for key, text in shop.options("last").items() if key.endswith("name")} == {
        "schema.1.name": "c",
        "schema.2.name": "d",
    }
    assert {key: text for key, text in shop.options().items() if key.endswith("name")} == {
        "schema.2.name": "total",
        "schema.4.name": "proc",
        "schema.6.name": "tlz",
    }
    assert "`proc` AS PROCTIME()" in shop.shown()
    shop.run("CREATE TABLE few (a INT, b INT, c INT, d AS `a` + 1, e AS `a` + 2); ALTER TABLE few DROP (b, c)")
    options = shop.options("few")
    assert options == {
        "schema.1.name": "d",
        "schema.1.expr": "`a` + 1",
        "schema.2.name": "e",
        "schema.2.expr": "`a` + 2",
    }


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("DROP COLUMN price", "the computed column 'total', which Flink uses, needs the column 'price'"),
        ("RENAME price TO cost", "the computed column 'total', which Flink uses, needs the column 'price'"),
        ("DROP COLUMN ts", "the watermark, which Flink uses, needs the column 'ts'"),
        ("ADD COLUMN proc INT", "Flink computes the column 'proc' of this table"),
        ("MODIFY ts TIMESTAMP(6)", "the column 'ts' cannot have a watermark"),
        ("MODIFY WATERMARK FOR qty AS qty", "the column 'qty' cannot have a watermark"),
        ("RESET ('schema.watermark.0.strategy.expr')", "the watermark has no column or no expression"),
        ("SET ('schema.watermark.0.rowtime' = 'no')", "the watermark names a column 'no'"),
        ("RENAME qty TO total", "Flink computes the column 'total' of this table"),
        ("RESET ('schema.2.expr')", "the computed column 'total' has no expression"),
        ("SET ('schema.9.name' = 'more')", "the computed column 'more' has no expression"),
        ("RESET ('schema.2.name')", "the computed column 'half', which Flink uses, needs the column 'total'"),
        ("ADD WATERMARK FOR ts AS ts", "the table has a watermark already"),
        ("MODIFY WATERMARK FOR no AS no", "the table has no column 'no'"),
    ],
)
def test_a_change_that_flink_could_not_read_is_refused(shop: Shop, change: str, message: str) -> None:
    shop.run("ALTER TABLE j SET ('schema.99.name' = 'half', 'schema.99.expr' = '`total` / 4')")
    before = shop.options()
    # The place that Flink can open: the last one of all columns.
    assert before["schema.8.name"] == "half"
    assert message in shop.refused(f"ALTER TABLE j {change}").message
    assert shop.options() == before


def test_a_watermark_is_changed_and_dropped(shop: Shop) -> None:
    shop.run("ALTER TABLE j MODIFY (WATERMARK FOR tlz AS tlz)")
    options = shop.options()
    assert options["schema.watermark.0.rowtime"] == "tlz"
    assert "schema.watermark.0.strategy.data-type" not in options
    shop.run("ALTER TABLE j DROP WATERMARK; ALTER TABLE j DROP COLUMN ts")
    assert not [key for key in shop.options() if "watermark" in key]
    assert "the table has no watermark" in shop.refused("ALTER TABLE j DROP WATERMARK").message
    assert "the table has no watermark" in shop.refused("ALTER TABLE j MODIFY WATERMARK FOR id AS id").message


def test_a_watermark_without_an_expression_is_refused_in_a_table_without_computed_columns(shop: Shop) -> None:
    shop.run("CREATE TABLE k (t TIMESTAMP(3), WATERMARK FOR t AS t)")
    error = shop.refused("ALTER TABLE k RESET ('schema.watermark.0.strategy.expr')")
    assert "DROP WATERMARK" in str(error.hint)


def test_a_column_is_found_in_an_expression() -> None:
    for expression in ("a + 1", "f(a)", "`a`", "b.`a` * 2", "x-a"):
        assert mentions_column(expression, "a"), expression
    for expression in ("'a'", "ab", "a(1)", "b.a", "`aa`", "'it''s a'"):
        assert not mentions_column(expression, "a"), expression


def test_options_without_a_place_are_no_columns(shop: Shop) -> None:
    with pytest.raises(ConfigError, match="is not a table option"):
        shop.catalog.create_table("shop.odd", [("a", "INT")], options={"schema.1.other": "b"})
    shop.catalog.create_table("shop.odd", [("a", "INT")], options={"schema.x.name": "b", "schema.0.name": "a"})
    assert "'schema.x.name' = 'b'" in shop.shown("odd")
