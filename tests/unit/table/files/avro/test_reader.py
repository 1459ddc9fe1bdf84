"""Avro data files whose blocks decompress to far more than a block can contain."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from pathlib import Path

import fastavro
import pyarrow as pa
import pytest

from penstock.errors import TableCorrupt
from penstock.table.files.avro import reader
from penstock.table.files.avro.reader import read
from penstock.table.meta import avro_blocks
from penstock.table.values.types import Field, parse_type

FIELDS = [Field(0, "a", parse_type("BYTES NOT NULL"))]
SCHEMA = {"type": "record", "name": "r", "fields": [{"name": "a", "type": "bytes"}]}


def file_of(folder: Path, codec: str, *sizes: int) -> pa.OSFile:
    with (folder / "f.avro").open("wb") as out:
        fastavro.writer(out, SCHEMA, [{"a": bytes(size)} for size in sizes], codec=codec, sync_interval=1)
    return pa.OSFile(str(folder / "f.avro"))


@pytest.mark.slow
@pytest.mark.parametrize("codec", ["deflate", "bzip2", "xz", "zstandard", "snappy"])
def test_a_block_is_decompressed_within_a_limit(codec: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(avro_blocks, "LARGEST_BLOCK", 1 << 20)
    with file_of(tmp_path, codec, *[1 << 19] * 8) as source:  # the limit is that of a block, not of the file
        assert sum(batch.num_rows for _, batch in read(source, FIELDS, batch_rows=10)) == 8
    source = file_of(tmp_path, codec, 10, 24 << 20)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with source, pytest.raises(TableCorrupt, match="an Avro file cannot be read"):
        list(read(source, FIELDS, batch_rows=10))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20 << 10


@pytest.mark.parametrize("blocks", [1, 40])
@pytest.mark.parametrize(
    ("union", "type_", "values"),
    [
        (["string", "null"], "STRING", ["a", None]),
        (["string"], "STRING", ["a"]),
        (["null"], "STRING", [None]),
        (["null", "string", "int"], "STRING", ["a", None]),
        (["int", "long"], "BIGINT", [1, 1 << 40]),
    ],
)
def test_unions_of_other_writers_are_read(
    union: list[str], type_: str, values: list[object], blocks: int, tmp_path: Path
) -> None:
    nested = {"type": "record", "name": "n", "fields": [{"name": "b", "type": union}]}
    schema = {"type": "record", "name": "r", "fields": [{"name": "a", "type": union}, {"name": "n", "type": nested}]}
    rows = [{"a": value, "n": {"b": value}} for value in values] * blocks
    with (tmp_path / "f.avro").open("wb") as out:
        fastavro.writer(out, schema, rows, sync_interval=1 if blocks > 1 else 16_000)
    row = {"type": "ROW NOT NULL", "fields": [{"id": 2, "name": "b", "type": type_}]}
    with pa.OSFile(str(tmp_path / "f.avro")) as source:
        found = list(read(source, [Field(0, "a", parse_type(type_)), Field(1, "n", parse_type(row))], batch_rows=7))
    assert [row for _, batch in found for row in batch.to_pylist()] == rows


@pytest.mark.parametrize("codec", ["null", "bzip2", "zstandard"])
def test_a_truncated_file_is_not_a_failure_of_the_store(codec: str, tmp_path: Path) -> None:
    file_of(tmp_path, codec, 10, 5000).close()
    data = (tmp_path / "f.avro").read_bytes()
    (tmp_path / "f.avro").write_bytes(data[:-20] + bytes(20))
    with pa.OSFile(str(tmp_path / "f.avro")) as source, pytest.raises(TableCorrupt):
        list(read(source, FIELDS, batch_rows=10))


def test_a_window_ends_with_the_block_that_fills_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "_WINDOW_BYTES", 10)
    monkeypatch.setattr(reader, "_WINDOW_VALUES", 100)
    taken = []

    def blocks() -> Iterator[tuple[int, bytes]]:
        for block in [(1, bytes(6)), (0, b""), (1, bytes(6)), (60, b""), (1, bytes(1))]:
            taken.append(block)
            yield block

    windows = reader._windowed(blocks(), 2)
    assert next(windows) == [(1, bytes(6)), (1, bytes(6))]
    assert len(taken) == 3
    assert list(windows) == [[(60, b"")], [(1, bytes(1))]]
