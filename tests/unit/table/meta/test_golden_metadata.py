"""Every piece of metadata that Java and pypaimon wrote is read, and written back as it was."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from penstock.table.meta.snapshot import parse_snapshot, snapshot_json
from penstock.table.meta.tag_files import parse_tag, tag_json
from penstock.table.schema.schema_files import parse_schema, schema_json
from tests.golden.cases import case_names, unpacked


def files_of(case: str, pattern: str) -> list[Path]:
    return [path for path in sorted((unpacked() / case / "table").glob(pattern)) if path.is_file()]


def written_by_java(data: bytes) -> bool:
    return b'" : ' in data


@pytest.mark.parametrize("case", case_names())
def test_metadata_is_written_back_as_it_was(case: str) -> None:
    for path in files_of(case, "**/schema/schema-*"):
        schema = parse_schema(path.read_bytes(), path.name)
        if written_by_java(path.read_bytes()):
            assert schema_json(schema) == path.read_bytes()
        assert parse_schema(schema_json(schema), path.name) == schema
        assert schema.id == int(path.name.removeprefix("schema-"))
    for path in [*files_of(case, "**/snapshot/snapshot-*"), *files_of(case, "changelog/changelog-*")]:
        snapshot = parse_snapshot(path.read_bytes(), path.name)
        if written_by_java(path.read_bytes()):
            assert snapshot_json(snapshot) == path.read_bytes()
        else:
            assert json.loads(snapshot_json(snapshot)).items() >= json.loads(path.read_bytes()).items() - later(path)
    for path in files_of(case, "**/tag/tag-*"):
        assert tag_json(parse_tag(path.read_bytes(), "t", path.name)) == path.read_bytes()


def later(path: Path) -> set[tuple[str, object]]:
    """Return the fields that releases after Java 1.3.1 add to a snapshot."""
    return {(key, value) for key, value in json.loads(path.read_bytes()).items() if key in {"uuid", "writerVersion"}}
