"""Refusals of lookup joins: each names the place, and what to write instead."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256

import pytest

import penstock
from penstock.errors import PenstockError
from penstock.table.sql.interpreter import Interpreter
from penstock.table.sql.session_options import STREAMING

pytestmark = pytest.mark.slow

TABLES = """
CREATE DATABASE d; USE d;
CREATE TABLE s (id INT, v INT, made TIMESTAMP, PRIMARY KEY (id) NOT ENFORCED)
    WITH ('bucket' = '1', 'changelog-producer' = 'input');
CREATE TABLE plain (id INT, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('bucket' = '1');
CREATE TABLE dim (k INT, part INT, name STRING, ratio DOUBLE, PRIMARY KEY (k, part) NOT ENFORCED) WITH ('bucket' = '1');
CREATE TABLE t (id INT, name STRING, PRIMARY KEY (id) NOT ENFORCED) WITH ('bucket' = '1');
CREATE TABLE strict (id INT, name STRING NOT NULL, PRIMARY KEY (id) NOT ENFORCED) WITH ('bucket' = '1');
CREATE TABLE by_name (name STRING, id INT, PRIMARY KEY (name) NOT ENFORCED) WITH ('bucket' = '1');
CREATE TABLE copies (id INT, name STRING, PRIMARY KEY (id) NOT ENFORCED)
    WITH ('bucket' = '1', 'changelog-producer' = 'input');
CREATE TABLE sums (id INT, name INT, PRIMARY KEY (id) NOT ENFORCED) WITH (
    'bucket' = '1', 'merge-engine' = 'aggregation', 'fields.name.aggregate-function' = 'sum');
INSERT INTO s VALUES (1, 1, NULL);
"""
NOW = "FOR SYSTEM_TIME AS OF PROCTIME()"
JOIN = f"JOIN dim {NOW} AS x ON x.k = s.id AND x.part = 1"
RETRY = "'retry-predicate' = 'lookup_miss', 'retry-strategy' = 'fixed_delay', 'fixed-delay' = '1 s'"


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Interpreter]:
    catalog = penstock.Catalog(tmp_path_factory.mktemp("warehouse"), {"local.sync": "false"})
    with Interpreter(catalog, until_caught_up=True) as interpreter:
        list(interpreter.run(f"{TABLES}; {STREAMING}"))
        yield interpreter


@pytest.mark.parametrize(
    ("script", "place", "message"),
    [
        ("SELECT s.id FROM s\nJOIN plain AS p ON p.id = s.id", (2, 1), "a join of streams"),
        (f"SELECT x.k\nFROM dim {NOW} AS x", (2, 6), "d.dim is looked up, and there is no stream before it"),
        (f"SELECT s.id FROM s RIGHT {JOIN}", (1, 20), "an INNER or a LEFT JOIN"),
        (f"SELECT s.id FROM s FULL {JOIN}", (1, 20), "an INNER or a LEFT JOIN"),
        (f"SELECT s.id FROM s, dim {NOW} AS x WHERE x.k = s.id", (1, 13), "an INNER or a LEFT JOIN"),
        (f"SELECT s.id FROM s JOIN plain {NOW} AS x USING (id)", (1, 20), "an INNER or a LEFT JOIN"),
        (f"SELECT s.id FROM s JOIN dim {NOW} AS x ON x.k > s.id", (1, 20), "without a column that equals"),
        (f"SELECT s.id FROM s JOIN dim {NOW} AS x (a, b) ON x.a = s.id", (1, 25), "cannot be renamed"),
        (f"SELECT s.id FROM s JOIN dim$files {NOW} AS x ON x.k = s.id", (1, 25), "cannot be looked up"),
        (
            f"SELECT s.id FROM s JOIN dim /*+ OPTIONS('scan.mode' = 'latest') */ {NOW} AS x ON x.k = s.id",
            (1, 25),
            "'scan.mode' has no effect on a lookup in d.dim",
        ),
        (
            f"SELECT s.id FROM s JOIN dim /*+ OPTIONS('scan.partitions' = 'max_pt()') */ {NOW} AS x ON x.k = s.id",
            (1, 25),
            "partitions of a lookup are chosen, and the table has none",
        ),
        (f"SELECT s.id FROM s {JOIN.replace('PROCTIME()', 's.made')}", (1, 25), "asks for the rows of another time"),
        (f"SELECT s.id FROM s {JOIN.replace('PROCTIME()', 's.mode')}", (1, 25), "s.mode is not known"),
        (f"SELECT s.id FROM s {JOIN.replace('PROCTIME()', 'o.proctime')}", (1, 25), "not a column of the stream s"),
        (f"SELECT s.id FROM s WHERE s.id > 1 {NOW}", (1, 35), "FOR SYSTEM_TIME AS OF is not after a table"),
        (f"SELECT s.id FROM s JOIN dimm {NOW} AS x ON x.k = s.id", (1, 30), "after dimm, which is not a table"),
        (f"SELECT s.id FROM s JOIN d.dimm {NOW} AS x ON x.k = s.id", (1, 32), "after d.dimm, which is not a table"),
        (f"SELECT s.id FROM s JOIN dim {NOW} AS x ON x.key = s.id", (1, 70), "d.dim has no column 'key'"),
        (f"SELECT s.id FROM s JOIN dim {NOW} AS x ON x.ratio = s.id", (1, 1), "cannot be looked up by ratio"),
        (f"SELECT s.id FROM s JOIN dim {NOW} AS x ON x.k = 'a' || s.id", (1, 1), "string cannot be compared with k"),
        (f"SELECT s.id FROM s JOIN dim {NOW} AS x ON x.k = sum(s.id)", (1, 76), "the aggregate function sum"),
        (f"SELECT s.id FROM s JOIN dim {NOW} AS x ON x.k = s.id", (1, 25), "may have several matches in d.dim by k"),
        (f"SELECT s.id FROM s {JOIN} WHERE x.name = 'a'", (1, 8), "a condition on looked-up columns"),
        (f"SELECT id FROM (SELECT s.id, x.name FROM s {JOIN}) WHERE name = 'a'", (1, 8), "a condition on looked-up"),
        (f"SELECT s.id, x.name AS a FROM s {JOIN} WHERE a = 'a'", (1, 8), "a condition on looked-up columns"),
        (f"SELECT s.id FROM plain AS s {JOIN}", (1, 8), "needs the old rows of updates"),
        (f"INSERT INTO sums SELECT s.id, x.part FROM s LEFT {JOIN}", (1, 25), "the old rows of updates as they were"),
        (f"INSERT INTO copies SELECT s.id, x.name FROM s LEFT {JOIN}", (1, 27), "the old rows of updates as they were"),
        (f"INSERT INTO by_name SELECT x.name, s.id FROM s {JOIN}", (1, 28), "the key 'name' of d.by_name is looked up"),
        (f"INSERT INTO by_name SELECT name, id FROM s {JOIN}", (1, 28), "the key 'name' of d.by_name is looked up"),
        (
            f"INSERT INTO by_name SELECT name, id FROM (SELECT s.*, x.* FROM s {JOIN})",
            (1, 28),
            "the key 'name' of d.by_name is looked up",
        ),
        (f"INSERT INTO by_name SELECT name, id FROM plain AS s LEFT {JOIN}", (1, 28), "'name' of d.by_name is looked"),
        (f"INSERT INTO strict SELECT s.id, x.name FROM s {JOIN}", (1, 27), "'name' of d.strict is NOT NULL and looked"),
        (f"SELECT /*+ LOOKUP('table' = 'y') */ s.id FROM s {JOIN}", (1, 8), "names the table 'y'"),
        (
            f"SELECT 1 FROM s UNION ALL SELECT /*+ LOOKUP('table'='x') */ 1 FROM s UNION ALL SELECT 1 FROM s {JOIN}",
            (1, 34),
            "names the table 'x'",
        ),
        (f"SELECT /*+ LOOKUP('table' = 'x', 'async' = 'yes') */ s.id FROM s {JOIN}", (1, 8), "'async' = 'yes'"),
        (f"SELECT /*+ LOOKUP('table' = 'x', 'timeout' = '9s') */ s.id FROM s {JOIN}", (1, 8), "'timeout' = '9s'"),
        (
            f"SELECT /*+ LOOKUP('table' = 'x', 'output-mode' = 'unordered') */ s.id FROM s {JOIN}",
            (1, 8),
            "'output-mode' = 'unordered' of the hint LOOKUP is not supported",
        ),
        (f"SELECT /*+ LOOKUP('table' = 'x', {RETRY}) */ s.id FROM s {JOIN}", (1, 8), "lacks max-attempts"),
        (
            f"SELECT /*+ LOOKUP('table' = 'x', {RETRY}, 'max-attempts' = '0') */ 1 FROM s {JOIN}",
            (1, 8),
            "max-attempts 0",
        ),
        (
            f"SELECT /*+ LOOKUP('table'='x', {RETRY.replace('_miss', 'ed')}, 'max-attempts'='1') */ 1 FROM s {JOIN}",
            (1, 8),
            "retry-predicate 'lookuped'",
        ),
        (
            f"SELECT /*+ LOOKUP('table' = 'x'), LOOKUP('table' = 'dim') */ s.id FROM s {JOIN}",
            (1, 8),
            "two hints LOOKUP",
        ),
        (f"SELECT /*+ LOOKUP(x) */ s.id FROM s {JOIN}", (1, 1), "is not understood"),
        (f"SELECT /*+ LOOKUP */ s.id FROM s {JOIN}", (1, 1), "is not understood"),
        (
            f"SELECT /*+ LOOKUP('table' = 'd', 'Table' = 'd') */ s.id FROM s {JOIN}",
            (1, 1),
            "sets the option 'table' twice",
        ),
        (
            f"SET 'execution.runtime-mode' = 'batch'; SELECT s.id FROM s {JOIN.replace('PROCTIME()', 's.made')}",
            (1, 41),
            "SET 'execution.runtime-mode' = 'streaming'",
        ),
    ],
)
def test_a_join_that_is_no_lookup_is_refused_at_its_place(
    session: Interpreter, script: str, place: tuple[int, int], message: str
) -> None:
    with pytest.raises(PenstockError) as caught:
        list(session.run(f"{script}"))
    list(session.run(STREAMING))
    assert message in str(caught.value)
    assert (caught.value.facts.get("line"), caught.value.facts.get("column")) == place


def test_options_of_flinks_guide_are_accepted_and_logged_once(
    session: Interpreter, caplog: pytest.LogCaptureFixture
) -> None:
    hint = f"LOOKUP('table'='x', {RETRY}, 'max-attempts'='1', 'output-mode'='allow_unordered', 'async'='true')"
    join = JOIN.replace(
        "dim FOR", "dim /*+ OPTIONS('lookup.async' = 'true', 'lookup.async-thread-number' = '8') */ FOR"
    )
    assert join != JOIN
    query = f"SELECT /*+ {hint} */ s.id, x.name FROM s {join}"
    for _ in range(2):
        list(session.run(query))
    logged = [message for message in caplog.messages if "lookup_option_without_effect" in message]
    assert len(logged) == len(set(logged)) == 1
    # Rows in order are one of the orders that it permits.
    assert not [message for message in caplog.messages if "allow_unordered" in message]
    assert len([message for message in caplog.messages if "lookup.async-thread-number" in message]) == 1


@pytest.mark.parametrize(
    "query",
    [
        f"INSERT INTO t SELECT s.id, x.name FROM s {JOIN} WHERE v > 0",
        f"INSERT INTO t SELECT id, name FROM (SELECT s.*, x.* FROM s LEFT {JOIN})",
        f"INSERT INTO by_name SELECT x.name, s.id FROM s$audit_log AS s {JOIN}",
        f"INSERT INTO t SELECT s.id, x.name FROM plain AS s LEFT {JOIN}",
        f"SELECT /*+ LOOKUP('table' = 'DIM', 'async' = 'false', 'output-mode' = 'ordered') */ s.*, x.* FROM s {JOIN}",
        f"SELECT * FROM s {JOIN}",
        f"SELECT s.id, a.name, b.name FROM s {JOIN.replace('x', 'a')} LEFT {JOIN.replace('x', 'b')}",
    ],
)
def test_a_join_that_is_a_lookup_runs(session: Interpreter, query: str) -> None:
    list(session.run(f"SET 'pipeline.name' = 'runs {sha256(query.encode()).hexdigest()}'; {query}"))
