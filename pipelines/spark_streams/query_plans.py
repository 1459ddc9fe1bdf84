"""A query that Spark has analyzed, on the changes of one table: each row of its result comes from one changed row.

The number of the change is carried through the plan, from the table to the result. What needs more than one row, such
as GROUP BY, is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from penstock.errors import ConfigError

Node: TypeAlias = Any  # a node of a plan, an expression or a list of them, in the JVM
# A plan, made of the plan of the table's changes and the column with their numbers. If the table has old rows and
# deletes, these meet conditions that have another result each time.
Build: TypeAlias = Callable[[Node, Node, bool], Node]
# Among the columns that a value depends on: the value is another one each time, as that of now().
MOVING = ""
_ONCE = "run the query once: SET 'execution.runtime-mode' = 'batch'"
_AGGREGATES = (
    "write the rows into a table WITH ('merge-engine' = 'aggregation', 'fields.c.aggregate-function' = 'sum'), "
    f"which adds and retracts them, or {_ONCE}"
)
_JOINS = (
    "write both streams into one 'partial-update' table, with UNION ALL; lookup joins run on the engine duckdb: leave "
    f"--engine out; or {_ONCE}"
)
_TABLES = f"a stream reads tables of the catalog; or {_ONCE}"
_REFUSED = {
    "Aggregate": ("GROUP BY, DISTINCT or an aggregate function", _AGGREGATES),
    "Distinct": ("DISTINCT or UNION without ALL", f"UNION ALL is possible; or {_ONCE}"),
    "Sort": ("ORDER BY", _ONCE),
    "GlobalLimit": ("LIMIT", _ONCE),
    "LocalLimit": ("LIMIT", _ONCE),
    "Offset": ("OFFSET", _ONCE),
    "Window": ("a window function", _ONCE),
    "Generate": ("a function that returns several rows", _ONCE),
    "Sample": ("TABLESAMPLE", _ONCE),
    "WithCTE": ("WITH", f"write the query in brackets after FROM, or {_ONCE}"),
    "Join": ("a join", _JOINS),
    "Except": ("EXCEPT", _ONCE),
    "Intersect": ("INTERSECT", _ONCE),
}


@dataclass(frozen=True)
class StreamPlan:
    """One SELECT of a query, on one table.

    `columns` are the columns of the result. `origins` has for each column by its id the table's columns that it depends
    on. `filtered_by` are the table's columns in conditions, and `reads` all that the query names.
    """

    relation: Node
    build: Build
    columns: tuple[Node, ...]
    origins: Mapping[int, frozenset[str]]
    filtered_by: frozenset[str]
    reads: frozenset[str]


class QueryPlans:
    """Reads plans of a session."""

    def __init__(self, jvm: Any) -> None:
        self._plans = jvm.org.apache.spark.sql.catalyst.plans.logical
        self._expressions = jvm.org.apache.spark.sql.catalyst.expressions
        self._jvm = jvm

    def selects(self, node: Node) -> list[StreamPlan]:
        """Return the SELECTs of a plan that UNION ALL connects. ConfigError for what a stream cannot do."""
        name = str(node.getClass().getSimpleName())
        if name == "DataSourceV2Relation":
            return [self._table(node)]
        if name not in {"Project", "Filter", "SubqueryAlias", "View", "Union"}:
            if node.children().isEmpty():
                why = f"{name} is not a table of the warehouse"
                raise ConfigError(f"the query cannot be run as a stream: {why}", hint=_TABLES)
            refused, hint = _REFUSED.get(name, (f"{name} of Spark's plan", _ONCE))
            raise ConfigError(f"the query cannot be run as a stream: {refused} is not possible in a stream", hint=hint)
        if node.subqueries().nonEmpty():
            why = "a query in an expression is not possible in a stream"
            raise ConfigError(f"the query cannot be run as a stream: {why}", hint=_ONCE)
        if name == "Union":
            children = items(node.children())
            return [self._renamed(plan, items(node.output())) for child in children for plan in self.selects(child)]
        below = self.selects(node.child())
        if name == "Project":
            return [self._projected(plan, node.projectList()) for plan in below]
        return [self._filtered(plan, node) for plan in below] if name == "Filter" else below

    def _table(self, relation: Node) -> StreamPlan:
        columns = items(relation.output())
        origins = {id_of(column): frozenset([str(column.name())]) for column in columns}
        return StreamPlan(relation, lambda table, *_: table, columns, origins, frozenset(), frozenset())

    def _projected(self, below: StreamPlan, listed: Node) -> StreamPlan:
        columns = items(listed)
        own = {id_of(column): self._origins(below, column) for column in columns}
        origins, named = {**below.origins, **own}, frozenset().union(*own.values())

        def build(table: Node, change: Node, has_old: bool) -> Node:
            return self._plans.Project(self.seq([*columns, change]), below.build(table, change, has_old))

        outputs = tuple(column.toAttribute() for column in columns)
        return StreamPlan(below.relation, build, outputs, origins, below.filtered_by, below.reads | named)

    def _filtered(self, below: StreamPlan, node: Node) -> StreamPlan:
        condition = node.condition()
        named = self._origins(below, condition)

        def build(table: Node, change: Node, has_old: bool) -> Node:
            own = self._or_old(condition, change) if has_old and MOVING in named else condition
            return self._plans.Filter(own, below.build(table, change, has_old))

        filtered_by = below.filtered_by | named
        return StreamPlan(below.relation, build, below.columns, below.origins, filtered_by, below.reads | named)

    def _or_old(self, condition: Node, change: Node) -> Node:
        """Return the condition that an old row or a delete meets too: it was another time when the row was written."""
        parser = getattr(self._jvm.org.apache.spark.sql.catalyst.parser, "CatalystSqlParser$")
        # Spark resolves the name, and chooses the types.
        is_old = getattr(parser, "MODULE$").parseExpression(f"`{change.name()}` % 2 = 1")
        return self._expressions.Or(condition, is_old)

    def _origins(self, below: StreamPlan, expression: Node) -> frozenset[str]:
        """Return the columns of the table that a value depends on."""
        named = items(expression.references().toSeq())
        clock = self._jvm.org.apache.spark.sql.catalyst.trees.TreePattern.CURRENT_LIKE()
        moves = not expression.deterministic() or expression.containsPattern(clock)
        own = frozenset([MOVING]) if moves else frozenset[str]()
        return own.union(*(below.origins.get(id_of(column), frozenset()) for column in named))

    def _renamed(self, below: StreamPlan, outputs: Sequence[Node]) -> StreamPlan:
        pairs = zip(below.columns, outputs, strict=True)
        return self._projected(below, self.seq([self.alias(column, out) for column, out in pairs]))

    def alias(self, column: Node, output: Node) -> Node:
        """Return a column under the name and the id of another one."""
        no_metadata = self._jvm.scala.Option.empty()
        nothing = self.seq([])
        return self._expressions.Alias(column, output.name(), output.exprId(), nothing, no_metadata, nothing)

    def seq(self, members: list[Node]) -> Node:
        """Return a list of Scala."""
        return self._jvm.PythonUtils.toSeq(members)

    def texts(self, options: Node) -> dict[str, str]:
        """Return a map of Scala."""
        return dict(self._jvm.scala.jdk.javaapi.CollectionConverters.asJava(options))

    def project(self, columns: list[Node], child: Node) -> Node:
        """Return a plan with these columns."""
        return self._plans.Project(self.seq(columns), child)


def items(seq: Node) -> tuple[Node, ...]:
    """Return the items of a list of Scala."""
    return tuple(seq.apply(place) for place in range(seq.size()))


def id_of(column: Node) -> int:
    """Return the id by which a plan knows a column."""
    return int(column.exprId().id())
