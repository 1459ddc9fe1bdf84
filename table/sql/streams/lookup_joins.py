"""A JOIN of a stream's rows with a dimension: the keys that it looks up, and the columns that the query names."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, field

from penstock.errors import ConfigError, did_you_mean
from penstock.table.lookup.partitions import LookupPartitions
from penstock.table.options.catalog import find
from penstock.table.options.checks import check_given, report
from penstock.table.options.declaration import Effect
from penstock.table.sql.grammar.cursor import TextPlace
from penstock.table.sql.streams.query_tree import NO_PLACE, Node, expressions, offset_of, stars
from penstock.table.sql.streams.stream_text import BATCH, ROW, StreamSource, StreamText
from penstock.table.values.sql_text import quoted

JOINS = (
    "a table whose rows are looked up as they are now: JOIN dim FOR SYSTEM_TIME AS OF PROCTIME() AS d ON o.k = d.k; "
    f"for two streams, write both into one 'partial-update' table, with UNION ALL, {BATCH}"
)
_FORM = "JOIN dim FOR SYSTEM_TIME AS OF PROCTIME() AS d ON o.k = d.k"
# The second key is the one of older releases.
_PARTITIONS = ("scan.partitions", "lookup.dynamic-partition")
_TIME = "FOR SYSTEM_TIME AS OF PROCTIME(), or FROM (SELECT *, PROCTIME() AS proc_time FROM t) AS o"


@dataclass(frozen=True, slots=True)
class LookupJoin:
    """A dimension, which DuckDB reads under the name `view`.

    `keys` is the query of the keys to look up, in the order of the columns `by`, and of whether a new row has the key:
    old rows and deletes need no match. `own` are the columns of the stream's table that are these keys, if the query
    does nothing else than to read them. `columns` are those to return, and `partitions` those that are looked up.
    """

    source: StreamSource
    view: str
    keys: str
    by: tuple[str, ...]
    columns: tuple[str, ...]
    place: TextPlace
    partitions: LookupPartitions | None = None
    own: tuple[str, ...] = ()


@dataclass(slots=True)
class JoinedRow:
    """The columns that a SELECT can name: the row of the stream, and the dimensions that are joined with it.

    `outputs` are the columns of the stream's row with whether they come from a dimension; None if they are not known.
    `times` are the columns that are PROCTIME(). `conditions` are those that the joins add to the WHERE clause. `moving`
    are the columns, in small letters, that have another value each time.
    """

    alias: str
    outputs: list[tuple[str, bool]] | None
    times: frozenset[str]
    direct: bool
    dimensions: dict[str, tuple[str, ...]] = field(default_factory=dict)
    conditions: list[Node] = field(default_factory=list)
    moving: frozenset[str] = frozenset()

    @property
    def names(self) -> set[str]:
        """Return the names of all columns, as far as they are known, in small letters."""
        return {name.lower() for name, _ in self.outputs or ()}.union(*map(_lower, self.dimensions.values()))

    def is_own(self, ref: Node) -> bool:
        """Return whether a column is known to come from the stream, and from no dimension."""
        first, *rest = [str(name).lower() for name in ref["column_names"]]
        name = rest[0] if rest and first == self.alias.lower() else first
        if rest and first in self.dimensions:
            return False
        own = [comes_from for column, comes_from in self.outputs or () if column.lower() == name]
        qualified = bool(rest) and first == self.alias.lower()
        elsewhere = not qualified and any(name in _lower(columns) for columns in self.dimensions.values())
        return bool(own) and not any(own) and not elsewhere

    def uses_own(self, tree: object) -> bool:
        """Return whether an expression uses nothing but the stream's row."""
        refs = (expression for expression in expressions(tree) if expression["class"] == "COLUMN_REF")
        return not stars(tree) and all(self.is_own(ref) for ref in refs)

    def is_of(self, alias: str, columns: Sequence[str], ref: Node) -> bool:
        """Return whether a node is a column of the dimension with this alias."""
        if ref["class"] != "COLUMN_REF":
            return False
        names = [str(name).lower() for name in ref["column_names"]]
        if len(names) == 2 and names[0] == alias.lower():
            return names[1] in _lower(columns)
        return len(names) == 1 and names[0] in _lower(columns) and not self.is_own(ref)


def lookup_join(query: StreamText, select: Node, join: Node, row: JoinedRow) -> LookupJoin:
    """Return the lookup of a JOIN, and make it a LEFT JOIN: old rows and deletes remain without a match, too.

    What they take away was found before. The condition of an INNER JOIN is added to the conditions of the row.
    """
    table = join["right"]
    source = query.sources[table["table_name"]]
    alias = str(table["alias"] or table["table_name"])
    _check_form(query, join, source)
    _check_moment(query, table, source, row)
    pairs = _pairs(join["condition"], alias, source.columns, row)
    if not pairs:
        _refuse_unknown(query, join["condition"], alias, source)
        raise query.error(join, f"{source.name} is looked up without a column that equals one of the stream", _FORM)
    known = [conjunct for conjunct in _conjuncts(select["where_clause"]) if row.uses_own(conjunct)]
    conditions = [*known, *row.conditions]
    uses_own = all(row.uses_own(tree) for tree in (*pairs.values(), *conditions))
    rows = _stream_of(join["left"]) if uses_own else join["left"]
    keys = _keys_query(query, rows, row.alias, list(pairs.values()), conditions)
    own = () if conditions else _own_columns(list(pairs.values()), row)
    if join["join_type"] == "INNER":
        first = next(iter(pairs))
        is_found = f"SELECT 1 WHERE {quoted(alias)}.{quoted(first)} IS NOT NULL OR {quoted(row.alias)}.{ROW} % 2 = 1"
        row.conditions.append(query.trees.tree(is_found)["where_clause"])
        join["join_type"] = "LEFT"
    row.dimensions[alias.lower()] = source.columns
    columns = tuple(name for name in source.columns if name in pairs or _is_named(name, alias, select))
    place = query.place(offset_of(table))
    partitions = _partitions(query, table, source)
    return LookupJoin(source, str(table["table_name"]), keys, tuple(pairs), columns, place, partitions, own)


def _refuse_unknown(query: StreamText, condition: Node, alias: str, source: StreamSource) -> None:
    """Refuse a column of the dimension that it does not have."""
    for expression in expressions(condition):
        names = [str(name) for name in expression["column_names"]] if expression["class"] == "COLUMN_REF" else []
        if len(names) == 2 and names[0].lower() == alias.lower() and names[1].lower() not in _lower(source.columns):
            hint = did_you_mean(names[1], source.columns, f"its columns are {', '.join(source.columns)}")
            raise query.error(expression, f"{source.name} has no column {names[1]!r}", hint)


def and_of(conditions: Sequence[Node]) -> Node | None:
    """Return the tree of conditions that all hold."""
    if len(conditions) < 2:
        return conditions[0] if conditions else None
    node = {"class": "CONJUNCTION", "type": "CONJUNCTION_AND", "alias": "", "query_location": NO_PLACE}
    return {**node, "children": list(conditions)}


def _check_form(query: StreamText, join: Node, source: StreamSource) -> None:
    if join["join_type"] not in {"INNER", "LEFT"} or join["ref_type"] != "REGULAR" or join["using_columns"]:
        raise query.error(join, "a lookup join is an INNER or a LEFT JOIN with ON", _FORM)
    if join["right"]["column_name_alias"]:
        raise query.error(join["right"], "the columns of a dimension cannot be renamed in FROM", _FORM)
    if source.system is not None:
        raise query.error(join["right"], f"rows of {source.name}${source.system} cannot be looked up", _FORM)
    others = {name: value for name, value in source.options.items() if name not in _PARTITIONS}
    for name in others:
        option = find(name)
        # Those of Flink's joins are in statements that are copied, and change no rows.
        if not name.startswith("lookup.") or option is None or option.effect is not Effect.REPORTED:
            why = f"the option {name!r} has no effect on a lookup in {source.name}"
            hint = "leave it out; options of the table are set by ALTER TABLE t SET (...)"
            raise query.error(join["right"], why, hint)
    try:
        check_given(others)
    except ConfigError as error:
        raise query.error(join["right"], error.message, error.hint or "") from error
    report(f"a lookup in {source.name}", others)


def _partitions(query: StreamText, table: Node, source: StreamSource) -> LookupPartitions | None:
    text = next((source.options[name] for name in _PARTITIONS if name in source.options), None)
    if text is None:
        return None
    try:
        partitions = LookupPartitions.parse(text)
        partitions.check(source.table.definition, source.name)
    except ConfigError as reason:
        raise query.error(table, reason.message, reason.hint or "") from reason
    return partitions


def _check_moment(query: StreamText, table: Node, source: StreamSource, row: JoinedRow) -> None:
    """Refuse all times except the processing time."""
    moment = source.lookup.moment if source.lookup is not None else ()
    if not moment:
        return
    name, written = moment[-1].lower(), ".".join(moment)
    if len(moment) > 1 and moment[-2].lower() != row.alias.lower():
        raise query.error(table, f"FOR SYSTEM_TIME AS OF {written} is not a column of the stream {row.alias}", _TIME)
    if name in row.times:
        return
    if name in {column.lower() for column, _ in row.outputs or ()}:
        why = f"FOR SYSTEM_TIME AS OF {written} asks for the rows of another time: only those of now are looked up"
        raise query.error(table, why, _TIME)
    if name.replace("_", "") != "proctime":
        raise query.error(table, f"FOR SYSTEM_TIME AS OF {written} is not known as the processing time", _TIME)


def _pairs(condition: Node, alias: str, columns: Sequence[str], row: JoinedRow) -> dict[str, Node]:
    """Return for each column of the dimension that must equal an expression this expression."""
    names = {column.lower(): column for column in columns}
    found: dict[str, Node] = {}
    for conjunct in _conjuncts(condition):
        if conjunct["type"] != "COMPARE_EQUAL":
            continue
        for side, other in ((conjunct["left"], conjunct["right"]), (conjunct["right"], conjunct["left"])):
            if row.is_of(alias, columns, side) and not any(
                row.is_of(alias, columns, ref) for ref in expressions(other)
            ):
                found.setdefault(names[str(side["column_names"][-1]).lower()], other)
                break
    return found


def _own_columns(keys: Sequence[Node], row: JoinedRow) -> tuple[str, ...]:
    """Return the columns of the stream's table that are these keys; none if one is an expression, or another's."""
    columns = {name.lower(): name for name, _ in row.outputs or ()}
    names = [[str(name).lower() for name in key["column_names"]] for key in keys if key["class"] == "COLUMN_REF"]
    # A longer name is a field of a column.
    plain = [name[-1] for name in names if len(name) == 1 or name[:-1] == [row.alias.lower()]]
    if not row.direct or len(plain) < len(keys) or not all(row.is_own(key) for key in keys):
        return ()
    return tuple(columns[name] for name in plain)


def _stream_of(rows: Node) -> Node:
    """Return the stream without the dimensions that were joined with it, which repeat rows but leave none out."""
    while rows["type"] == "JOIN":
        rows = rows["left"]
    return rows


def _keys_query(query: StreamText, left: Node, stream: str, keys: Sequence[Node], conditions: Sequence[Node]) -> str:
    node = query.trees.tree(f"SELECT {quoted(stream)}.{ROW} FROM t")
    names = [f"k{number}" for number in range(len(keys))]
    node["select_list"] += [{**deepcopy(key), "alias": name} for key, name in zip(keys, names, strict=True)]
    node["from_table"], node["where_clause"] = deepcopy(left), deepcopy(and_of(conditions))
    known = " AND ".join(f"{name} IS NOT NULL" for name in names)
    listed = ", ".join(names)
    text = query.trees.text(node)
    return f"SELECT {listed}, bool_or({ROW} % 2 = 0) FROM ({text}) AS k WHERE {known} GROUP BY {listed}"


def _is_named(column: str, alias: str, select: Node) -> bool:
    parts = [select[part] for part in ("select_list", "where_clause", "from_table")]
    if any(star["relation_name"].lower() in {"", alias.lower()} for star in stars(parts[:2])):
        return True
    refs = (expression for expression in expressions(parts) if expression["class"] == "COLUMN_REF")
    return any(column.lower() in _lower(ref["column_names"]) for ref in refs)


def _conjuncts(condition: Node | None) -> list[Node]:
    if condition is None:
        return []
    return list(condition["children"]) if condition["type"] == "CONJUNCTION_AND" else [condition]


def _lower(names: Sequence[object]) -> set[str]:
    return {str(name).lower() for name in names}
