"""ALTER, DROP and RENAME TABLE of Spark, with what Spark's parser made of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pyspark.sql.types import DataType, _parse_datatype_json_string

from penstock.errors import ConfigError
from penstock.pipelines.spark_catalog.column_types import (
    RESERVED,
    default_text,
    type_text,
)
from penstock.pipelines.spark_catalog.request import Request
from penstock.pipelines.spark_catalog.table_creation import key_columns
from penstock.table.catalog.base import parse_name
from penstock.table.options.definition import PRIMARY_KEY
from penstock.table.schema.changes import (
    AddColumn,
    DropColumn,
    Name,
    RenameColumn,
    ResetOption,
    SchemaChange,
    SetOption,
    UpdateColumnComment,
    UpdateColumnDefault,
    UpdateColumnNullability,
    UpdateColumnPosition,
    UpdateColumnType,
    UpdateComment,
)
from penstock.table.schema.table_schema import TableSchema


def drop_table(request: Request) -> bool:
    """Run DROP TABLE; return whether the table existed."""
    name = request.whole_table()
    if not request.catalog.table_exists(name):
        return False
    request.catalog.drop_table(name)
    return True


def rename_table(request: Request) -> None:
    """Run ALTER TABLE ... RENAME TO."""
    request.catalog.rename_table(request.whole_table(), str(request.given["to"]))


def alter_table(request: Request) -> None:
    """Run ALTER TABLE, as one new version of the schema."""
    table = request.table()  # refuses system tables
    base, branch, _ = parse_name(request.name)
    name = base if branch is None else f"{base}$branch_{branch}"
    changes = [change for given in request.given["changes"] for change in _changes(given)]
    if not request.given.get("by_statement"):
        changes = _without_key(changes, table.definition)
    request.catalog.alter_table(name, changes)


def _without_key(changes: Sequence[SchemaChange], table: TableSchema) -> list[SchemaChange]:
    """Return the changes without those that declare the key of the table, if the table has it.

    Spark's declarative pipelines declare their tables with each run, without a statement: the properties, and all
    columns as nullable. Spark 4.3 leaves out properties that the table has already.
    """
    keys = table.primary_keys
    declared = [change.value for change in changes if isinstance(change, SetOption) and change.key == PRIMARY_KEY.key]
    if not keys or (declared and [key_columns(text) for text in declared] != [set(keys)]):
        return list(changes)
    return [change for change in changes if not _declares_key(change, keys)]


def _declares_key(change: SchemaChange, keys: Sequence[str]) -> bool:
    match change:
        case SetOption(key):
            return key == PRIMARY_KEY.key
        case UpdateColumnNullability(name, nullable):
            return nullable and name in keys
    return False


def _changes(given: Mapping[str, Any]) -> Iterator[SchemaChange]:
    match given:
        case {"kind": "SetProperty", "key": "comment", "value": text}:
            yield UpdateComment(text)
        case {"kind": "RemoveProperty", "key": "comment"}:
            yield UpdateComment(None)
        case {"kind": "SetProperty" | "RemoveProperty", "key": key} if key in RESERVED:
            raise ConfigError(f"the {key} of a table cannot be changed", hint="create another table")
        case {"kind": "SetProperty", "key": key, "value": text}:
            yield SetOption(key, text)
        case {"kind": "RemoveProperty", "key": key}:
            yield ResetOption(key, given.get("if_exists", False))
        case {"name": [*parts]}:
            yield from _column_changes(given, parts[0] if len(parts) == 1 else parts)
        case _:
            raise ConfigError(
                f"{given['kind']} is not supported by Paimon tables",
                hint="keys are set when a table is created; sort rows with CALL sys.compact(order_strategy => ...)",
            )


def _column_changes(given: Mapping[str, Any], name: Name) -> Iterator[SchemaChange]:
    match given:
        case {"kind": "AddColumn", "type": text, "nullable": nullable, "comment": comment}:
            if given.get("default") is not None:
                raise ConfigError(
                    "a column cannot be added with a default: rows that are there would be null, not the default",
                    hint="ADD COLUMN without DEFAULT, then ALTER COLUMN ... SET DEFAULT for the rows that follow",
                )
            type_ = type_text(_type(text), nullable=nullable)
            yield AddColumn(name, type_, comment, given.get("first", False), given.get("after"))
        case {"kind": "DeleteColumn"}:
            yield DropColumn(name)
        case {"kind": "RenameColumn", "to": new}:
            yield RenameColumn(name, new)
        case {"kind": "UpdateColumnType", "type": text}:
            yield UpdateColumnType(name, type_text(_type(text)), keep_nullability=True)
        case {"kind": "UpdateColumnNullability", "nullable": nullable}:
            yield UpdateColumnNullability(name, nullable)
        case {"kind": "UpdateColumnComment", "comment": comment}:
            yield UpdateColumnComment(name, comment)
        case {"kind": "UpdateColumnPosition"} if isinstance(name, str):
            yield UpdateColumnPosition(name, first=given.get("first", False), after=given.get("after"))
        case {"kind": "UpdateColumnDefaultValue"}:
            yield UpdateColumnDefault(name, default_text(given.get("default") or None))
        case _:
            raise ConfigError(
                f"{given['kind']} of {name!r} is not supported by Paimon tables",
                hint="ALTER TABLE adds, drops, renames and moves columns, and changes types, comments and defaults",
            )


def _type(text: str) -> DataType:
    return _parse_datatype_json_string(text)
