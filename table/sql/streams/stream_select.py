"""One SELECT of a streaming query: every row of its result must come from one changed row, whose kind it has.

What needs more than one row, such as GROUP BY, is refused where it is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from penstock.table.sql.streams.lookup_joins import JOINS, JoinedRow, LookupJoin, and_of, lookup_join
from penstock.table.sql.streams.query_tree import NO_PLACE, Node, expressions, stars
from penstock.table.sql.streams.stream_text import BATCH, ONCE, ROW, StreamText, refused
from penstock.table.values.sql_text import quoted

_AGGREGATES = (
    "write the rows into a table WITH ('merge-engine' = 'aggregation', 'fields.c.aggregate-function' = 'sum'), "
    f"which adds and retracts them, {BATCH}"
)
# What makes a star other than all columns in their order.
_STAR_PARTS = ("exclude_list", "qualified_exclude_list", "replace_list", "rename_list", "columns", "expr")
_MODIFIERS = {
    "ORDER_MODIFIER": "ORDER BY",
    "LIMIT_MODIFIER": "LIMIT",
    "LIMIT_PERCENT_MODIFIER": "LIMIT",
    "DISTINCT_MODIFIER": "DISTINCT",
}
_LOOKED_UP = ""  # in place of the name of a column that a table of the stream does not have


def check_node(query: StreamText, node: Node) -> None:
    """Refuse clauses that need the end of a stream."""
    for modifier in node["modifiers"]:
        clause = _MODIFIERS.get(modifier["type"], str(modifier["type"]))
        where = (modifier.get("orders") or [{}])[0].get("expression") or modifier.get("limit") or node
        raise query.error(where, f"{clause} is not possible in a stream, which has no end", ONCE)
    if node["cte_map"]["map"]:
        hint = f"write the query in brackets after FROM, {BATCH}"
        raise refused(query.place(0), "WITH is not possible in a stream", hint)


@dataclass(slots=True)
class StreamSelect:
    """One SELECT with the queries in its FROM clause, down to the table."""

    query: StreamText
    view: str = ""
    filtered_by: set[str] = field(default_factory=set)
    depends_on: tuple[frozenset[str] | None, ...] | None = None
    lookups: list[LookupJoin] = field(default_factory=list)
    filters_lookups: bool = False
    outputs: list[tuple[str, bool]] | None = None
    filter_moves: bool = False
    moving: tuple[bool, ...] | None = ()

    def number(self, node: Node, *, outermost: bool = True) -> JoinedRow:
        """Check the SELECT, and add the number of the row as its first column."""
        self._check_clauses(node)
        times = {
            item["alias"].lower()
            for item in node["select_list"]
            if str(item.get("function_name")).lower() == "proctime"
        }
        for expression in (*node["select_list"], node["where_clause"]):
            self._check(expression)
        row = self._from(node["from_table"], node)
        where = node["where_clause"]
        # A column of a query in brackets may be looked up there.
        own = {str(ref["column_names"][-1]) for ref in _refs(where) if not self.lookups or row.is_own(ref)}
        others = {_LOOKED_UP} if self.lookups and not row.uses_own(where) else set()
        self.filters_lookups |= bool(others)
        self.filtered_by |= {name if row.direct else _LOOKED_UP for name in own} | others
        if where is not None and self.query.trees.moves(where, row.names, row.moving):
            self.filter_moves = True
            self.filtered_by.add(_LOOKED_UP)
            if self.query.sources[self.view].changes_rows:
                where = node["where_clause"] = self._or_old(where, row)
        if row.conditions:
            self.filtered_by.add(_LOOKED_UP)
            node["where_clause"] = and_of([*([where] if where is not None else []), *row.conditions])
        if outermost and row.direct:
            self.depends_on = _depends_on(node["select_list"], row)
        outputs = _outputs(node["select_list"], row)
        moving = self._moving(node["select_list"], row)
        if outermost:
            self.outputs, self.moving = outputs, self._moving_outputs(node["select_list"], row)
        for star in stars(node["select_list"]):
            if star["relation_name"].lower() not in row.dimensions:
                star["exclude_list"].append(ROW)
        number = {"class": "COLUMN_REF", "type": "COLUMN_REF", "alias": ROW, "query_location": NO_PLACE}
        node["select_list"].insert(0, {**number, "column_names": [row.alias, ROW]})
        return JoinedRow("", outputs, row.times | times, direct=False, moving=moving)

    def _or_old(self, condition: Node, row: JoinedRow) -> Node:
        """Return the condition that an old row or a delete meets too: it was another time when the row was written."""
        tree = self.query.trees.tree(f"SELECT 1 WHERE false OR {quoted(row.alias)}.{ROW} % 2 = 1")
        other: Node = tree["where_clause"]
        other["children"][0] = condition
        return other

    def _moves(self, column: Node, row: JoinedRow) -> bool:
        return self.query.trees.moves(column, row.names, row.moving)

    def _moving(self, columns: Sequence[Node], row: JoinedRow) -> frozenset[str]:
        """Return the names, in small letters, of the columns that have another value each time."""
        own = [column for column in columns if not stars(column) and self._moves(column, row)]
        names = [column["alias"] or (column.get("column_names") or [""])[-1] for column in own]
        kept = row.moving if list(stars(columns)) else frozenset[str]()
        return kept.union(str(name).lower() for name in names)

    def _moving_outputs(self, columns: Sequence[Node], row: JoinedRow) -> tuple[bool, ...] | None:
        """Return whether each column has another value each time; no flags if none has, None if it is not known."""
        found: list[bool] = []
        if not row.moving and not any(self._moves(column, row) for column in columns):
            return ()
        for column in columns:
            if not stars(column):
                found.append(self._moves(column, row))
            elif _plain(column) and (expanded := _star(column, row)) is not None:
                found += [name.lower() in row.moving for name, _ in expanded]
            else:
                return None
        return tuple(found)

    def _check_clauses(self, node: Node) -> None:
        query = self.query
        if node["type"] != "SELECT_NODE":
            hint = "UNION ALL of whole SELECTs is"
            raise query.error(node, "a set operation after FROM is not possible in a stream", hint)
        check_node(query, node)
        for clause, name in (("group_expressions", "GROUP BY"), ("having", "HAVING")):
            if node[clause]:
                first = node[clause][0] if clause == "group_expressions" else node[clause]
                raise query.error(first, f"{name} is not possible in a stream", _AGGREGATES)
        if node["aggregate_handling"] != "STANDARD_HANDLING":
            raise query.error(node, "GROUP BY ALL is not possible in a stream", _AGGREGATES)
        for clause in ("qualify", "sample"):
            if node[clause]:
                raise query.error(node[clause], f"{clause.upper()} is not possible in a stream", ONCE)

    def _from(self, table: Node, select: Node) -> JoinedRow:
        """Check the FROM clause, and return the names that the SELECT can use."""
        query = self.query
        if table.get("sample"):
            raise query.error(table, "TABLESAMPLE is not possible in a stream", ONCE)
        match table["type"]:
            case "BASE_TABLE" if table["table_name"] in query.sources:
                source = query.sources[table["table_name"]]
                if source.lookup is not None:
                    why = f"{source.name} is looked up, and there is no stream before it"
                    raise query.error(table, why, JOINS)
                self.view = table["table_name"]
                outputs = [(name, False) for name in source.columns]
                return JoinedRow(str(table["alias"] or table["table_name"]), outputs, source.computed, direct=True)
            case "BASE_TABLE":
                hint = f"a stream reads tables of the warehouse; write the query of a view in brackets, {BATCH}"
                raise query.error(table, f"{table['table_name']} is not a table of the warehouse", hint)
            case "SUBQUERY":
                if not table["alias"]:
                    table["alias"] = "_penstock_query"
                row = self.number(table["subquery"]["node"], outermost=False)
                row.alias = str(table["alias"])
                return row
            case "JOIN":
                right = table["right"]
                source_of = query.sources.get(right.get("table_name", ""))
                if source_of is None or source_of.lookup is None:
                    raise query.error(table, "a join of streams is not possible", JOINS)
                self._check(table["condition"])
                row = self._from(table["left"], select)
                self.lookups.append(lookup_join(query, select, table, row))
                return row
        raise query.error(table, "a stream reads a table or a query in brackets", ONCE)

    def _check(self, expression: object) -> None:
        for node in expressions(expression):
            name = str(node.get("function_name", "")).lower()
            if node["class"] == "WINDOW":
                raise self.query.error(node, "a window function is not possible in a stream", ONCE)
            if node["class"] == "SUBQUERY":
                raise self.query.error(node, "a query in an expression is not possible in a stream", ONCE)
            if node["class"] == "FUNCTION" and name in self.query.trees.aggregates:
                raise self.query.error(node, f"the aggregate function {name} is not possible in a stream", _AGGREGATES)
            if node["class"] == "FUNCTION" and name == "unnest":
                raise self.query.error(node, "unnest is not possible in a stream", ONCE)
            if node["class"] == "FUNCTION" and name == "proctime":
                node |= {"function_name": "now", "qualified_name": {"path": ["now"]}}


def _refs(tree: object) -> list[Node]:
    return [expression for expression in expressions(tree) if expression["class"] == "COLUMN_REF"]


def _plain(star: Node) -> bool:
    return star["class"] == "STAR" and not any(star[part] for part in _STAR_PARTS)


def _star(star: Node, row: JoinedRow) -> list[tuple[str, bool]] | None:
    """Return the columns of a star, with whether they are looked up."""
    relation = star["relation_name"].lower()
    looked_up = [(name, True) for alias, names in row.dimensions.items() if relation in {"", alias} for name in names]
    if relation in row.dimensions:
        return looked_up
    return None if row.outputs is None else [*row.outputs, *looked_up]


def _outputs(columns: Sequence[Node], row: JoinedRow) -> list[tuple[str, bool]] | None:
    found: list[tuple[str, bool]] = []
    for column in columns:
        if not stars(column):
            name = column["alias"] or (column["column_names"][-1] if column["class"] == "COLUMN_REF" else "")
            found.append((str(name), not row.uses_own(column)))
        elif _plain(column) and (expanded := _star(column, row)) is not None:
            found += expanded
        else:
            return None
    return found


def _depends_on(columns: Sequence[Node], row: JoinedRow) -> tuple[frozenset[str] | None, ...] | None:
    found: list[frozenset[str] | None] = []
    for column in columns:
        if not stars(column):
            refs = _refs(column)
            found.append(
                frozenset(
                    str(ref["column_names"][-1]) if not row.dimensions or row.is_own(ref) else _LOOKED_UP
                    for ref in refs
                )
            )
        elif _plain(column):
            relation = column["relation_name"].lower()
            found += [] if relation in row.dimensions else [None]
            found += [frozenset([_LOOKED_UP])] * sum(looked_up for _, looked_up in _star(column, row) or ())
        else:
            return None
    return tuple(found)
