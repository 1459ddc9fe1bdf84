"""Texts that users and servers write: expressions, pipeline files, types, DDL, schema files, conditions."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.errors import ConfigError
from penstock.ingest.mysql.binlog.query import Query
from penstock.ingest.mysql.ddl.statements import parse_ddl
from penstock.pipelines.config import yaml_file
from penstock.schema_evolution.expressions.evaluate import evaluated
from penstock.schema_evolution.expressions.parse import parse_expression, parse_projection
from penstock.schema_evolution.expressions.time_functions import Moment
from penstock.schema_evolution.text_casts import Misfits
from penstock.table.meta.snapshot import snapshot_of
from penstock.table.meta.tag_files import parse_tag
from penstock.table.schema.json_file import JsonFile
from penstock.table.schema.schema_files import parse_schema
from penstock.table.values.types import parse_type
from tests.fuzz.mutations import changed, held, seeds

ROOT = Path(__file__).resolve().parents[2]
EXPRESSIONS = [
    "case when a > 1 and not b like 'x%' then upper(trim(c)) else cast(d as decimal(10, 2)) end",
    "a between 1 and 2 or b in ('x', 'y''z') and `c d` is not null",
    "substring(x from 2 for 3) || date_format(t, 'yyyy-MM-dd') <=> -1.5e3 % 7",
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


def _ddl(text: str) -> None:
    for mariadb in (False, True):
        query = Query(text, "s", ansi_quotes=False, backslash_escapes=True)
        assert query.verb is not None
        parse_ddl(query, mariadb=mariadb, lower_names=False)


READERS: dict[str, tuple[list[str], Callable[[str], object]]] = {
    "expressions": (EXPRESSIONS, parse_expression),
    "projections": ([f"*, {expression} as x, a b" for expression in EXPRESSIONS], parse_projection),
    "pipelines": ([PIPELINE], yaml_file.read),
    "types": (["DECIMAL(10, 2) NOT NULL", "TIMESTAMP(3) WITH LOCAL TIME ZONE", "ARRAY<INT>"], parse_type),
    "ddl": (DDL, _ddl),
    "schema": ([json.dumps(SCHEMA)], lambda text: parse_schema(text.encode(), "schema-0")),
    "snapshot": ([json.dumps(SNAPSHOT)], lambda text: snapshot_of(JsonFile.parse(text.encode(), "snapshot-1"))),
    "tag": ([json.dumps(SNAPSHOT)], lambda text: parse_tag(text.encode(), "x", "tag-x")),
}


@pytest.mark.parametrize("what", sorted(READERS))
def test_a_changed_text_is_read_or_refused(what: str, request: pytest.FixtureRequest) -> None:
    texts, read = READERS[what]
    for chance in seeds(request, 150 if what == "pipelines" else 500, 30_000):
        text = changed(chance.choice(texts).encode(), chance, 4).decode("utf-8", "replace")
        held(lambda text=text: read(text), text)  # type: ignore[misc]


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


def test_accepted_expressions_can_be_evaluated() -> None:
    node = parse_expression(" or ".join(f"a = {number}" for number in range(2, 230)))
    found = evaluated(node, {"a": pa.array([1, 2], pa.int64())}, Moment(0, 2), Misfits())
    assert found.to_pylist() == [False, True]
