"""Queries over streams: a query is divided into the SELECTs that UNION ALL connects."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from penstock.table.sql.grammar.cursor import TextPlace
from penstock.table.sql.grammar.lookup_clauses import lookup_clauses, without
from penstock.table.sql.grammar.scripts import ScriptPart
from penstock.table.sql.grammar.tokens import tokens_of
from penstock.table.sql.queries.context import OpenCatalog
from penstock.table.sql.queries.session import Session
from penstock.table.sql.streams.lookup_joins import LookupJoin
from penstock.table.sql.streams.query_tree import Node, QueryTrees, QueryUnreadable, expressions, offset_of
from penstock.table.sql.streams.stream_select import StreamSelect, check_node
from penstock.table.sql.streams.stream_text import BATCH, StreamSource, StreamText, refused


@dataclass(frozen=True, slots=True)
class StreamBranch:
    """One SELECT of a streaming query, which reads the changes of one table.

    DuckDB reads a batch of changes under the name `view`. The first column of `text` is the number of the changed row.
    `depends_on` has for each other column the columns of the table that its value depends on, and None for all columns
    of the table in their order; it is None if that is not known. `filtered_by` are the columns of the conditions.
    `looked_up` says of each column whether it depends on a lookup, `filters_lookups` whether a condition does.
    `filter_moves` says whether a condition has another result each time, as by now() or random(), and `moving` of each
    column whether it has another value each time: no flags if none has, None if that is not known.
    `reads` has the columns of the table that the SELECT needs, in small letters, and may have further names; None: all.
    """

    source: StreamSource
    view: str
    text: str
    filtered_by: frozenset[str]
    depends_on: tuple[frozenset[str] | None, ...] | None
    place: TextPlace
    lookups: tuple[LookupJoin, ...]
    looked_up: tuple[bool, ...] | None
    filters_lookups: bool
    filter_moves: bool
    moving: tuple[bool, ...] | None
    reads: frozenset[str] | None

    def moves(self, column: int) -> bool:
        """Return whether a column of the query may have another value each time."""
        return self.moving is None or (bool(self.moving) and self.moving[column])

    def origins(self) -> list[frozenset[str]] | None:
        """Return for each column of the query the columns of the table that it depends on; None if not known."""
        if self.depends_on is None:
            return None
        names = [frozenset([field.name]) for field in self.source.table.definition.fields]
        return [name for part in self.depends_on for name in (names if part is None else [part])]


def reads_tables(session: Session, query: str) -> bool:
    """Return whether the query reads a table of the warehouse, perhaps by a view."""
    tokens = tokens_of(query)
    return session.reads_tables(without(tokens, lookup_clauses(tokens)))


def stream_branches(opened: OpenCatalog, part: ScriptPart, query: str) -> list[StreamBranch]:
    """Return the SELECTs of a query that UNION ALL connects."""
    trees = QueryTrees()
    try:
        text = StreamText.of(opened, trees, part, query)
        try:
            tree = trees.tree(text.text)
        except QueryUnreadable as reason:
            raise refused(text.place(reason.offset), str(reason), "docs/sql.md shows statements") from reason
        return [_branch(text, node) for node in _selects(text, tree)]
    finally:
        trees.close()


def _selects(text: StreamText, node: Node) -> Iterator[Node]:
    if node["type"] == "SET_OPERATION_NODE":
        check_node(text, node)
        if node["setop_type"] != "UNION" or not node["setop_all"]:
            operation = "UNION" if node["setop_type"] == "UNION" else str(node["setop_type"])
            raise text.error(node, f"{operation} is not possible in a stream", f"UNION ALL is, {BATCH}")
        for child in node.get("children") or [node["left"], node["right"]]:
            yield from _selects(text, child)
    elif node["type"] == "SELECT_NODE":
        yield node
    else:
        raise text.error(node, f"{node['type']} is not possible in a stream", f"use SELECT, {BATCH}")


def _branch(text: StreamText, node: Node) -> StreamBranch:
    select, place = StreamSelect(text), text.place(offset_of(node))
    select.number(node)
    outputs = select.outputs
    return StreamBranch(
        text.sources[select.view],
        select.view,
        text.trees.text(node),
        frozenset(select.filtered_by),
        select.depends_on,
        place,
        tuple(select.lookups),
        None if outputs is None else tuple(looked_up for _, looked_up in outputs),
        select.filters_lookups,
        select.filter_moves,
        select.moving,
        _names_read(text, select, node),
    )


def _names_read(text: StreamText, select: StreamSelect, node: Node) -> frozenset[str] | None:
    """Return the names in the query, among them the names of all columns that it reads; None if it reads whole rows."""
    sources = [text.sources[select.view], *(join.source for join in select.lookups)]
    columns = {name.lower() for source in sources for name in source.columns}
    refs = [
        expression
        for expression in expressions(node)
        if expression["class"] in {"STAR", "POSITIONAL_REFERENCE", "COLUMN_REF"}
    ]
    if any(ref["class"] != "COLUMN_REF" for ref in refs):
        return None
    # A name that is no column may be that of the table, whose value is the whole row.
    alone = {str(ref["column_names"][0]).lower() for ref in refs if len(ref["column_names"]) == 1}
    if not alone <= columns:
        return None
    return frozenset(token.name.lower() for token in tokens_of(text.text) if token.name is not None)
