"""Table definitions as JSON, in the records of a schema history in the checkpoint."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.errors import ConfigError
from penstock.ingest.mysql.definition import MySqlColumn, TableDefinition, parse_type
from penstock.ingest.mysql.position import DAMAGED_OFFSETS

if TYPE_CHECKING:
    from collections.abc import Mapping


def definition_record(definition: TableDefinition) -> dict[str, object]:
    """Return the members of a record that describe the definition, without the name of the table."""
    columns = [
        [column.name, str(column.type), list(column.type.labels), column.nullable, column.charset, column.comment]
        for column in definition.columns
    ]
    generated = [column.name for column in definition.columns if column.is_generated]
    return {
        "columns": columns,
        "key": list(definition.primary_key),
        "comment": definition.comment,
        "charset": definition.default_charset,
        **({"generated": generated} if generated else {}),
    }


def definition_of(database: str, table: str, record: Mapping[str, object]) -> TableDefinition | None:
    """Return the definition in a record; None if it has none."""
    match record:
        case {"columns": list(columns), "key": list(key), "comment": comment, "charset": charset}:
            generated = record.get("generated", ())
            return TableDefinition(
                database,
                table,
                tuple(_column_from(column, generated) for column in columns),
                tuple(map(str, key)),
                None if comment is None else str(comment),
                None if charset is None else str(charset),
            )
    return None


def _column_from(value: object, generated: object) -> MySqlColumn:
    match value:
        case [str(name), str(kind), list(labels), bool(nullable), charset, comment]:
            parsed = replace(parse_type(kind), labels=tuple(map(str, labels)))
            text = None if comment is None else str(comment)
            of_others = isinstance(generated, list) and name in generated
            return MySqlColumn(name, parsed, nullable, None if charset is None else str(charset), text, of_others)
    raise ConfigError("a column of the schema history is not valid", column=value, hint=DAMAGED_OFFSETS)
