"""Queries over streams: each SELECT of a query is divided by UNION ALL, checked, and made to number its rows.

DuckDB's parser reads a query as a tree. Every row of the result must come from one changed row, whose kind it has:
what needs more than one row, such as GROUP BY, is refused where it is written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from penstock.errors import ConfigError
from penstock.table.sql.cursor import TextPlace
from penstock.table.sql.grammar import ScriptPart
from penstock.table.sql.query_tree import (
    NO_PLACE,
    Node,
    QueryTrees,
    QueryUnreadable,
    column_names,
    expressions,
    offset_of,
    stars,
)
from penstock.table.sql.session import Session
from penstock.table.sql.text import SqlToken, duck_text, has_alias, mentions, quoted, tokens_of

ROW = "_penstock_row"  # the number of a changed row in its batch
_ONCE = "run the query once: SET 'execution.runtime-mode' = 'batch'"
_BATCH = f"or {_ONCE}"
_AGGREGATES = (
    "write the rows into a table WITH ('merge-engine' = 'aggregation', 'fields.c.aggregate-function' = 'sum'), "
    f"which adds and retracts them, {_BATCH}"
)
_JOINS = f"write both streams into one 'partial-update' table, with UNION ALL, {_BATCH}"
# What makes a star other than all columns in their order.
_STAR_PARTS = ("exclude_list", "qualified_exclude_list", "replace_list", "rename_list", "columns", "expr")
_MODIFIERS = {
    "ORDER_MODIFIER": "ORDER BY",
    "LIMIT_MODIFIER": "LIMIT",
    "LIMIT_PERCENT_MODIFIER": "LIMIT",
    "DISTINCT_MODIFIER": "DISTINCT",
}


@dataclass(frozen=True, slots=True)
class StreamBranch:
    """One SELECT of a streaming query, which reads the changes of one table.

    DuckDB reads a batch of changes under the name `view`. The first column of `text` is the number of the changed row.
    `depends_on` has for each other column the columns of the table that its value depends on, and None for all columns
    of the table in their order; it is None if that is not known. `filtered_by` are the columns of the conditions.
    """

    source: tuple[str, str]
    options: Mapping[str, str]
    view: str
    text: str
    filtered_by: frozenset[str]
    depends_on: tuple[frozenset[str] | None, ...] | None
    place: TextPlace


def reads_tables(session: Session, query: str) -> bool:
    """Return whether the query names a table of the warehouse."""
    return any(session.place(mention.names) is not None for mention in mentions(tokens_of(query)))


def stream_branches(session: Session, part: ScriptPart, query: str) -> list[StreamBranch]:
    """Return the SELECTs of a query that UNION ALL connects."""
    trees = QueryTrees()
    try:
        return _StreamQuery.of(session, trees, part, query).branches()
    finally:
        trees.close()


@dataclass(slots=True)
class _StreamQuery:
    """The text of a query with the names of views in place of tables, and the places where its parts come from."""

    trees: QueryTrees
    part: ScriptPart
    text: str = ""
    # (offset in `text`, offset in the statement) at the beginning of each part.
    origins: list[tuple[int, int]] = field(default_factory=list)
    sources: dict[str, tuple[tuple[str, str], Mapping[str, str]]] = field(default_factory=dict)

    @classmethod
    def of(cls, session: Session, trees: QueryTrees, part: ScriptPart, query: str) -> _StreamQuery:
        tokens = tokens_of(query.strip())
        found = cls(trees, part)
        base = max(part.text.rfind(query.strip()), 0)
        _refuse_lookups(part, tokens, base)
        done = 0
        for mention in mentions(tokens):
            place = session.place(mention.names)
            if place is None:
                continue
            found._copy(tokens, done, mention.start, base)
            view = f"_penstock_stream_{len(found.sources)}"
            found.sources[view] = (place, mention.options)
            alias = "" if has_alias(tokens, mention.end) else f" AS {quoted(place[1])}"
            found._add(f"{view}{alias}", base + _length(tokens[: mention.start]))
            done = mention.end
        found._copy(tokens, done, len(tokens), base)
        return found

    def _copy(self, tokens: Sequence[SqlToken], begin: int, end: int, base: int) -> None:
        self._add(duck_text(tokens[begin:end]), base + _length(tokens[:begin]))

    def _add(self, text: str, origin: int) -> None:
        self.origins.append((len(self.text), origin))
        self.text += text

    def place(self, offset: int) -> TextPlace:
        """Return the place in the script of an offset in the text."""
        begin, origin = max(one for one in self.origins if one[0] <= min(offset, len(self.text)))
        return place_in(self.part, origin + min(offset, len(self.text)) - begin)

    def error(self, node: Node, why: str, hint: str) -> ConfigError:
        """Return the error at a node of the tree."""
        return refused(self.place(offset_of(node)), why, hint)

    def branches(self) -> list[StreamBranch]:
        """Return the SELECTs of the query."""
        try:
            tree = self.trees.tree(self.text)
        except QueryUnreadable as reason:
            raise refused(self.place(reason.offset), str(reason), "docs/sql.md shows statements") from reason
        return [self._branch(node) for node in self._selects(tree)]

    def _selects(self, node: Node) -> Iterator[Node]:
        if node["type"] == "SET_OPERATION_NODE":
            self._check_node(node)
            if node["setop_type"] != "UNION" or not node["setop_all"]:
                what = "UNION" if node["setop_type"] == "UNION" else str(node["setop_type"])
                raise self.error(node, f"{what} is not possible in a stream", f"UNION ALL is, {_BATCH}")
            for child in node.get("children") or [node["left"], node["right"]]:
                yield from self._selects(child)
        elif node["type"] == "SELECT_NODE":
            yield node
        else:
            raise self.error(node, f"{node['type']} is not possible in a stream", f"use SELECT, {_BATCH}")

    def _branch(self, node: Node) -> StreamBranch:
        select = _StreamSelect(self)
        select.number(node)
        view = select.view
        place, options = self.sources[view]
        text = self.trees.text(node)
        return StreamBranch(
            place, options, view, text, frozenset(select.filtered_by), select.depends_on, self.place(offset_of(node))
        )

    def _check_node(self, node: Node) -> None:
        for modifier in node["modifiers"]:
            what = _MODIFIERS.get(modifier["type"], str(modifier["type"]))
            where = (modifier.get("orders") or [{}])[0].get("expression") or modifier.get("limit") or node
            raise self.error(where, f"{what} is not possible in a stream, which has no end", _ONCE)
        if node["cte_map"]["map"]:
            hint = f"write the query in brackets behind FROM, {_BATCH}"
            raise refused(self.place(0), "WITH is not possible in a stream", hint)


@dataclass(slots=True)
class _StreamSelect:
    """One SELECT with the queries in its FROM clause, down to the table."""

    query: _StreamQuery
    view: str = ""
    filtered_by: set[str] = field(default_factory=set)
    depends_on: tuple[frozenset[str] | None, ...] | None = None

    def number(self, node: Node, *, outermost: bool = True) -> None:
        """Check the SELECT, and add the number of the row as its first column."""
        query = self.query
        if node["type"] != "SELECT_NODE":
            raise query.error(
                node, "a set operation behind FROM is not possible in a stream", "UNION ALL of whole SELECTs is"
            )
        query._check_node(node)
        for clause, name in (("group_expressions", "GROUP BY"), ("having", "HAVING")):
            if node[clause]:
                first = node[clause][0] if clause == "group_expressions" else node[clause]
                raise query.error(first, f"{name} is not possible in a stream", _AGGREGATES)
        if node["aggregate_handling"] != "STANDARD_HANDLING":
            raise query.error(node, "GROUP BY ALL is not possible in a stream", _AGGREGATES)
        for clause in ("qualify", "sample"):
            if node[clause]:
                raise query.error(node[clause], f"{clause.upper()} is not possible in a stream", _ONCE)
        for expression in (*node["select_list"], node["where_clause"]):
            self._check(expression)
        alias = self._from(node["from_table"])
        direct = node["from_table"]["type"] == "BASE_TABLE"
        self.filtered_by |= {name if direct else "" for name in column_names(node["where_clause"])}
        if outermost and direct:
            self.depends_on = _depends_on(node["select_list"])
        for star in stars(node["select_list"]):
            star["exclude_list"].append(ROW)
        row = {"class": "COLUMN_REF", "type": "COLUMN_REF", "alias": ROW, "query_location": NO_PLACE}
        node["select_list"].insert(0, {**row, "column_names": [alias, ROW]})

    def _from(self, table: Node) -> str:
        """Check the FROM clause, and return the name of its only table."""
        query = self.query
        match table["type"]:
            case "BASE_TABLE" if table["table_name"] in query.sources:
                self.view = table["table_name"]
                return str(table["alias"] or table["table_name"])
            case "BASE_TABLE":
                hint = f"a stream reads tables of the warehouse; write the query of a view in brackets, {_BATCH}"
                raise query.error(table, f"{table['table_name']} is not a table of the warehouse", hint)
            case "SUBQUERY":
                if not table["alias"]:
                    table["alias"] = "_penstock_query"
                self.number(table["subquery"]["node"], outermost=False)
                return str(table["alias"])
            case "JOIN":
                raise query.error(table, "a join of streams is not possible", _JOINS)
        raise query.error(table, "a stream reads a table or a query in brackets", _ONCE)

    def _check(self, expression: object) -> None:
        for node in expressions(expression):
            name = str(node.get("function_name", "")).lower()
            if node["class"] == "WINDOW":
                raise self.query.error(node, "a window function is not possible in a stream", _ONCE)
            if node["class"] == "SUBQUERY":
                raise self.query.error(node, "a query in an expression is not possible in a stream", _ONCE)
            if node["class"] == "FUNCTION" and name in self.query.trees.aggregates:
                raise self.query.error(node, f"the aggregate function {name} is not possible in a stream", _AGGREGATES)
            if node["class"] == "FUNCTION" and name == "unnest":
                raise self.query.error(node, "unnest is not possible in a stream", _ONCE)


def _refuse_lookups(part: ScriptPart, tokens: Sequence[SqlToken], base: int) -> None:
    """Refuse `JOIN dim FOR SYSTEM_TIME AS OF o.proc_time`.

    The place of lookup joins: the JOIN remains in the query, and before the query of a batch runs, the dimension's rows
    for the keys of the batch are registered under the name that the query has for it.
    """
    solid = [(at, token.text.lower()) for at, token in enumerate(tokens) if token.kind != "blank"]
    for (at, first), *rest in (solid[number : number + 5] for number in range(len(solid) - 4)):
        words = [first, *(word for _, word in rest)]
        moment = tokens[rest[3][0]]
        if words[:4] == ["for", "system_time", "as", "of"] and moment.name is not None and words[4] != "timestamp":
            place = place_in(part, base + _length(tokens[:at]))
            raise refused(place, "a lookup join (FOR SYSTEM_TIME AS OF a column) is not supported", _JOINS)


def refused(place: TextPlace, why: str, hint: str) -> ConfigError:
    """Return the error for a part of a streaming query."""
    return ConfigError(f"the query cannot be run as a stream: {why}", line=place.line, column=place.column, hint=hint)


def place_in(part: ScriptPart, offset: int) -> TextPlace:
    """Return the place in the script of an offset in a statement."""
    before = part.text[:offset]
    breaks = before.count("\n")
    column = offset - before.rfind("\n") if breaks else part.place.column + offset
    return TextPlace(part.place.offset + offset, part.place.line + breaks, column)


def _length(tokens: Sequence[SqlToken]) -> int:
    return sum(len(token.text) for token in tokens)


def _depends_on(columns: Sequence[Node]) -> tuple[frozenset[str] | None, ...] | None:
    found: list[frozenset[str] | None] = []
    for column in columns:
        if not stars(column):
            found.append(column_names(column))
        elif column["class"] == "STAR" and not any(column[part] for part in _STAR_PARTS):
            found.append(None)
        else:
            return None
    return tuple(found)
