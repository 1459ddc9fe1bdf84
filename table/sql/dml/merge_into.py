"""MERGE INTO a table with a primary key, like Paimon's merge-into action: conditions and values are SQL."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from tempfile import TemporaryDirectory

import numpy as np

from penstock.errors import ConfigError
from penstock.row_kinds import DELETE
from penstock.table.catalog.base import split_name
from penstock.table.catalog.catalog import Catalog
from penstock.table.handle import Table
from penstock.table.meta.snapshot import Snapshot
from penstock.table.operations.delete import check_deletable
from penstock.table.operations.waiting_rows import compact_waiting_rows
from penstock.table.sql.dml.merge_query import ACTIONS, KIND_COLUMN, Clause, MergeQuery, name_of
from penstock.table.sql.dml.update_and_delete import changing_writer
from penstock.table.sql.dml.update_rules import check_distinct_names, check_newest_rows
from penstock.table.sql.queries.session import Session
from penstock.table.values.sql_text import quoted


@dataclass(frozen=True, slots=True)
class MergeSource:
    """The source of a merge: a table of the catalog, a view that `statements` create, or one of `rows` by name.

    `rows` are Arrow tables. `name` may have an alias, and may be a query in parentheses.
    """

    name: str
    statements: Sequence[str] = ()
    rows: Mapping[str, object] = field(default_factory=dict)


def merge_into(
    catalog: Catalog,
    target: str,
    source: MergeSource,
    on: str,
    clauses: Sequence[Clause],
    *,
    target_as: str | None = None,
    threads: int | None = None,
) -> list[Snapshot]:
    """Merge the rows of `source` into `target` (`database.table`) in one commit; no snapshot when nothing changes.

    CommitConflict when another job writes the same buckets in the meantime. A target row that two source rows or two
    clauses would change is refused. DuckDB keeps the rows that it joins, and the changed rows, in memory up to its
    limit (80% of the machine's, or `SET memory_limit` among the statements of the source), and the rest in a temporary
    folder. It uses at most `threads` threads.
    """
    table = catalog.table(target)
    database, own_name = split_name(target)
    check_merge(table, clauses)
    alias = target_as or own_name
    check_distinct_names(
        alias, name_of(source.name), table, "set an alias of the target: --target-as x, in CALL target_alias => 'x'"
    )
    compact_waiting_rows(table.scan().store)
    # The writer reads the table state before the query does, so that the commit detects rows other jobs write later.
    with TemporaryDirectory() as folder, changing_writer(table) as writer, Session(catalog, database) as session:
        session.bound(threads, folder)
        for name, rows in source.rows.items():
            session.register(name, rows)
        for statement in source.statements:
            session.run(statement)
        columns = session.columns_of(f"SELECT * FROM {source.name}")[0]
        merge = MergeQuery(table, database, own_name, alias, source.name, on, columns)
        # A table, because the changes are read twice: for the check of doubles, and to be written.
        query = merge.query(clauses)
        with in_words_of_the_merge(on, clauses):
            session.run(f"CREATE TEMP TABLE _penstock_changes AS {query}")
        _refuse_doubles(session, table)
        changed = False
        for batch in session.batches("SELECT * FROM _penstock_changes"):
            if batch.num_rows:
                writer.write(batch.drop_columns([KIND_COLUMN]), batch.column(KIND_COLUMN))
                changed = True
        return writer.commit() if changed else []


def delete_by_query(catalog: Catalog, target: str, where: str, source_sql: Sequence[str] = ()) -> list[Snapshot]:
    """Delete rows of a table with a primary key by a condition that may query other tables.

    It may also query views created by `source_sql`. One commit; no snapshot when no row matches. The rows of the table
    are kept in memory.
    """
    table = catalog.table(target)
    database, _ = split_name(target)
    if not table.primary_keys:
        raise ConfigError(
            "rows can be deleted by a query only in a table with a primary key",
            table=table.name,
            hint="DELETE of  penstock sql  also works on tables without a key",
        )
    check_deletable(table.definition, table.name)
    check_newest_rows(table, "DELETE")
    compact_waiting_rows(table.scan().store)
    with changing_writer(table) as writer, Session(catalog, database) as session:
        for statement in source_sql:
            session.run(statement)
        columns = ", ".join(quoted(field.name) for field in table.definition.fields)
        changed = False
        for batch in session.batches(f"SELECT {columns} FROM {target} WHERE {where}"):
            if batch.num_rows:
                writer.write(batch, np.full(batch.num_rows, DELETE, np.int8))
                changed = True
        return writer.commit() if changed else []


def check_merge(table: Table, clauses: Sequence[Clause]) -> None:
    """Refuse a merge whose clauses the table does not allow; ConfigError."""
    if not table.primary_keys:
        raise ConfigError(
            "only a table with a primary key can be merged into",
            table=table.name,
            hint="MERGE INTO of  penstock sql  also changes tables without a key",
        )
    if not clauses:
        raise ConfigError("the merge has no actions", hint=f"name one of {', '.join(ACTIONS)}")
    check_newest_rows(table, "a merge")
    if any(clause.kind == DELETE for clause in clauses):
        check_deletable(table.definition, table.name)
    for group in ("matched", "not-matched-by-source"):
        both = [clause for clause in clauses if clause.action in {f"{group}-upsert", f"{group}-delete"}]
        if len(both) > 1 and not all(clause.condition for clause in both):
            raise ConfigError(
                f"two actions on {group} rows need a condition each",
                hint="add a condition to each action; those for one row must not overlap",
            )


@contextmanager
def in_words_of_the_merge(on: str, clauses: Sequence[Clause]) -> Iterator[None]:
    """Name the condition and the clauses in errors of the query, instead of the query that was made of them."""
    try:
        yield
    except ConfigError as error:
        error.facts.pop("sql", None)
        error.message = error.message.partition("\n\nLINE ")[0]
        error.facts |= {"merge condition": on}
        for clause in clauses:
            written = [clause.values, clause.condition and f"if {clause.condition}"]
            error.facts[clause.action] = " ".join(filter(None, written)) or "every row"
        raise


def _refuse_doubles(session: Session, table: Table) -> None:
    keys = ", ".join(map(quoted, table.primary_keys))
    doubled = session.query(f"SELECT {keys} FROM _penstock_changes GROUP BY {keys} HAVING count(*) > 1 LIMIT 1")
    if doubled.num_rows:
        raise changed_twice(table, key=doubled.to_pylist()[0])


def changed_twice(table: Table, **facts: object) -> ConfigError:
    """Return the error of a merge that would change one row twice."""
    return ConfigError(
        "several source rows, or several actions, would change one row",
        table=table.name,
        **facts,
        hint="use a source with one row per key, and conditions that exclude each other",
    )
