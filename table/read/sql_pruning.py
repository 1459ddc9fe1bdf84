"""What of a condition in SQL files can be spared by: what DuckDB itself hands down to a dataset of Arrow."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.table.values.optional import duckdb_module

_MOST_VALUES = 64


@functools.lru_cache(maxsize=64)
def pushed_down(text: str, schema: pa.Schema) -> pc.Expression | None:
    """Return an Arrow expression that holds for every row for which `text` holds; None when there is none.

    DuckDB asks other rows than the condition's own where there are subqueries: then nothing is taken.
    """
    from penstock.table.read.lazy_dataset import LazyDataset  # it imports pandas, which takes as long as a small scan

    asked: list[pc.Expression | None] = []

    def rows(columns: Sequence[str] | None, where: pc.Expression | None) -> Iterator[pa.RecordBatch]:
        asked.append(where)
        return iter(())

    duckdb = duckdb_module()
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("files", LazyDataset(schema, rows))
        try:
            connection.execute(f"SELECT 1 FROM files AS rows WHERE {_without_in(connection, text)}").fetchall()
        except duckdb.Error:  # the rows themselves will be asked, and tell what is wrong
            return None
    return asked[0] if len(asked) == 1 else None


def _without_in(connection: Any, text: str) -> str:
    """`a IN (1, 2)` as `a = 1 OR a = 2`: what DuckDB hands down for the former, Arrow cannot weigh with statistics."""
    (tree,) = connection.execute("SELECT json_serialize_sql(?)", [f"SELECT 1 FROM rows WHERE {text}"]).fetchone()
    told = json.loads(tree)
    if told.get("error") or '"COMPARE_IN"' not in tree:
        return text
    node = told["statements"][0]["node"]
    node["where_clause"] = _rewritten(node["where_clause"])
    (sql,) = connection.execute("SELECT json_deserialize_sql(?)", [json.dumps(told)]).fetchone()
    return str(sql).partition(" WHERE ")[2]


def _rewritten(node: Any) -> Any:
    if isinstance(node, list):
        return [_rewritten(one) for one in node]
    if not isinstance(node, dict):
        return node
    if node.get("type") == "COMPARE_IN" and len(node["children"]) <= _MOST_VALUES:
        column, *values = node["children"]
        equal = [_node("COMPARISON", "COMPARE_EQUAL", left=column, right=value) for value in values]
        return equal[0] if len(equal) == 1 else _node("CONJUNCTION", "CONJUNCTION_OR", children=equal)
    return {key: _rewritten(value) for key, value in node.items()}


def _node(kind: str, type_: str, **parts: Any) -> dict[str, Any]:
    return {"class": kind, "type": type_, "alias": "", "query_location": 0, "query_location_length": 0, **parts}
