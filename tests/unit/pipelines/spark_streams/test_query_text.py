"""Texts of statements for Spark: Flink's hints as Spark's options, and numbers in place of a table's options."""

from __future__ import annotations

import pytest

from penstock.errors import ConfigError
from penstock.pipelines.spark_streams.query_text import StreamedText, refuse_lookups, with_options
from penstock.table.sql.grammar.tokens import tokens_of


def test_the_hint_of_a_table_becomes_an_option() -> None:
    text = "SELECT /*+ BROADCAST(d) */ * FROM t /*+ OPTIONS('a' = '1', 'b.c' = '2') */ AS u -- /*+ OPTIONS('x'='y') */"
    expected = "SELECT /*+ BROADCAST(d) */ * FROM t WITH (`a` = '1', `b.c` = '2') AS u -- /*+ OPTIONS('x'='y') */"
    assert with_options(text) == expected
    with pytest.raises(ConfigError, match="is not understood"):
        with_options("SELECT * FROM t /*+ OPTIONS(a = 1) */")


def test_quotes_in_the_options_of_a_table_are_escaped() -> None:
    text = r"SELECT * FROM t /*+ OPTIONS('a`b' = 'it''s C:\x') */"
    assert with_options(text) == r"SELECT * FROM t WITH (`a``b` = 'it\'s C:\\x')"


def test_each_table_has_a_number_and_its_options() -> None:
    text = (
        "INSERT INTO TABLE shop.t SELECT a, b FROM (SELECT * FROM s WITH ('scan.mode' = 'latest') WHERE a > 1) AS q "
        "UNION ALL SELECT a, 'from x' FROM lake.shop.`u$audit_log` VERSION AS OF 3"
    )
    made = StreamedText.of(text, ["v"])
    assert made.text == (
        "INSERT INTO TABLE shop.t SELECT a, b FROM (SELECT * FROM `s` WITH (`stream-table` = '0') WHERE a > 1) AS q "
        "UNION ALL SELECT a, 'from x' FROM `lake`.`shop`.`u$audit_log` WITH (`stream-table` = '1')"
    )
    assert made.options == [{"scan.mode": "latest"}, {"scan.version": "3"}]


def test_views_and_common_tables_are_no_tables() -> None:
    text = "WITH x AS (SELECT 1) SELECT * FROM x JOIN v JOIN lake.shop.v"
    made = StreamedText.of(text, ["V"])
    assert made.text == "WITH x AS (SELECT 1) SELECT * FROM x JOIN v JOIN `lake`.`shop`.`v` WITH (`stream-table` = '0')"


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM s JOIN d FOR SYSTEM_TIME AS OF PROCTIME() AS x ON s.a = x.a",
        "SELECT * FROM s JOIN d FOR SYSTEM_TIME AS OF s.proc_time AS x ON s.a = x.a",
        "SELECT /*+ LOOKUP('table' = 'd', 'async' = 'true') */ * FROM s",
    ],
)
def test_lookup_joins_are_refused_with_the_other_engine_as_the_way_out(text: str) -> None:
    with pytest.raises(ConfigError, match="lookup join") as caught:
        refuse_lookups(tokens_of(text))
    assert "duckdb" in str(caught.value)
