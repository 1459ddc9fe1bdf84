from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.ingest.mysql.values.json_text import double_text, json_text, opaque_text, quoted


@pytest.mark.parametrize(
    ("value", "text"),  # asked from a MySQL 9.7 server: SELECT CAST(JSON_ARRAY(...) AS CHAR)
    [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (1.0, "1.0"),
        (-25000000000.0, "-25000000000.0"),
        (1e14, "100000000000000.0"),
        (1e15, "1e15"),
        (1234567890123456.8, "1234567890123456.8"),
        (1.2345678901234568e16, "1.2345678901234568e16"),
        (1e-15, "0.000000000000001"),
        (1e-16, "1e-16"),
        (9.99e-15, "0.00000000000000999"),
        (5e-324, "5e-324"),
        (1.7976931348623157e308, "1.7976931348623157e308"),
    ],
)
def test_doubles_print_as_the_server_prints_them(value: float, text: str) -> None:
    assert double_text(value) == text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_doubles_read_back_as_themselves(value: float) -> None:
    assert float(double_text(value)) == value


def test_strings_escape_what_the_server_escapes() -> None:
    assert quoted('a"\\\b\f\n\r\t\x01/中\x7f'.encode()) == '"a\\"\\\\\\b\\f\\n\\r\\t\\u0001/中\x7f"'


def test_empty_bytes_are_an_sql_null_and_a_literal_is_json() -> None:
    assert json_text(b"") is None
    assert json_text(b"\x04\x00") == "null"


def test_containers_print_keys_in_stored_order() -> None:
    # {"a": 1, "bb": [true]}
    inner = bytes.fromhex("0100 0700 040100".replace(" ", ""))
    body = bytes.fromhex("0200 1c00 1200 0100 1300 0200 050100 021500".replace(" ", "")) + b"abb" + inner
    body = body[:2] + len(body).to_bytes(2, "little") + body[4:]
    assert json_text(b"\x00" + body) == '{"a": 1, "bb": [true]}'


@pytest.mark.parametrize(
    ("kind", "content", "text"),
    [
        (246, bytes.fromhex("04028c22"), "12.34"),
        (246, bytes.fromhex("040273dd"), "-12.34"),
        (246, bytes.fromhex("0202a2"), "0.34"),
        (10, (((2024 * 13 + 2) << 5 | 29) << 17 << 24).to_bytes(8, "little"), '"2024-02-29"'),
        (11, (-((1 << 12 | 2 << 6 | 3) << 24 | 5)).to_bytes(8, "little", signed=True), '"-01:02:03.000005"'),
        (252, b"x", None),
    ],
)
def test_sql_values_inside_json(kind: int, content: bytes, text: str | None) -> None:
    assert opaque_text(kind, content) == text


def test_unknown_values_print_as_their_bytes() -> None:
    assert json_text(b"\x0f\xfc\x02hi") == '"base64:type252:aGk="'


@given(st.binary(max_size=200))
def test_broken_json_is_always_a_value_error(raw: bytes) -> None:
    try:
        json_text(raw)
    except ValueError:
        pass
