"""Manifests and manifest lists have the bytes that fastavro makes of their records."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.table.meta import manifest
from penstock.table.meta.container import write_records
from penstock.table.meta.data_file import EMPTY_ROW, EMPTY_STATS, DataFile
from penstock.table.meta.entries import FileKind, ManifestEntry, ManifestFile
from penstock.table.meta.manifest import write_manifest, write_manifest_list
from penstock.table.meta.manifest_format import ENTRY_SCHEMA, LIST_SCHEMA
from tests.unit.table.meta.test_manifest import entries, listed

CODECS = ["zstandard", "null"]


def by_fastavro(some: list[ManifestEntry], codec: str) -> bytes:
    seed = "\n".join(entry.file.name for entry in some)
    return write_records(ENTRY_SCHEMA, map(manifest._entry_record, some), codec, seed)


@given(st.lists(entries, max_size=4), st.sampled_from(CODECS))
def test_a_manifest_has_the_bytes_of_fastavro(some: list[ManifestEntry], codec: str) -> None:
    assert write_manifest(some, codec) == by_fastavro(some, codec)


@given(st.lists(listed, max_size=4), st.sampled_from(CODECS))
def test_a_manifest_list_has_the_bytes_of_fastavro(some: list[ManifestFile], codec: str) -> None:
    seed = "\n".join(file.name for file in some)
    expected = write_records(LIST_SCHEMA, map(manifest._list_record, some), codec, seed)
    assert write_manifest_list(some, codec) == expected


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("number", [0, 1, 150, 1000])
def test_a_large_manifest_has_the_blocks_of_fastavro(number: int, codec: str) -> None:
    files = [
        DataFile(f"data-{n}.parquet", n, 10, EMPTY_ROW, EMPTY_ROW, EMPTY_STATS, EMPTY_STATS, n, n + 9, 0, n % 6)
        for n in range(number)
    ]
    some = [ManifestEntry(FileKind.ADD, EMPTY_ROW, n % 7, 7, file) for n, file in enumerate(files)]
    assert write_manifest(some, codec) == by_fastavro(some, codec)


def test_the_encoder_knows_the_fields_of_the_schemas() -> None:
    """A field that a schema gets later is not left out in silence."""
    assert [len(schema["fields"]) for schema in (ENTRY_SCHEMA, LIST_SCHEMA)] == [6, 11]
    file = next(field["type"] for field in ENTRY_SCHEMA["fields"] if field["name"] == "_FILE")
    assert len(file["fields"]) == 20
