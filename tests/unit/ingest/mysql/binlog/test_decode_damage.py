"""Events that have a right checksum and make no sense."""

from __future__ import annotations

import time

import numpy as np
import pytest

from penstock.errors import SourceError
from penstock.ingest.database.buffers import with_spare_bytes
from penstock.ingest.mysql.binlog.segment import parse_format
from penstock.ingest.mysql.binlog.table_map import parse_table_map
from penstock.ingest.mysql.ddl.query import Query
from penstock.ingest.mysql.errors import UnsupportedBinlogEvent
from penstock.ingest.mysql.values.decimals import decimals


def _map(kind: int, meta: bytes) -> bytes:
    return b"\0\0" + b"\1d\0" + b"\1t\0" + b"\1" + bytes([kind]) + bytes([len(meta)]) + meta + b"\1"


@pytest.mark.parametrize(
    ("kind", "meta"), [(246, b"\x42\0"), (246, b"\5\6"), (16, b"\1\x08"), (252, b"\0"), (252, b"\5"), (18, b"\7")]
)
def test_an_impossible_column_size_is_refused(kind: int, meta: bytes) -> None:
    with pytest.raises(ValueError, match="cannot have size"):
        parse_table_map(_map(kind, meta))


def test_a_decimal_with_more_digits_than_places_is_refused() -> None:
    held = decimals(with_spare_bytes(b"\xe3"), np.zeros(1, np.int64), np.zeros(1, np.bool_), 2, 0)
    assert [str(value) for value in held.to_pylist()] == ["99"]
    with pytest.raises(ValueError, match="too many digits"):
        decimals(with_spare_bytes(b"\xf0"), np.zeros(1, np.int64), np.zeros(1, np.bool_), 2, 0)


def test_a_short_format_description_is_refused_by_name() -> None:
    with pytest.raises(UnsupportedBinlogEvent, match="is truncated"):
        parse_format(b"\4\0" + b"8.0")
    assert issubclass(UnsupportedBinlogEvent, SourceError)


@pytest.mark.slow
def test_a_statement_of_a_million_comments_is_read_in_linear_time() -> None:
    began = time.process_time()
    assert Query("/**/" * 1_000_000 + "DROP TABLE t", "d", ansi_quotes=False, backslash_escapes=True).verb == "DROP"
    assert time.process_time() - began < 3
