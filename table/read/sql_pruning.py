"""The part of an SQL condition that can prune files: the filter DuckDB itself pushes down to an Arrow dataset."""

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
    """Return an Arrow expression that is true for every row that matches `text`; None when no such expression is found.

    With subqueries DuckDB scans the rows more than once, under other filters than the condition: nothing is pruned
    then.
    """
    from penstock.table.read.lazy_dataset import LazyDataset  # imports pandas, which costs as much as a small scan

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
        except duckdb.Error:  # the condition is invalid; evaluating it on the rows reports the error
            return None
    return asked[0] if len(asked) == 1 else None


def _without_in(connection: Any, text: str) -> str:
    """Rewrite `a IN (1, 2)` as `a = 1 OR a = 2`.

    Arrow cannot evaluate on statistics what DuckDB pushes down for the former.
    """
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
