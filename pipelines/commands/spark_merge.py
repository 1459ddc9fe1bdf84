"""`penstock merge-into` on Spark: one MERGE INTO statement, whose rows Spark joins and whose tasks write the files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.errors import ConfigError
from penstock.row_kinds import DELETE, INSERT
from penstock.table.handle import Table
from penstock.table.sql.dml.merge_into import changed_twice, check_merge, in_words_of_the_merge
from penstock.table.sql.dml.merge_query import (
    Clause,
    inserted_values,
    name_of,
    parts_of,
    set_values,
    source_columns_of,
)
from penstock.table.sql.grammar.cursor import TextPlace
from penstock.table.sql.grammar.scripts import ScriptPart

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_HEADS = {
    "matched": "WHEN MATCHED",
    "not-matched": "WHEN NOT MATCHED",
    "not-matched-by-source": "WHEN NOT MATCHED BY SOURCE",
}
_DOUBLED = "several actions would change one row"
_CHANGED_TWICE = (_DOUBLED, "MERGE_CARDINALITY_VIOLATION")
TASKS = "spark.sql.shuffle.partitions"  # after a shuffle


@dataclass(frozen=True, slots=True)
class SparkMerge:
    """A merge of the command as a statement of Spark; `name` is the table as the session knows it."""

    table: Table
    name: str
    alias: str | None
    source: str
    on: str
    clauses: Sequence[Clause]

    def __post_init__(self) -> None:
        # Before Spark starts, which takes long.
        check_merge(self.table, self.clauses)

    def run(self, session: SparkSession, source_sql: Sequence[str]) -> list[int]:
        """Run the statement; return the snapshots that it has committed."""
        for statement in source_sql:
            _ran(session, statement)
        columns = _ran(session, f"SELECT * FROM {self.source}").columns
        before = self.table.snapshots
        with in_words_of_the_merge(self.on, self.clauses):
            self._merge(session, self.statement(columns))
        newest = max((snapshot.id for snapshot in before), default=0)
        users = {snapshot.commit_user for snapshot in before}
        # The statement has a commit user of its own, and another job may have committed meanwhile.
        made = (
            snapshot
            for snapshot in self.table.refresh().snapshots
            if snapshot.id > newest and snapshot.commit_user not in users
        )
        return [snapshot.id for snapshot in made]

    def _merge(self, session: SparkSession, statement: str) -> None:
        try:
            _ran(session, statement)
        except ConfigError as error:
            if any(text in error.message for text in _CHANGED_TWICE):
                raise changed_twice(self.table) from error
            raise

    def statement(self, source_columns: Sequence[str]) -> str:
        """Return the text of the statement."""
        alias = "" if self.alias is None else f" AS {_quoted(self.alias)}"
        lines = [f"MERGE INTO {self.name}{alias}", f"USING {self.source}", f"ON {self.on}"]
        return "\n".join([*lines, *self._clauses(source_columns)])

    def _clauses(self, source_columns: Sequence[str]) -> Iterator[str]:
        for group, head in _HEADS.items():
            own = [clause for clause in self.clauses if clause.action.rpartition("-")[0] == group]
            yield from self._guard(head, own)
            for clause in own:
                yield f"{head}{clause.where} THEN {self._change(clause, source_columns)}"

    def _guard(self, head: str, clauses: Sequence[Clause]) -> Iterator[str]:
        """Yield a clause that refuses rows to which two clauses apply: Spark would run the first one of them."""
        free = [field.name for field in self.table.definition.fields if field.name not in self.table.primary_keys]
        if len(clauses) > 1 and free:
            both = "".join(clause.where for clause in clauses)
            yield f"{head}{both} THEN UPDATE SET {_quoted(free[0])} = raise_error('{_DOUBLED}')"

    def _change(self, clause: Clause, source_columns: Sequence[str]) -> str:
        if clause.kind == DELETE:
            return "DELETE"
        values = self._values(clause, source_columns)
        if clause.kind == INSERT:
            return f"INSERT ({', '.join(map(_quoted, values))}) VALUES ({', '.join(values.values())})"
        return "UPDATE SET " + ", ".join(f"{_quoted(name)} = {value}" for name, value in values.items())

    def _values(self, clause: Clause, source_columns: Sequence[str]) -> dict[str, str]:
        written = clause.values or "*"
        if written.strip() != "*":
            parts = ["".join(token.text for token in part) for part in parts_of(written)]
            return (inserted_values if clause.kind == INSERT else set_values)(self.table, parts)
        if clause.action not in {"matched-upsert", "not-matched-insert"}:
            raise ConfigError(
                "* needs a source row, and this action has none",
                action=clause.action,
                hint="name the columns and their values: column = value",
            )
        own = name_of(self.source)
        if own is None:
            raise ConfigError("* needs a source with a name", source=self.source, hint="(SELECT ...) AS s")
        chosen = source_columns_of(self.table, source_columns)
        names = [field.name for field in self.table.definition.fields]
        return {name: f"{_quoted(own)}.{_quoted(column)}" for name, column in zip(names, chosen, strict=True)}


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _ran(session: SparkSession, statement: str) -> DataFrame:
    """Run a statement of the command; ConfigError if Spark refuses it."""
    from pyspark.errors import PySparkException

    from penstock.pipelines.spark_streams.statement_errors import statement_error

    try:
        return session.sql(statement)
    except PySparkException as reason:
        error = statement_error(ScriptPart(statement, TextPlace(0, 1, 1)), reason)
        # Places refer to the generated statement, which the user has not written.
        error.facts = {name: value for name, value in error.facts.items() if name not in {"line", "column"}}
        raise error from reason
