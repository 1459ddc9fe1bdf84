"""The small parts that formats share: declared MySQL types, geometry, chunks."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import formats
from penstock.formats.geometry import geojson
from penstock.formats.mysql_type import MysqlType, parse_mysql_type
from tests.unit.formats.support import messages, placed


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("INT", MysqlType("INT")),
        ("int(11) unsigned", MysqlType("INT UNSIGNED", 11)),
        ("int(8) unsigned zerofill", MysqlType("INT UNSIGNED ZEROFILL", 8)),
        ("decimal(8, 3)", MysqlType("DECIMAL", 8, 3)),
        ("double  precision", MysqlType("DOUBLE PRECISION")),
        ("varchar(10) CHARACTER SET utf8 COLLATE utf8_bin", MysqlType("VARCHAR", 10)),
        ("longtext collate utf8mb4_bin", MysqlType("LONGTEXT")),
        ("enum('a','it''s', 'x)','')", MysqlType("ENUM", options=("a", "it's", "x)", ""))),
        ("SET('b') charset latin1", MysqlType("SET", options=("b",))),
        ("enum('a,b','c')", MysqlType("ENUM", options=("a,b", "c"))),
        (")odd(", MysqlType(")ODD(")),
        ("char()", MysqlType("CHAR")),
    ],
)
def test_mysql_type_texts(text: str, kind: MysqlType) -> None:
    assert parse_mysql_type(text) == kind


def wkb(kind: int, body: bytes, order: str = "<") -> bytes:
    return (b"\1" if order == "<" else b"\0") + struct.pack(f"{order}I", kind) + body


def points(*numbers: float, order: str = "<") -> bytes:
    return struct.pack(f"{order}{len(numbers)}d", *numbers)


def many(count: int, *parts: bytes) -> bytes:
    return struct.pack("<I", count) + b"".join(parts)


LINE = many(2, points(0, 0.5, 1, 1))


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (wkb(1, points(1, -2.5)), '{"coordinates":[1,-2.5],"type":"Point","srid":0}'),
        (wkb(1, points(1, 1e-7, order=">"), ">"), '{"coordinates":[1,1.0E-7],"type":"Point","srid":0}'),
        (
            wkb(1 | 0x20000000, struct.pack("<I", 4326) + points(0, 0)),
            '{"coordinates":[0,0],"type":"Point","srid":4326}',
        ),
        (wkb(2, LINE), '{"coordinates":[[0,0.5],[1,1]],"type":"LineString","srid":0}'),
        (wkb(3, many(1, LINE)), '{"coordinates":[[[0,0.5],[1,1]]],"type":"Polygon","srid":0}'),
        (wkb(4, many(1, wkb(1, points(1, 1)))), '{"coordinates":[[1,1]],"type":"MultiPoint","srid":0}'),
        (wkb(6, many(1, wkb(3, many(0)))), '{"coordinates":[[]],"type":"MultiPolygon","srid":0}'),
        (
            wkb(7, many(2, wkb(1, points(1, 1)), wkb(7, many(0)))),
            '{"geometries":[{"type":"Point","coordinates":[1,1]},{"type":"GeometryCollection","geometries":[]}],'
            '"type":"GeometryCollection","srid":0}',
        ),
    ],
)
def test_geometry_texts(data: bytes, text: str) -> None:
    assert geojson(data) == text


@pytest.mark.parametrize(
    "data",
    [
        b"",
        wkb(1, points(1)),
        wkb(1, points(1, 2)) + b"x",
        wkb(9, b""),
        wkb(1, points(1, float("nan"))),
        wkb(2, struct.pack("<I", 0xFFFFFFFF)),
        wkb(7, many(1)) * 100,
    ],
)
def test_invalid_geometry_is_a_value_error(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"geometry|geometries|coordinate"):
        geojson(data)


@pytest.mark.parametrize(
    ("data", "place"),
    [
        (b"\x02" + wkb(1, points(1, 2))[1:], "at byte 0 is 2"),
        (wkb(7, many(1, b"\xff" + wkb(1, points(1, 2))[1:])), "at byte 9 is 255"),
    ],
)
def test_a_byte_order_that_is_neither_little_nor_big_is_named(data: bytes, place: str) -> None:
    with pytest.raises(ValueError, match=f"byte order of the geometry {place}: 0 or 1 is expected"):
        geojson(data)


@given(st.binary(max_size=80))
def test_any_bytes_are_a_geometry_or_a_value_error(data: bytes) -> None:
    try:
        assert geojson(data).endswith("}")
    except ValueError:
        pass


def test_chunks_are_cut_by_number_and_by_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formats, "CHUNK", 3)
    monkeypatch.setattr(formats, "CHUNK_BYTES", 30)
    values = [b'{"a":%d}' % number for number in range(7)] + [None, b'{"a":"' + b"x" * 50 + b'"}', b'{"a":1}']
    decoded = formats.decode("json", messages(*values, first=5))
    assert [pos for pos, *_ in placed(decoded)] == [5, 6, 7, 8, 9, 10, 11, 13, 14]
    assert [len(batch) for batch in decoded.batches] == [3, 3, 1, 1, 1]
