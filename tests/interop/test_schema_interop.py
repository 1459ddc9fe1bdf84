"""Schemas: ours and Java's are the same file, change by change, and both refuse the same."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import ConfigError
from penstock.storage.local import LocalStorage
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
    evolve,
)
from penstock.table.schema.new_schema import create_schema
from penstock.table.schema.schema_files import SchemaFiles
from penstock.table.usable import check_usable
from tests.interop.oracle.client import JavaRefused, Oracle


def row(*members: tuple[str, object]) -> dict[str, object]:
    fields = [{"id": place, "name": name, "type": type_} for place, (name, type_) in enumerate(members)]
    return {"type": "ROW", "fields": fields}


def array(element: object) -> dict[str, object]:
    return {"type": "ARRAY", "element": element}


COLUMNS = [
    ("k", "INT"),
    ("dt", "STRING"),
    ("v", "INT", "a number"),
    ("n", "STRING NOT NULL"),
    ("r", row(("x", "INT"), ("y", array(row(("z", "INT")))))),
    ("m", {"type": "MAP", "key": "STRING", "value": "INT"}),
    ("d", "DECIMAL(10, 2)"),
]
OPTIONS = {"bucket": "2", "sequence.field": "v", "fields.d.stats-mode": "full"}

# Ours, and the same in the oracle's words.
CHANGES: list[tuple[SchemaChange, dict[str, Any]]] = [
    (
        AddColumn("c", "BIGINT", "new", after="k"),
        {"kind": "add", "name": "c", "type": "BIGINT", "comment": "new", "after": "k"},
    ),
    (
        AddColumn("first", "ARRAY<ROW<a INT, b STRING>>", first=True),
        {"kind": "add", "name": "first", "type": array(row(("a", "INT"), ("b", "STRING"))), "first": True},
    ),
    (AddColumn("r.w", "INT"), {"kind": "add", "name": "r.w", "type": "INT"}),
    (AddColumn("r.y.element.q", "INT"), {"kind": "add", "name": "r.y.element.q", "type": "INT"}),
    (RenameColumn("v", "w"), {"kind": "rename", "name": "v", "to": "w"}),
    (RenameColumn("r.x", "xx"), {"kind": "rename", "name": "r.x", "to": "xx"}),
    (RenameColumn("k", "key"), {"kind": "rename", "name": "k", "to": "key"}),
    (UpdateColumnType("d", "DECIMAL(20, 4)"), {"kind": "type", "name": "d", "type": "DECIMAL(20, 4)"}),
    (UpdateColumnType("d", "STRING"), {"kind": "type", "name": "d", "type": "STRING"}),
    (UpdateColumnType("r.xx", "BIGINT"), {"kind": "type", "name": "r.xx", "type": "BIGINT"}),
    (UpdateColumnNullability("n", nullable=True), {"kind": "nullability", "name": "n", "nullable": True}),
    (UpdateColumnComment("n", "a name"), {"kind": "comment", "name": "n", "comment": "a name"}),
    (UpdateColumnDefault("w", "7"), {"kind": "default", "name": "w", "value": "7"}),
    (UpdateColumnPosition("m", after="key"), {"kind": "move", "name": "m", "after": "key"}),
    (UpdateColumnPosition("key", last=True), {"kind": "move", "name": "key", "last": True}),
    (DropColumn("c"), {"kind": "drop", "name": "c"}),
    (AddColumn("c", "INT"), {"kind": "add", "name": "c", "type": "INT"}),
    (SetOption("bucket", "4"), {"kind": "set", "key": "bucket", "value": "4"}),
    (SetOption("write-only", "true"), {"kind": "set", "key": "write-only", "value": "true"}),
    (ResetOption("write-only"), {"kind": "unset", "key": "write-only"}),
    (UpdateComment("about"), {"kind": "table_comment", "comment": "about"}),
]  # fmt: skip
REFUSED: list[tuple[SchemaChange, dict[str, Any]]] = [
    (AddColumn("k", "INT"), {"kind": "add", "name": "k", "type": "INT"}),
    (AddColumn("c", "INT NOT NULL"), {"kind": "add", "name": "c", "type": "INT NOT NULL"}),
    (AddColumn("rowkind", "STRING"), {"kind": "add", "name": "rowkind", "type": "STRING"}),
    (DropColumn("k"), {"kind": "drop", "name": "k"}),
    (DropColumn("dt"), {"kind": "drop", "name": "dt"}),
    (DropColumn("v"), {"kind": "drop", "name": "v"}),
    (DropColumn("nothing"), {"kind": "drop", "name": "nothing"}),
    (RenameColumn("dt", "day"), {"kind": "rename", "name": "dt", "to": "day"}),
    (RenameColumn("v", "n"), {"kind": "rename", "name": "v", "to": "n"}),
    (UpdateColumnType("k", "BIGINT"), {"kind": "type", "name": "k", "type": "BIGINT"}),
    (UpdateColumnType("v", "DATE"), {"kind": "type", "name": "v", "type": "DATE"}),
    (UpdateColumnNullability("v", nullable=False), {"kind": "nullability", "name": "v", "nullable": False}),
    (UpdateColumnNullability("k", nullable=True), {"kind": "nullability", "name": "k", "nullable": True}),
    (UpdateColumnPosition("v", after="v"), {"kind": "move", "name": "v", "after": "v"}),
    (SetOption("bucket", "-1"), {"kind": "set", "key": "bucket", "value": "-1"}),
    (SetOption("merge-engine", "partial-update"), {"kind": "set", "key": "merge-engine", "value": "partial-update"}),
    (SetOption("primary-key", "k"), {"kind": "set", "key": "primary-key", "value": "k"}),
    (ResetOption("bucket"), {"kind": "unset", "key": "bucket"}),
]  # fmt: skip


@pytest.fixture
def java(oracle: Oracle, tmp_path: Path) -> Path:
    """A table that Java made, with a snapshot."""
    path = oracle.create(
        tmp_path, "shop.java", COLUMNS, primary_keys=["k", "dt"], partition_keys=["dt"], options=OPTIONS
    )
    oracle.write(path, [("+I", 1, "a", 1, "n", None, None, "1.00")])
    return path


@pytest.fixture
def ours(tmp_path: Path) -> SchemaFiles:
    files = SchemaFiles(LocalStorage(), str(tmp_path / "ours"))
    assert files.create(create_schema(COLUMNS, ["k", "dt"], ["dt"], OPTIONS, now=1))
    return files


def versions(path: str | Path) -> list[dict[str, Any]]:
    """All schema files, apart from the moment they were made."""
    found = sorted((Path(path) / "schema").glob("schema-*"), key=lambda file: int(file.name.rpartition("-")[2]))
    return [json.loads(file.read_text()) | {"timeMillis": 0} for file in found if not file.name.endswith(".crc")]


def test_created_and_changed_schemas_equal_those_of_java(
    oracle: Oracle, java: Path, ours: SchemaFiles, tmp_path: Path
) -> None:
    for change, words in CHANGES:
        oracle.alter(java, [words])
        evolve(ours, [change], has_snapshots=True, now=2)
        assert versions(tmp_path / "ours")[-1] == versions(java)[-1], change


def test_many_changes_at_once_are_one_version(oracle: Oracle, java: Path, ours: SchemaFiles, tmp_path: Path) -> None:
    some: Sequence[tuple[SchemaChange, dict[str, Any]]] = [CHANGES[place] for place in (0, 1, 2, 4, 7, 10, 15, 17)]
    oracle.alter(java, [words for _, words in some])
    evolve(ours, [change for change, _ in some], has_snapshots=True, now=2)
    assert versions(tmp_path / "ours") == versions(java)


@pytest.mark.parametrize(
    ("change", "words"), REFUSED, ids=lambda value: str(value) if not isinstance(value, dict) else ""
)
def test_changes_that_java_refuses_are_refused(
    oracle: Oracle, java: Path, ours: SchemaFiles, change: SchemaChange, words: dict[str, Any]
) -> None:
    with pytest.raises(JavaRefused):
        oracle.alter(java, [words])
    with pytest.raises(ConfigError):
        evolve(ours, [change], has_snapshots=True, now=2)


@pytest.mark.parametrize(
    ("options", "keys"),
    [
        ({"bucket": "0"}, ["k"]),
        ({"bucket": "2"}, []),
        ({"bucket": "-2"}, []),
        ({"bucket-key": "k"}, ["k"]),
        ({"bucket": "2", "bucket-key": "v"}, ["k"]),
        ({"bucket": "2", "bucket-key": "zz"}, ["k"]),
        ({"bucket": "2", "bucket-key": "r"}, []),
        ({"bucket": "2", "merge-engine": "first-row", "changelog-producer": "input"}, ["k"]),
        ({"bucket": "2", "merge-engine": "first-row", "sequence.field": "v"}, ["k"]),
        ({"bucket": "2", "merge-engine": "first-row", "deletion-vectors.enabled": "true"}, ["k"]),
        ({"bucket": "2", "changelog-producer": "full-compaction", "deletion-vectors.enabled": "true"}, ["k"]),
        ({"changelog-producer": "input"}, []),
        ({"bucket": "2", "sequence.field": "zz"}, ["k"]),
        ({"bucket": "2", "sequence.field": "v,v"}, ["k"]),
        ({"bucket": "2", "fields.zz.aggregate-function": "sum"}, ["k"]),
        ({"bucket": "2", "rowkind.field": "zz"}, ["k"]),
        ({"bucket": "2", "snapshot.num-retained.min": "0"}, ["k"]),
        ({"bucket": "2", "partition.expiration-time": "1 d"}, ["k"]),
        ({"bucket": "2", "row-tracking.enabled": "true"}, ["k"]),
        ({"bucket": "2", "record-level.time-field": "n"}, ["k"]),
        ({}, ["k", "k"]),
        ({}, ["zz"]),
        ({}, ["r"]),
    ],
    ids=str,
)  # fmt: skip
def test_tables_that_java_refuses_are_refused(
    oracle: Oracle, tmp_path: Path, options: dict[str, str], keys: list[str]
) -> None:
    with pytest.raises(JavaRefused):
        oracle.create(tmp_path, "shop.refused", COLUMNS, primary_keys=keys, options=options)
    with pytest.raises(ConfigError):
        check_usable(create_schema(COLUMNS, keys, options=options, now=1))
