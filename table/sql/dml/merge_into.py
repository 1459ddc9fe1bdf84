"""MERGE INTO a table with a primary key, like Paimon's merge-into action: conditions and values are SQL."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from tempfile import TemporaryDirectory

import numpy as np

from penstock.errors import ConfigError
from penstock.row_kinds import DELETE, INSERT, UPDATE_AFTER
from penstock.table.catalog.base import split_name
from penstock.table.catalog.catalog import Catalog
from penstock.table.handle import Table
from penstock.table.meta.snapshot import Snapshot
from penstock.table.operations.delete import check_deletable
from penstock.table.sql.dml.update_rules import check_newest_rows
from penstock.table.sql.grammar.tokens import SqlToken, duck_text, quoted, tokens_of
from penstock.table.sql.queries.session import Session

ACTIONS = (
    "matched-upsert",
    "matched-delete",
    "not-matched-insert",
    "not-matched-by-source-upsert",
    "not-matched-by-source-delete",
)
_KINDS = {"upsert": UPDATE_AFTER, "delete": DELETE, "insert": INSERT}
_KIND = "_penstock_kind"


@dataclass(frozen=True, slots=True)
class Clause:
    """One clause of a merge; `action` is one of ACTIONS.

    `values` is `*` or a list: of `column = expression` for an upsert, of expressions for an insert.
    """

    action: str
    values: str | None = None
    condition: str | None = None

    def __post_init__(self) -> None:
        if self.action not in ACTIONS:
            raise ConfigError(f"{self.action!r} is not a merge action", hint=f"choices are {', '.join(ACTIONS)}")
        if self.values is None and not self.action.endswith("-delete"):
            what = "insert-values" if self.action.endswith("insert") else "upsert-set"
            raise ConfigError(f"{self.action} needs its values", hint=f"the {what} of the action, or *")

    @property
    def kind(self) -> int:
        return _KINDS[self.action.rpartition("-")[2]]

    @property
    def where(self) -> str:
        return f" AND ({self.condition})" if self.condition else ""


def merge_into(
    catalog: Catalog,
    target: str,
    source: str,
    on: str,
    clauses: Sequence[Clause],
    *,
    target_as: str | None = None,
    source_sql: Sequence[str] = (),
    source_rows: Mapping[str, object] | None = None,
    threads: int | None = None,
) -> list[Snapshot]:
    """Merge the rows of `source` into `target` (`database.table`) in one commit; no snapshot when nothing changes.

    `source` is a table of the catalog, a view created by `source_sql`, or one of `source_rows` (Arrow tables by name).
    CommitConflict when another job writes the same buckets in the meantime. A target row that two source rows or two
    clauses would change is refused. DuckDB keeps the rows that it joins, and the changed rows, in memory up to its
    limit (80% of the machine's, or `SET memory_limit` in `source_sql`), and the rest in a temporary folder. It uses at
    most `threads` threads.
    """
    table = catalog.table(target)
    database, own_name = split_name(target)
    _check(table, clauses)
    # The writer reads the table state before the query does, so that the commit detects rows other jobs write later.
    with TemporaryDirectory() as folder, table.writer() as writer, Session(catalog, database) as session:
        session.bound(threads, folder)
        for name, rows in (source_rows or {}).items():
            session.register(name, rows)
        for statement in source_sql:
            session.run(statement)
        merge = _Merge(table, database, own_name, target_as or own_name, source, on)
        # A table, because the changes are read twice: for the check of doubles, and to be written.
        session.run(f"CREATE TEMP TABLE _penstock_changes AS {merge.query(clauses)}")
        _refuse_doubles(session, table)
        changed = False
        for batch in session.batches("SELECT * FROM _penstock_changes"):
            if batch.num_rows:
                writer.write(batch.drop_columns([_KIND]), batch.column(_KIND))
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
        raise ConfigError("rows can be deleted by a query only in a table with a primary key", table=table.name)
    check_deletable(table.definition, table.name)
    check_newest_rows(table, "DELETE")
    with table.writer() as writer, Session(catalog, database) as session:
        for statement in source_sql:
            session.run(statement)
        columns = ", ".join(quoted(field.name) for field in table.definition.fields)
        changed = False
        for batch in session.batches(f"SELECT {columns} FROM {target} WHERE {where}"):
            if batch.num_rows:
                writer.write(batch, np.full(batch.num_rows, DELETE, np.int8))
                changed = True
        return writer.commit() if changed else []


def _check(table: Table, clauses: Sequence[Clause]) -> None:
    if not table.primary_keys:
        raise ConfigError("only a table with a primary key can be merged into", table=table.name)
    if not clauses:
        raise ConfigError("the merge has no actions", hint=f"name one of {', '.join(ACTIONS)}")
    check_newest_rows(table, "a merge")
    if any(clause.kind == DELETE for clause in clauses):
        check_deletable(table.definition, table.name)
    for group in ("matched", "not-matched-by-source"):
        both = [clause for clause in clauses if clause.action in {f"{group}-upsert", f"{group}-delete"}]
        if len(both) > 1 and not all(clause.condition for clause in both):
            raise ConfigError(f"two actions on {group} rows need a condition each")


def _refuse_doubles(session: Session, table: Table) -> None:
    keys = ", ".join(map(quoted, table.primary_keys))
    doubled = session.query(f"SELECT {keys} FROM _penstock_changes GROUP BY {keys} HAVING count(*) > 1 LIMIT 1")
    if doubled.num_rows:
        raise ConfigError(
            "several source rows, or several actions, would change one row",
            table=table.name,
            key=doubled.to_pylist()[0],
            hint="use a source with one row per key, and conditions that exclude each other",
        )


@dataclass(frozen=True, slots=True)
class _Merge:
    """The SQL of one merge."""

    table: Table
    database: str
    name: str
    alias: str
    source: str
    on: str

    def query(self, clauses: Sequence[Clause]) -> str:
        """Return the query for the changed rows: a SELECT per clause."""
        # Two clauses may apply to the same row. Such rows are found afterwards, as doubles.
        return " UNION ALL ".join(self._select(clause) for clause in clauses)

    def _select(self, clause: Clause) -> str:
        target = f"{quoted(self.database)}.{quoted(self.name)} AS {quoted(self.alias)}"
        on = self._written(self.on)
        where = self._written(clause.where)
        head = f"SELECT {self._columns(clause)}, {clause.kind}::TINYINT AS {_KIND}"
        match clause.action:
            case "matched-upsert" | "matched-delete":
                return f"{head} FROM {target} JOIN {self.source} ON {on} WHERE true{where}"
            case "not-matched-insert":
                return f"{head} FROM {self.source} WHERE NOT EXISTS (SELECT 1 FROM {target} WHERE {on}){where}"
        return f"{head} FROM {target} WHERE NOT EXISTS (SELECT 1 FROM {self.source} WHERE {on}){where}"

    def _written(self, sql: str) -> str:
        """Shorten `db.t.column` of the target to `t.column`: DuckDB only knows the target's alias."""
        own = rf"(?<![\w.]){re.escape(self.database)}\.(?={re.escape(self.name)}\.)"
        return re.sub(own, "", sql)

    def _columns(self, clause: Clause) -> str:
        names = [field.name for field in self.table.definition.fields]
        if clause.kind == DELETE:
            values = {name: f"{quoted(self.alias)}.{quoted(name)}" for name in names}
        elif clause.kind == INSERT:
            values = self._inserted(names, clause.values or "*")
        else:
            values = self._updated(names, clause)
        return ", ".join(f"{value} AS {quoted(name)}" for name, value in values.items())

    def _inserted(self, names: Sequence[str], written: str) -> dict[str, str]:
        if written.strip() == "*":
            return {name: f"{self._source_name}.{quoted(name)}" for name in names}
        values = list(_split(self._written(written)))
        if len(values) != len(names):
            raise ConfigError(
                f"{len(values)} values are inserted into {len(names)} columns",
                table=self.table.name,
                columns=", ".join(names),
            )
        return dict(zip(names, values, strict=True))

    def _updated(self, names: Sequence[str], clause: Clause) -> dict[str, str]:
        written = clause.values or "*"
        if written.strip() == "*":
            if clause.action != "matched-upsert":
                raise ConfigError("* needs a source row, and this action has none", action=clause.action)
            return {name: f"{self._source_name}.{quoted(name)}" for name in names}
        values = {name: f"{quoted(self.alias)}.{quoted(name)}" for name in names}
        for part in _split(self._written(written)):
            column, equals, value = part.partition("=")
            name = column.strip().rpartition(".")[2].strip('`" ')
            if not equals or name not in values:
                raise ConfigError(f"{part.strip()!r} sets no column of the table", columns=", ".join(names))
            if name in self.table.primary_keys:
                raise ConfigError(f"{name!r} is part of the key and cannot be changed", table=self.table.name)
            values[name] = value.strip()
        return values

    @property
    def _source_name(self) -> str:
        """Return the source's own name, which qualifies its columns: the last part of `db.s`."""
        names = [token.name for token in tokens_of(self.source) if token.name is not None]
        return quoted(names[-1] or "")


def _split(written: str) -> Iterator[str]:
    """Yield the parts between commas outside of brackets and quotes."""
    depth = 0
    part: list[SqlToken] = []
    for token in tokens_of(written):
        depth += (token.text in {"(", "[", "{"}) - (token.text in {")", "]", "}"})
        if token.text == "," and depth == 0:
            yield duck_text(part)
            part = []
        else:
            part.append(token)
    yield duck_text(part)
