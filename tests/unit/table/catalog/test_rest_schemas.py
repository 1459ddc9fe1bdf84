"""Schema changes as JSON: what Java's SchemaChange reads and writes."""

from __future__ import annotations

from typing import Any

import pytest

import penstock
from penstock.table.catalog.rest_schemas import change_nodes, schema_node
from penstock.table.schema.changes import SchemaChange
from penstock.table.schema.new_schema import create_schema

COLUMNS = [("id", "INT NOT NULL"), ("v", "STRING"), ("a", "ROW<city STRING>")]


@pytest.mark.parametrize(
    ("change", "node"),
    [
        (penstock.SetOption("bucket", "4"), {"action": "setOption", "key": "bucket", "value": "4"}),
        (penstock.ResetOption("bucket"), {"action": "removeOption", "key": "bucket"}),
        (penstock.UpdateComment(None), {"action": "updateComment", "comment": None}),
        (
            penstock.AddColumn("c", "DECIMAL(10, 2)", comment="money", after="id"),
            {
                "action": "addColumn",
                "fieldNames": ["c"],
                "dataType": "DECIMAL(10, 2)",
                "comment": "money",
                "move": {"fieldName": "c", "referenceFieldName": "id", "type": "AFTER"},
            },
        ),
        (
            penstock.AddColumn("a.zip", "ARRAY<INT>"),
            {
                "action": "addColumn",
                "fieldNames": ["a", "zip"],
                "dataType": {"type": "ARRAY", "element": "INT"},
                "comment": None,
                "move": None,
            },
        ),
        (penstock.DropColumn("v"), {"action": "dropColumn", "fieldNames": ["v"]}),
        (penstock.RenameColumn("v", "w"), {"action": "renameColumn", "fieldNames": ["v"], "newName": "w"}),
        (
            penstock.UpdateColumnType("id", "BIGINT", keep_nullability=True),
            {
                "action": "updateColumnType",
                "fieldNames": ["id"],
                "newDataType": "BIGINT",
                "keepNullability": True,
            },
        ),
        (
            penstock.UpdateColumnNullability("id", True),
            {"action": "updateColumnNullability", "fieldNames": ["id"], "newNullability": True},
        ),
        (
            penstock.UpdateColumnComment("v", "text"),
            {"action": "updateColumnComment", "fieldNames": ["v"], "newComment": "text"},
        ),
        (
            penstock.UpdateColumnDefault("v", "x"),
            {"action": "updateColumnDefaultValue", "fieldNames": ["v"], "newDefaultValue": "x"},
        ),
        (
            penstock.UpdateColumnPosition("v", first=True),
            {
                "action": "updateColumnPosition",
                "move": {"fieldName": "v", "referenceFieldName": None, "type": "FIRST"},
            },
        ),
        (
            penstock.UpdateColumnPosition("id", last=True),
            {
                "action": "updateColumnPosition",
                "move": {"fieldName": "id", "referenceFieldName": None, "type": "LAST"},
            },
        ),
        (
            penstock.UpdateColumnPosition("v", before="id"),
            {
                "action": "updateColumnPosition",
                "move": {"fieldName": "v", "referenceFieldName": "id", "type": "BEFORE"},
            },
        ),
    ],
    ids=lambda given: "" if isinstance(given, dict) else type(given).__name__,
)
def test_a_change_is_an_object(change: SchemaChange, node: dict[str, Any]) -> None:
    schema = create_schema(COLUMNS, (), (), {}, None, now=1)
    assert change_nodes(schema, [change], has_snapshots=False) == [node]


def test_later_changes_see_the_names_of_earlier_ones() -> None:
    schema = create_schema([("a.b", "INT"), ("v", "STRING")], (), (), {}, None, now=1)
    changes = [
        penstock.RenameColumn("v", "x.y"),
        penstock.UpdateColumnComment("x.y", "one name"),
        penstock.DropColumn("a.b"),
    ]
    nodes = change_nodes(schema, changes, has_snapshots=False)
    assert [node["fieldNames"] for node in nodes] == [["v"], ["x.y"], ["a.b"]]


def test_a_schema_is_an_object() -> None:
    schema = create_schema(COLUMNS[:2], ["id"], (), {"bucket": "2"}, "all", now=1)
    assert schema_node(schema) == {
        "fields": [{"id": 0, "name": "id", "type": "INT NOT NULL"}, {"id": 1, "name": "v", "type": "STRING"}],
        "partitionKeys": (),
        "primaryKeys": ("id",),
        "options": {"bucket": "2"},
        "comment": "all",
    }
