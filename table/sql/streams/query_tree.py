"""Queries as the trees of DuckDB's parser, in which a query can be checked and changed."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from functools import cached_property
from typing import Any, TypeAlias

from penstock.table.values.optional import duckdb_module

Node: TypeAlias = dict[str, Any]
NO_PLACE = (1 << 64) - 1  # what DuckDB writes where a node has no place
# Functions without brackets, which DuckDB's parser takes for columns.
_CLOCKS = frozenset({"current_date", "current_time", "current_timestamp", "localtime", "localtimestamp"})
# Of the functions whose values DuckDB does not call constant, these are constant during a job.
_SETTLED = frozenset({"current_setting", "current_schema", "current_schemas", "error", "getvariable", "in_search_path"})


class QueryUnreadable(Exception):
    """DuckDB's parser does not understand the query; `offset` is where."""

    def __init__(self, message: str, offset: int) -> None:
        super().__init__(message)
        self.offset = offset


class QueryTrees:
    """DuckDB's parser, in a connection without tables."""

    def __init__(self) -> None:
        self._connection = duckdb_module().connect()

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def tree(self, text: str) -> Node:
        """Return the tree of a query."""
        [[written]] = self._connection.execute("SELECT json_serialize_sql(?)", [text]).fetchall()
        read = json.loads(written)
        if read["error"]:
            raise QueryUnreadable(read["error_message"], int(read.get("position", 0)))
        node: Node = read["statements"][0]["node"]
        return node

    def text(self, node: Node) -> str:
        """Return the text of a tree."""
        written = json.dumps({"error": False, "statements": [{"node": node, "named_param_map": []}]})
        [[text]] = self._connection.execute("SELECT json_deserialize_sql(?)", [written]).fetchall()
        return str(text)

    @cached_property
    def aggregates(self) -> frozenset[str]:
        """Return the names of aggregate functions."""
        query = "SELECT DISTINCT function_name FROM duckdb_functions() WHERE function_type = 'aggregate'"
        return frozenset(name for [name] in self._connection.execute(query).fetchall())

    @cached_property
    def moving(self) -> frozenset[str]:
        """Return the names of functions that have another value each time, such as now() and random()."""
        query = "SELECT DISTINCT function_name FROM duckdb_functions() WHERE stability <> 'CONSISTENT'"
        return frozenset(name for [name] in self._connection.execute(query).fetchall()) - _SETTLED

    def moves(self, tree: object, columns: Collection[str], moving: Collection[str]) -> bool:
        """Return whether an expression has another value each time.

        The row has these `columns`, in small letters, of which some are `moving`.
        """
        return any(
            self._is_moving_column(node["column_names"], columns, moving)
            if node["class"] == "COLUMN_REF"
            else node["class"] == "FUNCTION" and str(node["function_name"]).lower() in self.moving
            for node in expressions(tree)
        )

    def _is_moving_column(self, names: Sequence[object], columns: Collection[str], moving: Collection[str]) -> bool:
        name = str(names[-1]).lower()
        return name in moving or (len(names) == 1 and name in _CLOCKS and name not in columns)


def expressions(tree: object) -> Iterator[Node]:
    """Yield the expressions in a tree, also those within others."""
    return (node for node in _nodes(tree) if "class" in node)


def column_names(tree: object) -> frozenset[str]:
    """Return the names of the columns in a tree, without the names of their tables."""
    return frozenset(
        str(expression["column_names"][-1]) for expression in expressions(tree) if expression["class"] == "COLUMN_REF"
    )


def stars(tree: object) -> list[Node]:
    """Return the `*` in a tree."""
    return [expression for expression in expressions(tree) if expression["class"] == "STAR"]


def offset_of(node: Node) -> int:
    """Return the offset of a node; a node without one begins with its first part."""
    own = node.get("query_location", NO_PLACE)
    if own < NO_PLACE:
        return int(own)
    places = (found["query_location"] for found in _nodes(node) if "query_location" in found)
    return min((place for place in places if place < NO_PLACE), default=0)


def _nodes(tree: object) -> Iterator[Node]:
    if isinstance(tree, dict):
        yield tree
        tree = list(tree.values())
    if isinstance(tree, list):
        for child in tree:
            yield from _nodes(child)
