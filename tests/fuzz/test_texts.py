"""Texts that users and servers write: expressions, pipeline files, types, DDL, schema files, conditions."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.errors import ConfigError, DecodeError, PenstockError
from penstock.ingest.mysql.ddl.ddl_parser import parse_ddl
from penstock.ingest.mysql.ddl.query import Query
from penstock.ingest.pulsar.position import Position
from penstock.pipelines.config import yaml_file
from penstock.schema_evolution.expressions.evaluate import evaluated
from penstock.schema_evolution.expressions.parse import parse_expression, parse_projection
from penstock.schema_evolution.expressions.time_functions import Moment
from penstock.schema_evolution.text_casts import Misfits
from penstock.table.iceberg.metadata import parse_metadata
from penstock.table.meta.snapshot import snapshot_of
from penstock.table.meta.tag_files import parse_tag
from penstock.table.schema.json_file import JsonFile
from penstock.table.schema.schema_files import parse_schema
from penstock.table.sql.grammar.lookup_clauses import lookup_clauses
from penstock.table.sql.grammar.mentions import mentions
from penstock.table.sql.grammar.scripts import script_parts
from penstock.table.sql.grammar.statement_grammar import read_statement
from penstock.table.sql.grammar.tokens import tokens_of
from penstock.table.values.types import parse_type
from tests.fuzz.mutations import changed, changed_document, held, seeds, within_memory

ROOT = Path(__file__).resolve().parents[2]
EXPRESSIONS = [
    "case when a > 1 and not b like 'x%' then upper(trim(c)) else cast(d as decimal(10, 2)) end",
    "a between 1 and 2 or b in ('x', 'y''z') and `c d` is not null",
    "substring(x from 2 for 3) || date_format(t, 'yyyy-MM-dd') <=> -1.5e3 % 7",
]
CALLS = [
    "case when a > 1 and not b like 'x%' then upper(trim(c)) else cast(d as string) end",
    "a between 1 and 2 or b in ('x', 'y''z') and `c d` is not null",
    "coalesce(nullif(a, 1), length(b), 3) % 7 - 2",
    "concat(substring(b, 2, 3), replace(x, 'e', 'a'), lower(c))",
    "abs(`c d`) > 2 or ceil(`c d`) = 1.5 or cast(`c d` as decimal(10, 2)) < 1",
    "date_format(t, 'yyyy-MM-dd') = x or cast(t as date) is null",
]
PIPELINE = (ROOT / "docker" / "shop.yaml").read_text()
DDL = [
    "ALTER TABLE `s`.`t` ADD COLUMN (a INT NOT NULL DEFAULT 1, b ENUM('x','y''z')), DROP COLUMN c, RENAME TO u",
    "CREATE TABLE t (id BIGINT UNSIGNED AUTO_INCREMENT, v VARCHAR(20) COMMENT 'a;b', PRIMARY KEY (id), KEY k (v(3)))",
    "/*!50003 CREATE */ /* x */ TABLE IF NOT EXISTS t LIKE s; RENAME TABLE a TO b, c TO d",
]
SCHEMA = {
    "version": 3,
    "id": 0,
    "fields": [
        {"id": 0, "name": "id", "type": "BIGINT NOT NULL"},
        {"id": 1, "name": "r", "type": {"type": "ROW", "fields": [{"id": 2, "name": "m", "type": "INT"}]}},
    ],
    "highestFieldId": 2,
    "partitionKeys": [],
    "primaryKeys": ["id"],
    "options": {"bucket": "1"},
}
SNAPSHOT = {
    "version": 3,
    "id": 1,
    "schemaId": 0,
    "baseManifestList": "manifest-list-a-0",
    "deltaManifestList": "manifest-list-a-1",
    "commitUser": "u",
    "commitIdentifier": 1,
    "commitKind": "APPEND",
    "timeMillis": 1,
    "totalRecordCount": 1,
    "deltaRecordCount": 1,
    "tagCreateTime": [2024, 5, 6, 7, 8],
    "tagTimeRetained": 1.5,
}


SQL = [
    "CREATE TABLE IF NOT EXISTS d.t (id BIGINT NOT NULL COMMENT 'k', r ROW<a INT, b ARRAY<STRING>>, d DECIMAL(10, 2) "
    "DEFAULT 1.5, PRIMARY KEY (id) NOT ENFORCED) PARTITIONED BY (p) WITH ('bucket' = '1'); SHOW TABLES LIKE 'a%'",
    "INSERT INTO t /*+ OPTIONS('a' = 'b') */ PARTITION (p = 'x') SELECT a, \"b c\" FROM `u v` WHERE c LIKE 'y''z'",
    "MERGE INTO t USING s ON t.id = s.id WHEN MATCHED AND s.op = 'd' THEN DELETE WHEN MATCHED THEN UPDATE SET a = s.a "
    "WHEN NOT MATCHED THEN INSERT (id, a) VALUES (s.id, s.a)",
    "ALTER TABLE t ADD COLUMNS (a INT FIRST, b STRING COMMENT 'x' AFTER a); UPDATE t SET a = 1, b = 'x' WHERE id = 1",
    "SELECT * FROM t FOR SYSTEM_TIME AS OF TIMESTAMP '2024-01-01' JOIN \"t$snapshots\" s ON true -- end\n; CALL "
    "sys.compact(`table` => 'd.t', partitions => 'p=1'); DELETE FROM t WHERE id = 1; SET 'a' = 'b'; USE d",
]


def _sql(text: str) -> None:
    for part in script_parts(text):
        with suppress(PenstockError):
            read_statement(part.text, part.place.line, part.place.column)
        found = tokens_of(part.text)
        list(mentions(found))
        list(lookup_clauses(found))


EVALUATED = {
    "a": pa.array([1, None, -(2**63)], pa.int64()),
    "b": pa.array(["x", None, "9" * 30]),
    "c": pa.array(["  ", "ä%_", None]),
    "c d": pa.array([1.5, float("nan"), None]),
    "d": pa.array(["1.5", "x", ""]),
    "t": pa.array([0, None, 2**62], pa.timestamp("us")),
    "x": pa.array(["text", "", None]),
}


def _evaluated(text: str) -> None:
    evaluated(parse_expression(text), EVALUATED, Moment(0, 3), Misfits()).validate(full=True)


def _ddl(text: str) -> None:
    for mariadb in (False, True):
        query = Query(text, "s", ansi_quotes=False, backslash_escapes=True)
        assert query.verb is not None
        parse_ddl(query, mariadb=mariadb, lower_names=False)


READERS: dict[str, tuple[list[str], Callable[[str], object]]] = {
    "expressions": (EXPRESSIONS, parse_expression),
    "projections": ([f"*, {expression} as x, a b" for expression in EXPRESSIONS], parse_projection),
    "pipelines": ([PIPELINE], yaml_file.read),
    "sql": (SQL, _sql),
    "evaluated": (CALLS, _evaluated),
    "positions of Pulsar": (["12:9:-1/12:4", "1:2:before", "-1:-1:-1"], Position.of),
    "types": (["DECIMAL(10, 2) NOT NULL", "TIMESTAMP(3) WITH LOCAL TIME ZONE", "ARRAY<INT>"], parse_type),
    "ddl": (DDL, _ddl),
    "schema": ([json.dumps(SCHEMA)], lambda text: parse_schema(text.encode(), "schema-0")),
    "snapshot": ([json.dumps(SNAPSHOT)], lambda text: snapshot_of(JsonFile.parse(text.encode(), "snapshot-1"))),
    "tag": ([json.dumps(SNAPSHOT)], lambda text: parse_tag(text.encode(), "x", "tag-x")),
}


ICEBERG = {
    "format-version": 2,
    "table-uuid": "u",
    "location": "file:/t",
    "schemas": [
        {"type": "struct", "schema-id": 0, "fields": [{"id": 1, "name": "a", "required": True, "type": "int"}]},
    ],
    "partition-specs": [{"spec-id": 0, "fields": []}],
    "snapshots": [
        {
            "sequence-number": 1,
            "snapshot-id": 1,
            "timestamp-ms": 1,
            "summary": {"operation": "append"},
            "manifest-list": "file:/t/l.avro",
            "schema-id": 0,
        }
    ],
    "current-snapshot-id": 1,
    "refs": {"x": {"snapshot-id": 1, "type": "tag"}},
    "properties": {"penstock.publisher": "penstock"},
}


def _iceberg(text: str) -> None:
    metadata = parse_metadata(text.encode(), "v1.metadata.json")
    metadata.at(metadata.current_id).encode(5)


DOCUMENTS: dict[str, tuple[object, Callable[[str], object]]] = {
    "iceberg": (ICEBERG, _iceberg),
    "schema": (SCHEMA, READERS["schema"][1]),
    "snapshot": (SNAPSHOT, READERS["snapshot"][1]),
}


@pytest.mark.parametrize("what", sorted(READERS))
def test_a_changed_text_is_read_or_refused(what: str, request: pytest.FixtureRequest) -> None:
    texts, read = READERS[what]
    for chance in seeds(request, 150 if what == "pipelines" else 500, 30_000):
        text = changed(chance.choice(texts).encode(), chance, 4).decode("utf-8", "replace")
        held(lambda text=text: read(text), text, size=len(text))  # type: ignore[misc]


@pytest.mark.parametrize(
    "text",
    [
        *("(" * 100_000, "(" * 200 + "1" + ")" * 200, "not " * 100_000 + "a", "-" * 100_000 + "1", "f(" * 5000),
        *(" or ".join(["a = 1"] * 20_000), "case when a then " * 5000, "a" + " + 1" * 20_000, "'" * 100_001),
    ],
    ids=lambda text: text[:12],
)
def test_deep_expressions_are_refused_by_name(text: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse_expression(text)
    assert len(str(refused.value)) < 3000


@pytest.mark.parametrize("what", sorted(DOCUMENTS))
def test_a_changed_document_is_read_or_refused(what: str, request: pytest.FixtureRequest) -> None:
    document, read = DOCUMENTS[what]
    read(json.dumps(document))
    for chance in seeds(request, 200, 30_000):
        text = json.dumps(changed_document(document, chance))
        held(lambda text=text: read(text), text, size=len(text))  # type: ignore[misc]


def test_a_time_that_has_no_calendar_date_is_refused() -> None:
    with pytest.raises(DecodeError, match="outside the years 1 to 9999"):
        evaluated(parse_expression("date_format(t, 'yyyy-MM-dd HH:mm:ss E')"), EVALUATED, Moment(0, 3), Misfits())


def test_accepted_expressions_can_be_evaluated() -> None:
    node = parse_expression(" or ".join(f"a = {number}" for number in range(2, 230)))
    found = evaluated(node, {"a": pa.array([1, 2], pa.int64())}, Moment(0, 2), Misfits())
    assert found.to_pylist() == [False, True]


@pytest.mark.parametrize(
    "text",
    [
        *("SELECT " + "(" * 10_000, "CREATE TABLE t (a " + "ARRAY<" * 5000 + "INT", "SELECT " + "1," * 10_000),
        *("CREATE TABLE t (a ROW<" + "a ROW<" * 5000, ";" * 10_000, "ALTER TABLE t SET (" + "'a'='b'," * 5000),
        *("/*" * 5000, "'" * 10_001, "`" * 10_001, "SELECT * FROM " + "t JOIN " * 10_000 + "t", "--\n" * 10_000),
        *("DELETE FROM t WHERE " + "NOT " * 5000, "INSERT INTO t VALUES " + "(1, 'x')," * 3000 + "(2, 'y')"),
    ],
    ids=lambda text: text[:16],
)
def test_long_statements_are_read_or_refused_in_time(text: str) -> None:
    within_memory(lambda: held(lambda: _sql(text), text), text, len(text))
