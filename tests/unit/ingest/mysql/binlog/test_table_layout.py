"""ENUM and SET of servers that log no collation for them, as MySQL 8.0.12 does."""

from __future__ import annotations

import pytest

from penstock.ingest.mysql.binlog.table_layout import shape_of
from penstock.ingest.mysql.binlog.table_map import ENUM, MappedColumn, TableMap
from penstock.ingest.mysql.definition import MySqlColumn, MySqlType, TableDefinition
from penstock.ingest.mysql.errors import SchemaHistoryMismatch

TRACKED = ("größe", "maß")


def mapped(labels: tuple[str, ...] | None, collation: int | None = None) -> TableMap:
    column = MappedColumn(ENUM, 1, 0, nullable=True, name="size", labels=labels, collation=collation)
    return TableMap("shop", "t", (column,), primary_key=())


def tracked(charset: str) -> TableDefinition:
    column = MySqlColumn("size", MySqlType("enum", labels=TRACKED), nullable=True, charset=charset)
    return TableDefinition("shop", "t", (column,), (), None)


def labels_of(table: TableMap, definition: TableDefinition | None) -> tuple[str, ...]:
    return shape_of(table, definition).columns[0].column.type.labels


def test_labels_that_are_not_utf8_are_those_of_the_definition() -> None:
    assert labels_of(mapped(None), tracked("latin1")) == TRACKED
    # By chance these bytes of another character set were UTF-8.
    assert labels_of(mapped(("a", "b")), tracked("gbk")) == TRACKED


def test_labels_of_utf8_columns_are_those_of_the_log() -> None:
    assert labels_of(mapped(("中", "b")), tracked("utf8mb4")) == ("中", "b")
    assert labels_of(mapped(("中", "b")), None) == ("中", "b")
    assert labels_of(mapped(("x", "y"), collation=8), tracked("latin1")) == ("x", "y")


def test_labels_of_an_unknown_character_set_are_an_error() -> None:
    with pytest.raises(SchemaHistoryMismatch, match="lacks the character set of labels"):
        labels_of(mapped(None), None)
