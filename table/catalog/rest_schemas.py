"""Schemas and schema changes in the requests of a REST catalog."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.table.schema.changes import (
    AddColumn,
    DropColumn,
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
    apply_change,
)
from penstock.table.schema.members import path_of
from penstock.table.schema.table_schema import TableSchema
from penstock.table.schema.type_text import read_type
from penstock.table.values.types import Field, field_json, type_json

Node = dict[str, object]


def schema_node(schema: TableSchema) -> Node:
    """Return the JSON object of a new table's schema."""
    node: Node = {
        "fields": [field_json(column) for column in schema.fields],
        "partitionKeys": schema.partition_keys,
        "primaryKeys": schema.primary_keys,
        "options": schema.options,
    }
    return node if schema.comment is None else {**node, "comment": schema.comment}


def change_nodes(schema: TableSchema, changes: Sequence[SchemaChange], has_snapshots: bool) -> list[Node]:
    """Return the JSON objects of changes to a schema."""
    nodes = []
    for change in changes:
        nodes.append(_node(change, schema.fields))
        schema = apply_change(schema, change, has_snapshots)  # later changes may refer to the names that this one sets
    return nodes


def _node(change: SchemaChange, columns: tuple[Field, ...]) -> Node:
    match change:
        case SetOption(key, value):
            return {"action": "setOption", "key": key, "value": value}
        case ResetOption(key):
            return {"action": "removeOption", "key": key}
        case UpdateComment(comment):
            return {"action": "updateComment", "comment": comment}
        case UpdateColumnPosition(name):
            return {"action": "updateColumnPosition", "move": _move(change, name)}
    # All changes below are of a column, which may be a member of another one.
    names = list(path_of(change.name, columns))
    match change:
        case AddColumn(_, type_, comment):
            node: Node = {"action": "addColumn", "fieldNames": names, "dataType": type_json(read_type(type_))}
            return {**node, "comment": comment, "move": _move(change, names[-1])}
        case DropColumn():
            return {"action": "dropColumn", "fieldNames": names}
        case RenameColumn(_, to):
            return {"action": "renameColumn", "fieldNames": names, "newName": to}
        case UpdateColumnType(_, type_, keep):
            retyped = type_json(read_type(type_))
            return {"action": "updateColumnType", "fieldNames": names, "newDataType": retyped, "keepNullability": keep}
        case UpdateColumnNullability(_, nullable):
            return {"action": "updateColumnNullability", "fieldNames": names, "newNullability": nullable}
        case UpdateColumnComment(_, comment):
            return {"action": "updateColumnComment", "fieldNames": names, "newComment": comment}
        case UpdateColumnDefault(_, default):
            return {"action": "updateColumnDefaultValue", "fieldNames": names, "newDefaultValue": default}


def _move(change: AddColumn | UpdateColumnPosition, name: str) -> Node | None:
    """Return the place of a column; None for the end of the table, where a new column is by default."""
    if change.first:
        return {"fieldName": name, "referenceFieldName": None, "type": "FIRST"}
    if change.after is not None:
        return {"fieldName": name, "referenceFieldName": change.after, "type": "AFTER"}
    if change.before is not None:
        return {"fieldName": name, "referenceFieldName": change.before, "type": "BEFORE"}
    if isinstance(change, UpdateColumnPosition) and change.last:
        return {"fieldName": name, "referenceFieldName": None, "type": "LAST"}
    return None
