"""Containers that unpack to far more than they should, in every codec."""

from __future__ import annotations

import io
import random
import resource
from typing import Any

import fastavro
import pytest

from penstock.errors import TableCorrupt
from penstock.table.meta import avro_blocks
from penstock.table.meta.avro_blocks import AvroBlocks
from penstock.table.meta.container import REQUIRED, RecordShape, read_records
from tests.fuzz.mutations import changed, held, seeds

SCHEMA = {"type": "record", "name": "r", "fields": [{"name": "a", "type": "bytes"}, {"name": "n", "type": "int"}]}
SHAPE = RecordShape(lambda a, n: (a, n), {"a": REQUIRED, "n": REQUIRED})
CODECS = ["null", "deflate", "bzip2", "xz", "zstandard", "snappy"]


def container(records: list[dict[str, Any]], codec: str, interval: int = 200) -> bytes:
    out = io.BytesIO()
    fastavro.writer(out, SCHEMA, records, codec=codec, sync_interval=interval)
    return out.getvalue()


@pytest.mark.parametrize("codec", CODECS)
def test_blocks_are_those_that_were_written(codec: str) -> None:
    records = [{"a": random.Random(number).randbytes(40), "n": number} for number in range(100)]
    data = container(records, codec)
    assert sum(count for count, _ in AvroBlocks(data)) == 100
    assert read_records(data, SHAPE, "f", {}) == [(record["a"], record["n"]) for record in records]
    assert read_records(container([], codec), SHAPE, "f", {}) == []


@pytest.mark.slow
@pytest.mark.parametrize("codec", sorted({*CODECS} - {"null"}))
def test_a_bomb_is_refused_before_it_fills_the_memory(codec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data = container([{"a": bytes(24 << 20), "n": 1}], codec)
    monkeypatch.setattr(avro_blocks, "_LEAST_ROOM", 1 << 20)
    monkeypatch.setattr(avro_blocks, "_MOST_RATIO", 4)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(TableCorrupt, match="is incomplete") as refused:
        read_records(data, SHAPE, "manifest/m", {})
    assert refused.value.facts["file"] == "manifest/m"
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20 << 10


@pytest.mark.parametrize("codec", CODECS)
def test_damaged_containers_are_read_or_refused(codec: str, request: pytest.FixtureRequest) -> None:
    data = container([{"a": b"abc" * number, "n": number} for number in range(30)], codec)
    for chance in seeds(request, 300, 20_000):
        case = changed(data, chance)
        held(lambda case=case: read_records(case, SHAPE, "f", {}), case, "file")  # type: ignore[misc]
