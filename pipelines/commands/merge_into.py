"""`penstock merge-into`: update, insert and delete rows with those of another table, on DuckDB or on Spark."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from penstock.ingest.sync_actions import Flag, pairs
from penstock.pipelines.commands.arguments import Flags, parse
from penstock.pipelines.commands.execution import ON_SPARK, also, on_spark, parallelism_of
from penstock.pipelines.commands.output import committed
from penstock.pipelines.commands.table_commands import TABLE_COMMANDS
from penstock.pipelines.commands.target import ON_TABLE, catalog_of, needed, table_of, text, warehouse_and_options

if TYPE_CHECKING:
    from penstock.table.sql.dml.merge_query import Clause

log = logging.getLogger(__name__)
_FLAGS = (
    *ON_TABLE,
    Flag("target-as", "alias of the table in the conditions", metavar="NAME"),
    Flag("source-sql", "a statement to run first, which creates a view or table; may be repeated", "texts", "SQL"),
    Flag("source-table", "the source table or view", metavar="NAME", required=True),
    Flag("on", "when rows match, as an SQL condition", metavar="SQL", required=True),
    Flag("merge-actions", "actions to perform, separated by commas", metavar="A,B", required=True),
    Flag("matched-upsert-set", "col=expression,... or *", metavar="LIST"),
    Flag("matched-upsert-condition", "condition on the matched rows", metavar="SQL"),
    Flag("matched-delete-condition", "condition on the matched rows", metavar="SQL"),
    Flag("not-matched-insert-values", "a value for every column, or *", metavar="LIST"),
    Flag("not-matched-insert-condition", "condition on the rows that do not match", metavar="SQL"),
    Flag("not-matched-by-source-upsert-set", "col=expression,...", metavar="LIST"),
    Flag("not-matched-by-source-upsert-condition", "condition on target rows without a source row", metavar="SQL"),
    Flag("not-matched-by-source-delete-condition", "condition on target rows without a source row", metavar="SQL"),
    Flag(
        "parallelism",
        "number of threads of the join (default: one per core); on Spark, of tasks that join and write",
        metavar="N",
    ),
    *ON_SPARK,
    *also("sink-parallelism"),
)
_NOTHING = "no row changes"


def command(name: str, words: list[str]) -> int:
    flags = parse(name, _FLAGS, words, TABLE_COMMANDS[name][1])
    clauses = [_clause(flags, part.strip()) for part in needed(flags, "merge-actions").split(",") if part.strip()]
    return _on_spark(flags, clauses) if _joins_on_spark(flags) else _on_duckdb(flags, clauses)


def _joins_on_spark(flags: Flags) -> bool:
    """Return whether Spark runs the merge.

    Spark before 4.3 cannot: a merge without --master is then left to DuckDB, and one with --master is refused.
    """
    if not on_spark(flags):
        return False
    from penstock.pipelines.spark.versions import Feature, installed
    from penstock.pipelines.spark.versions import text as number_of

    if "master" not in flags and not Feature.CATALOG.is_there:
        log.warning(
            "event=merge_without_spark spark=%s needed=%s: conditions and values are SQL of DuckDB",
            number_of(installed()),
            number_of(Feature.CATALOG.since),
        )
        return False
    Feature.CATALOG.require()
    return True


def _on_duckdb(flags: Flags, clauses: list[Clause]) -> int:
    from penstock.table.sql.dml.merge_into import MergeSource, merge_into

    snapshots = merge_into(
        catalog_of(flags),
        f"{needed(flags, 'database')}.{needed(flags, 'table')}",
        MergeSource(needed(flags, "source-table"), flags.get("source-sql", [])),
        needed(flags, "on"),
        clauses,
        target_as=text(flags, "target-as"),
        threads=parallelism_of(flags),
    )
    return committed(flags, [snapshot.id for snapshot in snapshots], _NOTHING)


def _on_spark(flags: Flags, clauses: list[Clause]) -> int:
    from penstock.pipelines.commands.spark_merge import TASKS, SparkMerge
    from penstock.pipelines.commands.spark_statements import spark_session

    database, name = needed(flags, "database"), needed(flags, "table")
    source, on = needed(flags, "source-table"), needed(flags, "on")
    merge = SparkMerge(table_of(flags), f"`{database}`.`{name}`", text(flags, "target-as"), source, on, clauses)
    settings, parallelism = pairs(flags.get("spark-conf", ())), parallelism_of(flags)
    meanwhile = {} if parallelism is None else {TASKS: str(parallelism)}
    opened = spark_session(*warehouse_and_options(flags), database, text(flags, "master"), settings, meanwhile)
    with opened as session:
        made = merge.run(session, flags.get("source-sql", []))
    return committed(flags, made, _NOTHING)


def _clause(flags: Flags, action: str) -> Clause:
    from penstock.table.sql.dml.merge_query import Clause

    values = text(flags, f"{action}-values") or text(flags, f"{action}-set")
    return Clause(action, values, text(flags, f"{action}-condition"))
