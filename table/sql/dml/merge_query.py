"""The query of a merge: its clauses, and the SELECT for the rows that each of them changes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from penstock.errors import ConfigError
from penstock.row_kinds import DELETE, INSERT, UPDATE_AFTER
from penstock.table.handle import Table
from penstock.table.sql.grammar.tokens import SqlToken, duck_text, tokens_of
from penstock.table.values.sql_text import quoted

ACTIONS = (
    "matched-upsert",
    "matched-delete",
    "not-matched-insert",
    "not-matched-by-source-upsert",
    "not-matched-by-source-delete",
)
_KINDS = {"upsert": UPDATE_AFTER, "delete": DELETE, "insert": INSERT}
KIND_COLUMN = "_penstock_kind"


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
            option = "insert-values" if self.action.endswith("insert") else "upsert-set"
            raise ConfigError(f"{self.action} needs its values", hint=f"the {option} of the action, or *")

    @property
    def kind(self) -> int:
        return _KINDS[self.action.rpartition("-")[2]]

    @property
    def where(self) -> str:
        return f" AND ({self.condition})" if self.condition else ""


@dataclass(frozen=True, slots=True)
class MergeQuery:
    """The SQL of one merge."""

    table: Table
    database: str
    name: str
    alias: str
    source: str
    on: str
    source_columns: Sequence[str]

    def query(self, clauses: Sequence[Clause]) -> str:
        """Return the query for the changed rows: a SELECT per clause."""
        # Two clauses may apply to the same row. Such rows are found afterwards, as doubles.
        return " UNION ALL ".join(self._select(clause) for clause in clauses)

    def _select(self, clause: Clause) -> str:
        target = f"{quoted(self.database)}.{quoted(self.name)} AS {quoted(self.alias)}"
        on = self._written(self.on)
        where = self._written(clause.where)
        head = f"SELECT {self._columns(clause)}, {clause.kind}::TINYINT AS {KIND_COLUMN}"
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
            return self._whole_row(names)
        return inserted_values(self.table, [duck_text(part) for part in parts_of(self._written(written))])

    def _updated(self, names: Sequence[str], clause: Clause) -> dict[str, str]:
        written = clause.values or "*"
        if written.strip() == "*":
            if clause.action != "matched-upsert":
                raise ConfigError(
                    "* needs a source row, and this action has none",
                    action=clause.action,
                    hint="name the columns and their values: column = value",
                )
            return self._whole_row(names)
        own = {name: f"{quoted(self.alias)}.{quoted(name)}" for name in names}
        return own | set_values(self.table, [duck_text(part) for part in parts_of(self._written(written))])

    def _whole_row(self, names: Sequence[str]) -> dict[str, str]:
        """Return the values of `*`: the source's columns of the same names, or by place if it has other names."""
        chosen = source_columns_of(self.table, self.source_columns)
        own = name_of(self.source)
        if own is None:
            raise ConfigError("* needs a source with a name", source=self.source, hint="(SELECT ...) AS s")
        return {name: f"{quoted(own)}.{quoted(column)}" for name, column in zip(names, chosen, strict=True)}


def inserted_values(table: Table, values: Sequence[str]) -> dict[str, str]:
    """Return the values of an insert by the names of the columns, which they follow in their order."""
    names = [field.name for field in table.definition.fields]
    if len(values) != len(names):
        raise ConfigError(
            f"{len(values)} values are inserted into {len(names)} columns",
            table=table.name,
            columns=", ".join(names),
            hint="write one value per column, in the order of the columns",
        )
    return dict(zip(names, values, strict=True))


def set_values(table: Table, parts: Sequence[str]) -> dict[str, str]:
    """Return the values of `column = expression` by the names of the columns."""
    names = [field.name for field in table.definition.fields]
    values = {}
    for part in parts:
        column, equals, value = part.partition("=")
        name = column.strip().rpartition(".")[2].strip('`" ')
        if not equals or name not in names:
            raise ConfigError(
                f"{part.strip()!r} sets no column of the table",
                columns=", ".join(names),
                hint="write  column = expression  with a column of the table",
            )
        if name in table.primary_keys:
            raise ConfigError(
                f"{name!r} is part of the key and cannot be changed",
                table=table.name,
                hint="leave it out; a row with another key is another row: delete the one and insert the other",
            )
        values[name] = value.strip()
    return values


def source_columns_of(table: Table, source_columns: Sequence[str]) -> list[str]:
    """Return the source column of each column: that of the same name, or by place if the source has other names."""
    names = [field.name for field in table.definition.fields]
    source = {name.lower(): name for name in source_columns}
    if all(name.lower() in source for name in names):
        return [source[name.lower()] for name in names]
    if len(source_columns) == len(names):
        return list(source_columns)
    raise ConfigError(
        "* needs a source with the columns of the table",
        table=table.name,
        columns=", ".join(names),
        source_columns=", ".join(source_columns),
        hint="list the values instead of *",
    )


def name_of(source: str) -> str | None:
    """Return the source's own name, which qualifies its columns: the last part of `db.s`. None for a bare query."""
    names = [token.name for token in tokens_of(source) if token.name is not None]
    return None if source.rstrip().endswith(")") or not names else names[-1]


def parts_of(written: str) -> Iterator[list[SqlToken]]:
    """Yield the tokens between commas outside of brackets and quotes."""
    depth = 0
    part: list[SqlToken] = []
    for token in tokens_of(written):
        depth += (token.text in {"(", "[", "{"}) - (token.text in {")", "]", "}"})
        if token.text == "," and depth == 0:
            yield part
            part = []
        else:
            part.append(token)
    yield part
