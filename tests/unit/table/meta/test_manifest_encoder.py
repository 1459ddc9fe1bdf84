"""Manifests and manifest lists have the bytes that fastavro makes of their records, and checksums of Zstandard."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.table.meta import manifest
from penstock.table.meta.avro_blocks import AvroBlocks
from penstock.table.meta.container import UNREADABLE, write_records
from penstock.table.meta.data_file import EMPTY_ROW, EMPTY_STATS, DataFile
from penstock.table.meta.entries import FileKind, IndexEntry, ManifestEntry, ManifestFile
from penstock.table.meta.manifest import write_index_manifest, write_manifest, write_manifest_list
from penstock.table.meta.manifest_format import ENTRY_SCHEMA, LIST_SCHEMA
from tests.unit.table.meta.test_manifest import entries, listed

CODECS = ["zstandard", "null"]


def unpacked(container: bytes) -> list[object]:
    """The schema and the blocks of a container, whose bytes fastavro compresses without a checksum."""
    blocks = AvroBlocks(container)
    return [blocks.schema, blocks._sync, *blocks]


def by_fastavro(some: list[ManifestEntry], codec: str) -> bytes:
    seed = "\n".join(entry.file.name for entry in some)
    return write_records(ENTRY_SCHEMA, map(manifest._entry_record, some), codec, seed)


@given(st.lists(entries, max_size=4), st.sampled_from(CODECS))
def test_a_manifest_has_the_bytes_of_fastavro(some: list[ManifestEntry], codec: str) -> None:
    assert unpacked(write_manifest(some, codec)) == unpacked(by_fastavro(some, codec))


@given(st.lists(listed, max_size=4), st.sampled_from(CODECS))
def test_a_manifest_list_has_the_bytes_of_fastavro(some: list[ManifestFile], codec: str) -> None:
    seed = "\n".join(file.name for file in some)
    expected = write_records(LIST_SCHEMA, map(manifest._list_record, some), codec, seed)
    assert unpacked(write_manifest_list(some, codec)) == unpacked(expected)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("number", [0, 1, 150, 1000])
def test_a_large_manifest_has_the_blocks_of_fastavro(number: int, codec: str) -> None:
    files = [
        DataFile(f"data-{n}.parquet", n, 10, EMPTY_ROW, EMPTY_ROW, EMPTY_STATS, EMPTY_STATS, n, n + 9, 0, n % 6)
        for n in range(number)
    ]
    some = [ManifestEntry(FileKind.ADD, EMPTY_ROW, n % 7, 7, file) for n, file in enumerate(files)]
    assert unpacked(write_manifest(some, codec)) == unpacked(by_fastavro(some, codec))


def test_the_encoder_knows_the_fields_of_the_schemas() -> None:
    """A field that a schema gets later is not left out in silence."""
    assert [len(schema["fields"]) for schema in (ENTRY_SCHEMA, LIST_SCHEMA)] == [6, 11]
    file = next(field["type"] for field in ENTRY_SCHEMA["fields"] if field["name"] == "_FILE")
    assert len(file["fields"]) == 20


@pytest.mark.parametrize("kind", ["manifest", "list", "index"])
def test_a_changed_bit_of_a_compressed_block_is_noticed(kind: str) -> None:
    files = [
        DataFile(f"data-{n}.parquet", n, 10, EMPTY_ROW, EMPTY_ROW, EMPTY_STATS, EMPTY_STATS, n, n + 9, 0, n % 6)
        for n in range(40)
    ]
    match kind:
        case "manifest":
            content = write_manifest([ManifestEntry(FileKind.ADD, EMPTY_ROW, 1, 7, file) for file in files])
        case "list":
            content = write_manifest_list([ManifestFile(file.name, file.size, 1, 2, EMPTY_STATS, 0) for file in files])
        case _:
            content = write_index_manifest(
                [IndexEntry(FileKind.ADD, EMPTY_ROW, 1, "HASH", file.name, 1, 2) for file in files]
            )
    before = list(AvroBlocks(content))
    begin = content.index(AvroBlocks(content)._sync) + 16
    for at in range(begin, len(content) - 16):
        changed = bytearray(content)
        changed[at] ^= 1 << at % 8
        try:
            found = list(AvroBlocks(bytes(changed)))
        except UNREADABLE:
            continue
        # A few bits of a block have no meaning, such as the size of a window.
        assert [block for _, block in found] == [block for _, block in before]
