"""Refusals of streaming queries: each names the place and what to write instead."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

import penstock
from penstock.errors import PenstockError
from penstock.table.read.split_reader import SplitReader
from penstock.table.read.splits import Split
from penstock.table.sql.interpreter import Interpreter
from penstock.table.sql.session_options import STREAMING

TABLES = """
CREATE DATABASE d; USE d;
CREATE TABLE s (id INT, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('bucket' = '1', 'changelog-producer' = 'input');
CREATE TABLE plain (id INT, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('bucket' = '1');
CREATE TABLE copy (id INT, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('bucket' = '1');
CREATE TABLE log (id INT, v INT);
CREATE TABLE sums (id INT, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH (
    'bucket' = '1', 'merge-engine' = 'aggregation', 'fields.v.aggregate-function' = 'sum');
INSERT INTO s VALUES (1, 1);
"""

_ONE = "INSERT INTO plain VALUES (1, 1)"


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Interpreter]:
    catalog = penstock.Catalog(tmp_path_factory.mktemp("warehouse"), {"local.sync": "false"})
    with Interpreter(catalog, until_caught_up=True) as interpreter:
        list(interpreter.run(f"{TABLES}; {STREAMING}; CREATE TEMPORARY VIEW w AS SELECT 1 AS id"))
        yield interpreter


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "place", "message"),
    [
        ("INSERT INTO plain SELECT id,\n  sum(v) FROM s GROUP BY id", (2, 26), "GROUP BY is not possible"),
        ("SELECT count(*) FROM s", (1, 8), "aggregate function count_star"),
        ("SELECT id FROM s\nGROUP BY ALL", (1, 8), "GROUP BY ALL"),
        ("SELECT * FROM s\nORDER BY v", (2, 10), "ORDER BY"),
        ("SELECT * FROM s LIMIT 3", (1, 23), "LIMIT"),
        ("SELECT DISTINCT id FROM s", (1, 17), "DISTINCT"),
        ("SELECT id, row_number() OVER () FROM s", (1, 12), "window function"),
        ("SELECT id FROM s\nWHERE id IN (SELECT id FROM plain)", (2, 13), "a query in an expression"),
        ("SELECT unnest([id]) FROM s", (1, 8), "unnest"),
        ("WITH a AS (SELECT * FROM s) SELECT * FROM a", (1, 1), "WITH is not possible"),
        ("SELECT a.id FROM s a\nJOIN plain b ON a.id = b.id", (2, 1), "a join of streams"),
        ("SELECT id FROM s UNION SELECT id FROM plain", (1, 8), "UNION is not possible"),
        ("SELECT id FROM s EXCEPT SELECT id FROM plain", (1, 8), "EXCEPT is not possible"),
        ("SELECT id FROM s UNION ALL\nSELECT id FROM range(3) r(id)", (2, 16), "a stream reads a table"),
        ("SELECT id FROM s UNION ALL SELECT id FROM w", (1, 43), "w is a view, and not a table of the warehouse"),
        ("SELECT id FROM s UNION ALL SELECT id, v FROM s", (1, 35), "the first SELECT has 1 columns"),
        ("SELECT id FROM s WHERE", (1, 18), "syntax error"),
        ("SELECT nothing FROM s", (1, 8), '"nothing" not found'),
        ("SELECT * FROM s$files", (1, 15), "system table s$files"),
        ("SELECT * FROM plain WHERE v > 1", (1, 8), "needs the old rows"),
        ("SELECT * FROM sums", (1, 1), "Pre-aggregate streaming reading is not supported"),
        ("INSERT INTO log SELECT * FROM s", (1, 24), "has no primary key"),
        ("INSERT INTO sums SELECT * FROM plain", (1, 25), "needs the old rows of updates"),
        ("INSERT INTO copy SELECT v, id FROM plain", (1, 25), "the key 'id' of d.copy may change"),
        ("INSERT OVERWRITE plain SELECT * FROM s", (1, 1), "INSERT OVERWRITE needs a query that ends"),
        ("INSERT INTO plain SELECT id FROM s", (1, 1), "1 values are inserted into 2 columns"),
        ("CREATE TABLE c AS SELECT * FROM s", (1, 1), "CREATE TABLE AS needs a query that ends"),
        ("SELECT * FROM s /*+ OPTIONS('scan.mode' = 'incremental') */", (1, 1), "scan.mode incremental"),
        ("END", (1, 1), "no statement set is open"),
        ("BEGIN STATEMENT SET;\nINSERT INTO plain SELECT * FROM s", (1, 1), "the statement set has no END"),
        ("BEGIN STATEMENT SET;\nINSERT INTO plain VALUES (1, 1)", (1, 1), "the statement set has no END"),
        (f"BEGIN STATEMENT SET; {_ONE};\nBEGIN STATEMENT SET; {_ONE}; END", (1, 1), "the statement set has no END"),
        ("BEGIN TRANSACTION", (1, 1), "BEGIN is not a supported statement"),
        ("EXECUTE IMMEDIATE 'SELECT 1'", (1, 1), "EXECUTE is not a supported statement"),
    ],
)
def test_a_query_that_is_no_stream_is_refused_at_its_place(
    session: Interpreter, script: str, place: tuple[int, int], message: str
) -> None:
    catalog = session._context.catalog
    before = {name: catalog.table(f"d.{name}").latest_snapshot for name in catalog.tables("d")}
    with pytest.raises(PenstockError) as caught:
        list(session.run(script))
    session._streams._set = None
    assert message in str(caught.value)
    assert (caught.value.facts["line"], caught.value.facts["column"]) == place
    assert {name: catalog.table(f"d.{name}").latest_snapshot for name in catalog.tables("d")} == before


@pytest.mark.parametrize(
    "statement", ["SELECT * FROM s", "UPDATE s SET v = 2", "CREATE TABLE c (id INT)", "BEGIN STATEMENT SET"]
)
def test_a_statement_set_has_insert_statements_only(session: Interpreter, statement: str) -> None:
    with pytest.raises(PenstockError, match=r"a statement set|the statement set has no END"):
        list(session.run(f"BEGIN STATEMENT SET;\n{statement}; END"))
    session._streams._set = None
    assert not session._context.catalog.table_exists("d.c")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("query", "read", "row"),
    [
        ("SELECT id FROM wide", ["id"], {"id": 1}),
        ("SELECT wide.B FROM wide WHERE c > 2", ["id", "b", "c"], {"b": 2}),
        ('SELECT x."c" FROM wide AS x', ["id", "c"], {"c": 3}),
        ("SELECT 7 AS seven FROM wide", ["id"], {"seven": 7}),
        ("SELECT b FROM (SELECT b, c FROM wide) q", ["id", "b", "c"], {"b": 2}),
        ("SELECT a, rowkind FROM wide$audit_log", ["id", "a"], {"a": 1, "rowkind": "+I"}),
        # Whole rows, which a query may name in several ways.
        ("SELECT * EXCLUDE (a, b) FROM wide", ["id", "a", "b", "c"], {"id": 1, "c": 3}),
        ("SELECT to_json(w) AS j FROM wide AS w", ["id", "a", "b", "c"], None),
        ("SELECT #2 AS second FROM wide", ["id", "a", "b", "c"], {"second": 1}),
        ("SELECT b AS n FROM (SELECT * FROM wide) q", ["id", "a", "b", "c"], {"n": 2}),
    ],
)
def test_a_stream_reads_the_columns_that_its_query_names(
    session: Interpreter, query: str, read: list[str], row: dict[str, object] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    list(
        session.run(
            "SET 'execution.runtime-mode' = 'batch'; CREATE TABLE IF NOT EXISTS wide (id INT, a INT, b INT, c INT, "
            "PRIMARY KEY (id) NOT ENFORCED) WITH ('bucket' = '1', 'changelog-producer' = 'input'); "
            "DELETE FROM wide; INSERT INTO wide VALUES (1, 1, 2, 3)"
        )
    )
    found: list[list[str]] = []
    read_files = SplitReader.read_files

    def noted(reader: SplitReader, split: Split) -> Iterator[pa.RecordBatch]:
        found.append([field.name for field in reader.wanted])
        return read_files(reader, split)

    monkeypatch.setattr(SplitReader, "read_files", noted)
    start = "/*+ OPTIONS('scan.snapshot-id' = '1') */"
    name = "wide$audit_log" if "audit_log" in query else "wide"
    *_, rows = session.run(f"{STREAMING}; {query.replace(f'FROM {name}', f'FROM {name} {start}')}")
    assert all(rows == read for rows in found)
    assert found
    if row is not None:
        assert {key: value for key, value in rows.to_pylist()[-1].items() if key != "op"} == row
