"""Statements about tables that DuckDB cannot answer: SHOW TABLES, SHOW DATABASES, DESCRIBE, SHOW CREATE TABLE."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from penstock.errors import ConfigError
from penstock.table.catalog.base import parse_name
from penstock.table.catalog.catalog import Catalog
from penstock.table.handle import Table
from penstock.table.schema.type_text import written
from penstock.table.sql.text import SqlToken, literal
from penstock.table.values.types import Field, with_nullability

_SHOWS = ("tables", "databases", "schemas", "create")


def answered(catalog: Catalog, database: str | None, tokens: Sequence[SqlToken]) -> pa.Table | None:
    """Return the rows of such a statement; None for any other statement, which DuckDB runs."""
    words = [token for token in tokens if token.kind not in {"blank", "hint"}]
    lower = [word.text.lower() for word in words]
    if lower[:1] == ["show"] and lower[1:2] and lower[1] in _SHOWS:
        return _shown(catalog, database, words, lower)
    if lower[:1] in (["describe"], ["desc"]):
        rest = words[1:]
        if rest and rest[0].text.lower() in {"table", "extended", "formatted"} and len(rest) > 1:
            rest = rest[1:]
        if rest and rest[0].text.lower() not in {"select", "with", "from", "("}:
            return _described(catalog, _name(rest, database))
    return None


def _shown(catalog: Catalog, database: str | None, words: Sequence[SqlToken], lower: Sequence[str]) -> pa.Table:
    if lower[1] == "create":
        if lower[2:3] != ["table"] or len(words) < 4:
            raise ConfigError("SHOW needs an object", hint="SHOW CREATE TABLE database.table")
        name = _name(words[3:], database)
        if parse_name(name)[2] is not None:
            raise ConfigError(f"{name} is a system table, which cannot be created")
        return pa.table({"statement": [create_statement(name, catalog.table(name))]})
    if lower[1] in {"databases", "schemas"}:
        _nothing_after(words[2:])
        return pa.table({"database": pa.array(catalog.databases(), pa.string())})
    named = words[3].name if lower[2:3] in (["in"], ["from"]) and len(words) > 3 else None
    _nothing_after(words[4 if named else 2 :])
    chosen = named or database
    found = [(one, table) for one in ([chosen] if chosen else catalog.databases()) for table in catalog.tables(one)]
    names = ("database", "table")
    return pa.table({name: pa.array([row[place] for row in found], pa.string()) for place, name in enumerate(names)})


def _nothing_after(words: Sequence[SqlToken]) -> None:
    if words:
        told = " ".join(word.text for word in words)
        raise ConfigError(f"{told!r} is not supported here", hint="SHOW DATABASES, or SHOW TABLES [IN database]")


def _name(words: Sequence[SqlToken], database: str | None) -> str:
    """Return the full name of `t`, `db.t`, or either followed by `$branch_b`."""
    parts = [word.name for word in words if word.text != "."]
    if None in parts or len(parts) not in {1, 2} or (len(parts) == 1 and database is None):
        told = "".join(word.text for word in words)
        raise ConfigError(f"{told!r} is not the name of a table", hint="write it as database.table")
    name = ".".join(str(part) for part in parts)
    return name if len(parts) == 2 else f"{database}.{name}"


def _described(catalog: Catalog, name: str) -> pa.Table:
    columns: list[tuple[str, str, bool, str, str | None]]
    if parse_name(name)[2] is not None:
        schema = catalog.system_table(name).schema
        columns = [(field.name, str(field.type), field.nullable, "", None) for field in schema]
    else:
        table = catalog.table(name)
        keys = dict.fromkeys(table.primary_keys, "PRI")
        keys |= {name: f"{keys[name]}, PAR" if name in keys else "PAR" for name in table.partition_keys}
        columns = [
            (one.name, _type(one), one.type.nullable, keys.get(one.name, ""), one.description)
            for one in table.definition.fields
        ]
    names, types, nullable, key, comments = zip(*columns, strict=True)
    return pa.table(
        {
            "column": pa.array(names, pa.string()),
            "type": pa.array(types, pa.string()),
            "nullable": pa.array(nullable, pa.bool_()),
            "key": pa.array(key, pa.string()),
            "comment": pa.array(comments, pa.string()),
        }
    )


def create_statement(name: str, table: Table) -> str:
    """Return the statement that creates the table, in Flink SQL, which Paimon supports."""
    lines = [_column(one) for one in table.definition.fields]
    if table.primary_keys:
        lines.append(f"PRIMARY KEY ({', '.join(map(_quoted, table.primary_keys))}) NOT ENFORCED")
    text = f"CREATE TABLE {'.'.join(map(_quoted, name.split('.', 1)))} (\n  " + ",\n  ".join(lines) + "\n)"
    if table.comment:
        text += f" COMMENT {literal(table.comment)}"
    if table.partition_keys:
        text += f" PARTITIONED BY ({', '.join(map(_quoted, table.partition_keys))})"
    options = ",\n  ".join(f"{literal(key)} = {literal(value)}" for key, value in sorted(table.options.items()))
    return f"{text} WITH (\n  {options}\n)" if options else text


def _column(field: Field) -> str:
    told = f"{_quoted(field.name)} {_type(field)}{'' if field.type.nullable else ' NOT NULL'}"
    return f"{told} COMMENT {literal(field.description)}" if field.description else told


def _type(field: Field) -> str:
    return written(with_nullability(field.type, nullable=True))


def _quoted(name: str) -> str:
    return f"`{name}`"
