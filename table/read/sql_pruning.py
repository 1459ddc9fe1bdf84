"""SQL conditions, rewritten for DuckDB, and the part of them that can prune files.

That part is the filter which DuckDB itself pushes down to an Arrow dataset.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.table.values.optional import duckdb_module

_MOST_VALUES = 64
_OR = re.compile(r"\bor\b", re.IGNORECASE)


def with_lists(text: str) -> str:
    """Return the condition with `a = 1 OR a = 2 OR ...` as `a IN (1, 2, ...)`, if it is long.

    DuckDB evaluates alternatives one by one, but looks values up in a list.
    """
    if sum(1 for _ in _OR.finditer(text)) < _MOST_VALUES:
        return text
    with duckdb_module().connect(config={"threads": 1}) as connection:
        parsed = _tree(connection, text)
        return text if parsed is None else _text(connection, parsed, _listed)


def _listed(node: Any) -> Any:
    """Join the equalities of an OR that compare one column to constants of one type, if they are many."""
    if isinstance(node, list):
        return [_listed(child) for child in node]
    if not isinstance(node, dict):
        return node
    if node.get("type") != "CONJUNCTION_OR":
        return {key: _listed(value) for key, value in node.items()}
    groups: dict[tuple[str, ...], list[Any]] = {}
    operands = []
    for child in node["children"]:
        compared = _compared(child)
        if compared:
            groups.setdefault(compared, []).append(child)
        else:
            operands.append(_listed(child))
    for found in groups.values():
        if len(found) < _MOST_VALUES:
            operands += found
            continue
        children = [found[0]["left"], *(equality["right"] for equality in found)]
        operands.append(_node("OPERATOR", "COMPARE_IN", children=children))
    return operands[0] if len(operands) == 1 else {**node, "children": operands}


def _compared(node: Any) -> tuple[str, ...]:
    """Return the column, and the kind of the constant that it is compared to; nothing for another condition.

    Integers and texts are cast to the column's type alike in a comparison and in a list.
    """
    if node.get("type") != "COMPARE_EQUAL":
        return ()
    left, right = node["left"], node["right"]
    if left.get("type") != "COLUMN_REF" or right.get("type") != "VALUE_CONSTANT":
        return ()
    kind = right["literal"].get("kind")
    return (*left["column_names"], kind) if kind in {"INTEGER", "STRING"} else ()


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
        # As where the rows are evaluated; texts of times would otherwise be read in the time zone of the machine.
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
    parsed = _tree(connection, text)
    return text if parsed is None or '"COMPARE_IN"' not in json.dumps(parsed) else _text(connection, parsed, _rewritten)


def _tree(connection: Any, text: str) -> Any:
    """Return a statement with the condition as DuckDB's tree, None if it is invalid."""
    (tree,) = connection.execute("SELECT json_serialize_sql(?)", [f"SELECT 1 FROM rows WHERE {text}"]).fetchone()
    parsed = json.loads(tree)
    return None if parsed.get("error") else parsed


def _text(connection: Any, tree: Any, rewritten: Callable[[Any], Any]) -> str:
    """Return the text of the statement's condition after it is rewritten."""
    node = tree["statements"][0]["node"]
    node["where_clause"] = rewritten(node["where_clause"])
    (sql,) = connection.execute("SELECT json_deserialize_sql(?)", [json.dumps(tree)]).fetchone()
    return str(sql).partition(" WHERE ")[2]


def _rewritten(node: Any) -> Any:
    if isinstance(node, list):
        return [_rewritten(child) for child in node]
    if not isinstance(node, dict):
        return node
    if node.get("type") == "COMPARE_IN" and len(node["children"]) <= _MOST_VALUES:
        column, *values = node["children"]
        equal = [_node("COMPARISON", "COMPARE_EQUAL", left=column, right=value) for value in values]
        return equal[0] if len(equal) == 1 else _node("CONJUNCTION", "CONJUNCTION_OR", children=equal)
    return {key: _rewritten(value) for key, value in node.items()}


def _node(kind: str, type_: str, **parts: Any) -> dict[str, Any]:
    return {"class": kind, "type": type_, "alias": "", "query_location": 0, "query_location_length": 0, **parts}
