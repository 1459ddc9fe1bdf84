"""Manifests: what Java wrote is read, what is written Java's schema describes, what is broken is named."""

from __future__ import annotations

import io
import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import ConfigError, TableCorrupt
from penstock.table.meta.container import manifest_codec
from penstock.table.meta.data_file import EMPTY_ROW, EMPTY_STATS, ColumnStats, DataFile
from penstock.table.meta.entries import (
    DELETION_VECTORS,
    HASH_INDEX,
    FileKind,
    IndexEntry,
    ManifestEntry,
    ManifestFile,
    VectorRange,
)
from penstock.table.meta.manifest import (
    read_index_manifest,
    read_manifest,
    read_manifest_list,
    write_index_manifest,
    write_manifest,
    write_manifest_list,
)
from penstock.table.meta.manifest_format import ENTRY_SCHEMA, INDEX_SCHEMA, LIST_SCHEMA
from penstock.table.options.table_options import TableOptions
from tests.golden.cases import case_names, unpacked

READERS = {"manifest-list": read_manifest_list, "index-manifest": read_index_manifest, "manifest": read_manifest}
WRITERS = {"manifest-list": write_manifest_list, "index-manifest": write_index_manifest, "manifest": write_manifest}
SCHEMAS = {"manifest-list": LIST_SCHEMA, "index-manifest": INDEX_SCHEMA, "manifest": ENTRY_SCHEMA}


def kind_of(path: Path) -> str:
    return next(kind for kind in READERS if path.name.startswith(f"{kind}-"))


def plain(schema: Any) -> Any:
    """A schema with full names and without what fastavro notes in it."""
    parsed = fastavro.parse_schema({key: value for key, value in schema.items() if not key.startswith("__")})
    return json.loads(json.dumps({key: value for key, value in parsed.items() if not key.startswith("__")}))


def file(name: str = "data-1-0.parquet", **changes: Any) -> DataFile:
    return replace(
        DataFile(name, 1000, 10, b"\0\0\0\1a", b"\0\0\0\1b", EMPTY_STATS, EMPTY_STATS, 0, 9, 0, 0), **changes
    )


def entry(name: str = "data-1-0.parquet", kind: FileKind = FileKind.ADD, **changes: Any) -> ManifestEntry:
    return ManifestEntry(kind, EMPTY_ROW, 0, 1, file(name, **changes))


@pytest.mark.parametrize("case", case_names())
def test_golden_manifests_are_read_and_written_back(case: str) -> None:
    for path in sorted((unpacked() / case / "table").glob("manifest/*")):
        data, kind = path.read_bytes(), kind_of(path)
        found = READERS[kind](data, path.name)
        written = WRITERS[kind](found)
        assert READERS[kind](written, path.name) == found
        if data.startswith(b"Obj") and b'"namespace":"org.apache.paimon' in data:
            java, ours = (fastavro.reader(io.BytesIO(container)) for container in (data, written))
            assert plain(java.writer_schema) == plain(SCHEMAS[kind]) == plain(ours.writer_schema)
            assert list(java) == list(ours)


longs = st.integers(-(2**63), 2**63 - 1)
small = st.binary(max_size=20)
texts = st.lists(st.text(max_size=5), max_size=3).map(tuple)
counts = st.lists(st.none() | st.integers(0, 70) | longs, max_size=6).map(tuple)
stats = st.builds(ColumnStats, small, st.binary(max_size=200), counts)
files = st.builds(
    DataFile,
    name=st.text(),
    size=longs,
    row_count=longs,
    min_key=small,
    max_key=small,
    key_stats=stats,
    value_stats=stats,
    min_sequence=longs,
    max_sequence=longs,
    schema_id=longs,
    level=st.integers(0, 9),
    extra_files=texts,
    creation_millis=st.none() | st.integers(-(10**13), 10**14),
    delete_row_count=st.none() | longs,
    embedded_index=st.none() | small,
    source=st.none() | st.integers(0, 1),
    value_stats_cols=st.none() | texts,
    external_path=st.none() | st.text(),
    first_row_id=st.none() | longs,
    write_cols=st.none() | texts,
)
entries = st.builds(ManifestEntry, st.sampled_from(FileKind), small, st.integers(-2, 99), st.integers(-2, 99), files)
listed = st.builds(ManifestFile, st.text(), longs, longs, longs, stats, longs, *[st.none() | st.integers(-2, 99)] * 4)
ranges = st.builds(VectorRange, st.text(), st.integers(0, 2**31 - 1), st.integers(0, 2**31 - 1), st.none() | longs)
indexed = st.builds(
    IndexEntry,
    st.sampled_from(FileKind),
    small,
    st.integers(-2, 99),
    st.sampled_from([HASH_INDEX, DELETION_VECTORS, "BTREE"]),
    st.text(),
    longs,
    longs,
    st.none() | st.lists(ranges, max_size=3).map(tuple),
    st.none() | st.text(),
)


@pytest.mark.slow
@given(st.lists(entries, max_size=4), st.sampled_from(["zstandard", "deflate", "null"]))
def test_entries_survive_their_manifest(some: list[ManifestEntry], codec: str) -> None:
    data = write_manifest(some, codec)
    assert read_manifest(data, "manifest-x-0") == some
    assert write_manifest(some, codec) == data


@given(st.lists(listed, max_size=4), st.lists(indexed, max_size=4))
def test_lines_survive_lists_and_index_manifests(some: list[ManifestFile], indexes: list[IndexEntry]) -> None:
    assert read_manifest_list(write_manifest_list(some), "manifest-list-x-0") == some
    assert read_index_manifest(write_index_manifest(indexes), "index-manifest-x-0") == indexes


def rewritten(data: bytes, change: Any, schema: Any = ENTRY_SCHEMA) -> bytes:
    """The container as another release would have written it: `change` works on its schema."""
    other = plain(schema)
    change(other["fields"])
    out = io.BytesIO()
    fastavro.writer(out, other, fastavro.reader(io.BytesIO(data)))
    return out.getvalue()


def file_fields(fields: list[Any]) -> list[Any]:
    return next(column["type"]["fields"] for column in fields if column["name"] == "_FILE")


def test_fields_that_older_releases_did_not_write_are_null() -> None:
    def drop_last(fields: list[Any]) -> None:
        del file_fields(fields)[12:]

    data = write_manifest([entry(creation_millis=5, delete_row_count=1, source=1, write_cols=("a",))])
    assert read_manifest(rewritten(data, drop_last), "m") == [entry()]


def test_fields_of_later_releases_are_passed_over_in_any_order() -> None:
    def add_and_turn(fields: list[Any]) -> None:
        inner = file_fields(fields)
        inner.append({"name": "_LATER", "type": ["null", "string"], "default": None})
        inner.reverse()
        fields.insert(0, {"name": "_FIRST", "type": "int", "default": 7})

    data = write_manifest([entry(creation_millis=5, source=1)])
    assert read_manifest(rewritten(data, add_and_turn), "m") == [entry(creation_millis=5, source=1)]


def test_a_missing_required_field_is_reported() -> None:
    def drop_name(fields: list[Any]) -> None:
        del file_fields(fields)[0]

    with pytest.raises(TableCorrupt, match="_FILE_NAME"):
        read_manifest(rewritten(write_manifest([entry()]), drop_name), "m")


def test_another_version_of_the_records_is_refused() -> None:
    out = io.BytesIO()
    record = next(iter(fastavro.reader(io.BytesIO(write_manifest([entry()])))))
    fastavro.writer(out, ENTRY_SCHEMA, [record | {"_VERSION": 3}])
    with pytest.raises(TableCorrupt, match="version 3"):
        read_manifest(out.getvalue(), "m")


@pytest.mark.parametrize("kind", [-1, -2, 2])
def test_a_kind_of_entry_that_does_not_exist_is_refused(kind: int) -> None:
    out = io.BytesIO()
    record = next(iter(fastavro.reader(io.BytesIO(write_manifest([entry()])))))
    fastavro.writer(out, ENTRY_SCHEMA, [record | {"_KIND": kind}])
    with pytest.raises(TableCorrupt):
        read_manifest(out.getvalue(), "m")


def test_global_indexes_of_later_releases_are_kept() -> None:
    index = {
        "_ROW_RANGE_START": 1,
        "_ROW_RANGE_END": 2,
        "_INDEX_FIELD_ID": 3,
        "_EXTRA_FIELD_IDS": [4, 5],
        "_INDEX_META": b"x",
        "_SOURCE_META": None,
    }
    kept = IndexEntry(FileKind.ADD, b"", 0, "btree", "index-x-0", 1, 1, unknown={"_GLOBAL_INDEX": index})
    other = IndexEntry(FileKind.ADD, b"", 0, HASH_INDEX, "index-x-1", 1, 1)
    found = read_index_manifest(write_index_manifest([kept, other]), "i")
    assert [item.unknown for item in found] == [{"_GLOBAL_INDEX": index}, {}]
    assert read_index_manifest(write_index_manifest(found), "i") == found == [kept, other]


def test_manifests_in_parquet_are_read() -> None:
    record = next(iter(fastavro.reader(io.BytesIO(write_manifest([entry(creation_millis=1_700_000_000_123)])))))
    out = io.BytesIO()
    pq.write_table(pa.Table.from_pylist([record]), out)
    assert read_manifest(out.getvalue(), "m") == [entry(creation_millis=1_700_000_000_123)]


@pytest.mark.parametrize("codec", ["zstandard", "orc:zstandard", "parquet:zstandard"])
def test_a_small_manifest_is_decoded_once(codec: str) -> None:
    manifest = write_manifest([entry(f"data-{codec}-{n}.parquet") for n in range(2)], codec)
    index = write_index_manifest([IndexEntry(FileKind.ADD, b"", 0, HASH_INDEX, f"index-{codec}", 1, 1)], codec)
    assert read_manifest(read_again(manifest), "a")[0] is read_manifest(read_again(manifest), "b")[0]
    assert read_index_manifest(read_again(index), "a")[0] is read_index_manifest(read_again(index), "b")[0]


@pytest.mark.parametrize("codec", ["zstandard", "orc:zstandard", "parquet:zstandard"])
def test_manifests_of_many_entries_are_not_kept(codec: str) -> None:
    """A manifest of 12 KB in ORC may have thousands of entries, and 128 of them would fill a gigabyte."""
    files = [entry(f"data-{codec}-{n}.parquet") for n in range(1000)]
    manifest = write_manifest(files, codec)
    assert read_manifest(manifest, "a") == files
    assert read_manifest(manifest, "a")[0] is not read_manifest(manifest, "b")[0]


def read_again(data: bytes) -> bytes:
    """Return other bytes with the same content, as another request returns them."""
    return bytes(bytearray(data))


def refusal(data: bytes) -> TableCorrupt | None:
    try:
        read_manifest(data, "/t/manifest/m", snapshot=7)
    except TableCorrupt as refused:
        return refused
    return None


def test_broken_manifests_are_named_and_never_crash() -> None:
    draw = random.Random(7)
    whole = write_manifest([entry(f"data-{n}.parquet", source=0, creation_millis=n) for n in range(20)], "null")
    for turn in range(600):
        broken = bytearray(whole[: draw.randrange(len(whole))] if turn % 3 == 0 else whole)
        for _ in range(draw.randrange(1, 4)):
            if broken:
                broken[draw.randrange(len(broken))] = draw.randrange(256)
        message = refusal(bytes(broken))
        assert message is None or {"file": "/t/manifest/m", "snapshot": 7}.items() <= message.facts.items()


@pytest.mark.parametrize("data", [b"", b"Obj\x01", b"ORC", b"PAR1", b"{}"])
def test_invalid_manifests_are_named(data: bytes) -> None:
    with pytest.raises(TableCorrupt, match="file: m"):
        read_manifest(data, "m")


def test_codec_follows_the_option() -> None:
    assert manifest_codec(TableOptions({})) == "zstandard"
    assert manifest_codec(TableOptions({"manifest.compression": "none", "manifest.format": "avro"})) == "null"
    with pytest.raises(ConfigError, match="lzo"):
        manifest_codec(TableOptions({"manifest.compression": "lzo"}))
    with pytest.raises(ConfigError, match="csv"):
        manifest_codec(TableOptions({"manifest.format": "csv"}))
    assert manifest_codec(TableOptions({"manifest.format": "orc"})) == "orc:zstandard"
