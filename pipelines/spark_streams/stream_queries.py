"""The SELECTs of a streaming statement on Spark, which run on one range of snapshots after the other."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.errors import ConfigError
from penstock.pipelines.spark_catalog.session_reads import session_reads
from penstock.pipelines.spark_source.change_numbers import CHANGE
from penstock.pipelines.spark_source.spark_options import CATALOG_TABLE, STREAM_RANGE, STREAM_TABLE
from penstock.pipelines.spark_source.table_place import CatalogTable
from penstock.pipelines.spark_streams.query_plans import MOVING, Node, QueryPlans, StreamPlan, id_of, items
from penstock.pipelines.spark_streams.query_text import StreamedText
from penstock.table.catalog.settings import CatalogSettings
from penstock.table.handle import Table
from penstock.table.sql.grammar.cursor import TextPlace
from penstock.table.sql.streams.stream_options import check_stream_options
from penstock.table.sql.streams.stream_queries import StreamBranch
from penstock.table.sql.streams.stream_text import StreamSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_OTHER_CATALOG = "a stream reads and writes tables of the warehouse: name them as DATABASE.TABLE"
Offset = dict[str, int]


@dataclass(frozen=True)
class StreamSession:
    """A session of Spark in which a warehouse is the catalog of this name."""

    spark: SparkSession
    settings: CatalogSettings
    catalog: str

    @property
    def plans(self) -> QueryPlans:
        """Return the reader of query plans."""
        return QueryPlans(self.spark._jvm)

    def parsed(self, text: str) -> Node:
        """Return the plan of a statement as it is written."""
        return self._state.sqlParser().parsePlan(text)

    def analyzed(self, text: str) -> Node:
        """Return the plan of a statement, which is not run."""
        mode = self.spark._jvm.org.apache.spark.sql.execution.CommandExecutionMode
        return self._state.executePlan(self.parsed(text), mode.SKIP()).analyzed()

    def views(self, name: str) -> bool:
        """Return whether a temporary view has this name."""
        return bool(self._state.catalog().getTempView(name).isDefined())

    def frame(self, plan: Node) -> DataFrame:
        """Return the rows of a plan."""
        from pyspark.sql.classic.dataframe import DataFrame as ClassicFrame

        datasets = self.spark._jvm.org.apache.spark.sql.classic.Dataset
        return ClassicFrame(datasets.ofRows(self.spark._jsparkSession, plan), self.spark)

    def table(self, names: Sequence[str]) -> Table:
        """Open a table of the warehouse by its name in a statement."""
        *before, name = names
        if len(before) > 1 and before[0] != self.catalog:
            raise ConfigError(f"{'.'.join(names)} is not a table of the warehouse", hint=_OTHER_CATALOG)
        database = before[-1] if before else self.spark.catalog.currentDatabase()
        return self.settings.open().table(f"{database}.{name}")

    def table_options(self, name: str) -> dict[str, str]:
        """Return the options that name a table in its catalog."""
        table = CatalogTable(self.settings, name.partition("$")[0])
        return {CATALOG_TABLE.key: table.text()}

    @property
    def _state(self) -> Any:
        return self.spark._jsparkSession.sessionState()


@dataclass(frozen=True)
class StreamQuery:
    """One SELECT on the changes of a table. The plan of Spark is made once, and run on each range of snapshots."""

    session: StreamSession
    plan: StreamPlan
    branch: StreamBranch
    system: str | None

    @property
    def source(self) -> StreamSource:
        """Return the table."""
        return self.branch.source

    @property
    def names(self) -> list[str]:
        """Return the names of the result's columns."""
        return [str(column.name()) for column in self.plan.columns]

    @property
    def read_options(self) -> dict[str, str]:
        """Return the options of a stream of the table."""
        branch = self.source.name.partition("$")[2]
        parts = [part for part in (branch, self.system) if part]
        path = "".join([self.source.table.path, *(f"${part}" for part in parts)])
        own = {"path": path, "rowkind": "true", **self.session.table_options(self.source.name)}
        return {**self.source.options, **own}

    def rows(self, begin: Offset, end: Offset) -> DataFrame:
        """Return the rows of the result between two offsets; the last column has the numbers of the changes."""
        columns = self._columns()
        options = {**self.read_options, STREAM_RANGE.key: json.dumps([begin, end])}
        reader = self.session.spark.read.format("penstock").schema(_schema(columns)).options(**options)
        table = reader.load()._jdf.queryExecution().analyzed()
        change, *read = items(table.output())
        plans = self.session.plans
        pairs = zip(read, columns, strict=True)
        leaf = plans.project([change, *(plans.alias(read_column, column) for read_column, column in pairs)], table)
        return self.session.frame(self.plan.build(leaf, change, self.source.changes_rows))

    def _columns(self) -> list[Node]:
        """Return the columns that are read: those the query names, and the key by which updates are known."""
        needed = {*self.plan.reads, *self.source.table.primary_keys}
        shown = {id_of(column) for column in self.plan.columns}
        given = items(self.plan.relation.output())
        kept = [column for column in given if str(column.name()) in needed or id_of(column) in shown or self.system]
        return kept or list(given[:1])


def _schema(columns: list[Node]) -> StructType:
    from pyspark.sql.types import LongType, StructField, StructType, _parse_datatype_json_string

    fields = [
        StructField(str(column.name()), _parse_datatype_json_string(column.dataType().json())) for column in columns
    ]
    return StructType([StructField(CHANGE, LongType()), *fields])


def stream_queries(session: StreamSession, text: StreamedText, plan: Node, place: TextPlace) -> list[StreamQuery]:
    """Return the SELECTs of an analyzed query that UNION ALL connects."""
    catalog = session.settings.open()
    queries = []
    for select in session.plans.selects(plan):
        database, name = named_table(session, select.relation)
        options = {**_of_session(session, database, name), **_written(text, select.relation)}
        check_stream_options(options)
        source = StreamSource.of(catalog, (database, name), options)
        origins = tuple(select.origins.get(id_of(column), frozenset()) for column in select.columns)
        branch = StreamBranch(
            source=source,
            view="",
            text=text.text,
            filtered_by=select.filtered_by,
            depends_on=origins,
            place=place,
            lookups=(),
            looked_up=(False,) * len(origins),
            filters_lookups=False,
            filter_moves=MOVING in select.filtered_by,
            moving=tuple(MOVING in named for named in origins),
            reads=None,
        )
        _, _, system = _parts(name)
        queries.append(StreamQuery(session, select, branch, system if source.system is not None else None))
    return queries


def named_table(session: StreamSession, relation: Node) -> tuple[str, str]:
    """Return the database and the name of a table in a plan. ConfigError if it is of another catalog."""
    if relation.catalog().isEmpty() or str(relation.catalog().get().name()) != session.catalog:
        raise ConfigError(f"{relation.name()} is not a table of the warehouse", hint=_OTHER_CATALOG)
    identifier = relation.identifier().get()
    return ".".join(identifier.namespace()), str(identifier.name())


def _parts(name: str) -> tuple[str, str | None, str | None]:
    from penstock.table.catalog.base import parse_name

    return parse_name(name)


def _of_session(session: StreamSession, database: str, name: str) -> dict[str, str]:
    settings = {key: text for key, text in session.spark.conf.getAll.items() if key.startswith("spark.paimon.")}

    def exists(table: str) -> bool:
        return session.settings.open().table_exists(table)

    return session_reads(settings, session.catalog, database, _parts(name)[0], exists)


def _written(text: StreamedText, relation: Node) -> Mapping[str, str]:
    number = relation.options().get(STREAM_TABLE.key)
    return {} if number is None else text.options[int(number)]
