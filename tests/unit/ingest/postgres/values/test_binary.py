"""Columns from the binary format: values as a server sends them, and the same from the text that it prints."""

from __future__ import annotations

import datetime as dt
import struct
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.ingest.database.buffers import with_spare_bytes
from penstock.ingest.database.cells import Cells
from penstock.ingest.postgres.relation import PgType
from penstock.ingest.postgres.values.binary import binary_column
from penstock.ingest.postgres.values.text import text_column


def cells(values: Sequence[bytes | None]) -> Cells:
    lengths = np.array([len(value or b"") for value in values], np.int64)
    start = np.cumsum(lengths) - lengths
    null = np.array([value is None for value in values], np.bool_)
    return Cells(with_spare_bytes(b"".join(value or b"" for value in values)), start, lengths, null)


def numeric(value: str) -> bytes:
    """Return a NUMERIC as the server sends it."""
    if value == "NaN":
        return struct.pack(">hhHh", 0, 0, 0xC000, 0)
    sign, digits, exponent = Decimal(value).as_tuple()
    assert isinstance(exponent, int)
    scale = max(-exponent, 0)
    text = "".join(map(str, digits)) + "0" * max(exponent, 0)
    whole, part = (text[:-scale], text[-scale:].rjust(scale, "0")) if scale else (text, "")
    whole = whole.rjust(-(-len(whole) // 4) * 4, "0")
    part = part.ljust(-(-len(part) // 4) * 4, "0")
    groups = [int(text[at : at + 4]) for text in (whole, part) for at in range(0, len(text), 4)]
    weight = len(whole) // 4 - 1
    while groups and groups[0] == 0:
        groups, weight = groups[1:], weight - 1
    while groups and groups[-1] == 0:
        groups = groups[:-1]
    weight = weight if groups else 0
    return struct.pack(f">hhHh{len(groups)}h", len(groups), weight, 0x4000 * sign, scale, *groups)


def one_dimension(element: int, values: Sequence[bytes | None]) -> bytes:
    made = struct.pack(">iiIii", 1, 0, element, len(values), 1)
    for value in values:
        made += struct.pack(">i", -1) if value is None else struct.pack(">i", len(value)) + value
    return made


CASES: list[tuple[PgType, list[bytes | None], list[str | None], list[object]]] = [
    (PgType("bool"), [b"\1", b"\0", None], ["t", "f", None], [True, False, None]),
    (PgType("int2"), [b"\x80\0", None], ["-32768", None], [-32768, None]),
    (PgType("int8"), [struct.pack(">q", -(2**63))], ["-9223372036854775808"], [-(2**63)]),
    (
        PgType("float8"),
        [struct.pack(">d", 1e300), struct.pack(">d", float("inf"))],
        ["1e+300", "Infinity"],
        [1e300, float("inf")],
    ),
    (PgType("date"), [struct.pack(">i", 8825)], ["2024-02-29"], [dt.date(2024, 2, 29)]),
    (PgType("time"), [struct.pack(">q", 3_600_000_001)], ["01:00:00.000001"], [dt.time(1, 0, 0, 1)]),
    (
        PgType("timestamp"),
        [struct.pack(">q", 1), None],
        ["2000-01-01 00:00:00.000001", None],
        [dt.datetime(2000, 1, 1, 0, 0, 0, 1), None],
    ),
    (
        PgType("timestamptz"),
        [struct.pack(">q", -1)],
        ["1999-12-31 23:59:59.999999+00"],
        [dt.datetime(1999, 12, 31, 23, 59, 59, 999_999, tzinfo=dt.UTC)],
    ),
    (
        PgType("uuid"),
        [bytes(range(16))],
        ["00010203-0405-0607-0809-0a0b0c0d0e0f"],
        ["00010203-0405-0607-0809-0a0b0c0d0e0f"],
    ),
    (PgType("bytea"), [b"\xde\xad", b""], ["\\xdead", "\\x"], [b"\xde\xad", b""]),
    (PgType("bit", 11), [struct.pack(">i", 11) + b"\xf8\xe0"], ["11111000111"], [b"\x07\xc7"]),
    (PgType("bit", 1), [struct.pack(">i", 1) + b"\x80", struct.pack(">i", 1) + b"\0"], ["1", "0"], [True, False]),
    (PgType("varbit"), [struct.pack(">i", 8) + b"\x05", struct.pack(">i", 0)], ["00000101", ""], [b"\5", b""]),
    (PgType("text"), ["häuser".encode(), b"", None], ["häuser", "", None], ["häuser", "", None]),
    (
        PgType("_int4", element=PgType("int4")),
        [one_dimension(23, [b"\0\0\0\1", None]), struct.pack(">iiI", 0, 0, 23), None],
        ["{1,NULL}", "{}", None],
        [[1, None], [], None],
    ),
    (
        PgType("_text", element=PgType("text")),
        [one_dimension(25, [b"a b", b"NULL", b'q"\\'])],
        ['{"a b","NULL","q\\"\\\\"}'],
        [["a b", "NULL", 'q"\\']],
    ),
]


@pytest.mark.parametrize(("kind", "binary", "text", "wanted"), CASES, ids=[str(case[0]) for case in CASES])
def test_both_formats_have_the_same_values(
    kind: PgType, binary: list[bytes | None], text: list[str | None], wanted: list[object]
) -> None:
    odd: Counter[str] = Counter()
    found = binary_column(cells(binary), kind, odd)
    found.validate(full=True)
    assert found.to_pylist() == wanted
    printed = text_column(cells([None if item is None else item.encode() for item in text]), kind, odd)
    assert printed.type == found.type
    assert printed.to_pylist() == wanted
    assert not odd


@pytest.mark.parametrize(("size", "texts", "lost"), [(0, ["1", "01", "00000001", None], 2), (1, ["", "0", "1"], 1)])
def test_bit_strings_with_equal_bytes_are_counted(size: int, texts: list[str | None], lost: int) -> None:
    fields = [None if value is None else struct.pack(">i", len(value)) + pad(value) for value in texts]
    for read, encoded in (
        (binary_column, fields),
        (text_column, [None if value is None else value.encode() for value in texts]),
    ):
        odd: Counter[str] = Counter()
        read(cells(encoded), PgType("varbit", size or None), odd)
        assert odd == {"bit-string-without-its-length": lost}


def pad(bits: str) -> bytes:
    return int(bits.ljust(8, "0"), 2).to_bytes(1, "big") if bits else b""


def test_jsonb_is_the_text_after_its_version() -> None:
    assert binary_column(cells([b'\1{"a": 1}']), PgType("jsonb"), Counter()).to_pylist() == ['{"a": 1}']


ODD: list[tuple[PgType, bytes, str, str]] = [
    (PgType("date"), struct.pack(">i", 2**31 - 1), "infinity", "infinity"),
    (PgType("date"), struct.pack(">i", -(2**31)), "-infinity", "infinity"),
    (PgType("timestamp"), struct.pack(">q", 2**63 - 1), "infinity", "infinity"),
    (PgType("timestamptz"), struct.pack(">q", -(2**63)), "-infinity", "infinity"),
    (PgType("time"), struct.pack(">q", 86_400_000_000), "24:00:00", "time-out-of-day"),
    (PgType("numeric", 5, 2), numeric("NaN"), "NaN", "not-a-number"),
    (PgType("numeric"), numeric("1e25"), "10000000000000000000000000", "number-too-large"),
    (PgType("numeric"), numeric("1e-19"), "0.0000000000000000001", "number-too-large"),
    (
        PgType("_int4", element=PgType("int4")),
        struct.pack(">iiI", 2, 0, 23),
        "{{1},{2}}",
        "array-of-several-dimensions",
    ),
]


@pytest.mark.parametrize(("kind", "binary", "text", "reason"), ODD)
def test_values_that_no_type_can_store_become_null_and_are_counted(
    kind: PgType, binary: bytes, text: str, reason: str
) -> None:
    odd: Counter[str] = Counter()
    padding = binary + bytes(8)  # lanes are read beyond short values
    found = binary_column(
        Cells(with_spare_bytes(padding), np.array([0]), np.array([len(binary)]), np.array([False])), kind, odd
    )
    assert found.to_pylist() == [None]
    assert odd == {reason: 1}
    assert text_column(cells([text.encode()]), kind, odd).to_pylist() == [None]
    assert odd == {reason: 2}


_MICROS, _DAYS = (st.sampled_from((-(2**b), 1 - 2**b, 2 - 2**b, 2**b - 2, 2**b - 1)) for b in (63, 31))
_SHIFT_US, _SHIFT_DAYS = 946_684_800_000_000, 10_957


@given(st.lists(st.one_of(_MICROS, st.integers(-5, 5).map(lambda n: 2**63 - _SHIFT_US + n), st.integers(-9, 9))))
def test_instants_at_all_limits_are_those_of_the_server_or_null(sent: list[int]) -> None:
    odd: Counter[str] = Counter()
    found = binary_column(cells([struct.pack(">q", value) for value in sent]), PgType("timestamp"), odd)
    fits = [value > -(2**63) and value + _SHIFT_US < 2**63 for value in sent]
    wanted = [value + _SHIFT_US if fit else None for value, fit in zip(sent, fits, strict=True)]
    assert found.view(pa.int64()).to_pylist() == wanted
    assert odd["infinity"] == fits.count(False)


@given(st.lists(st.one_of(_DAYS, st.integers(-9, 9), st.just(2_145_031_948))))
def test_days_at_all_limits_are_those_of_the_server_or_null(sent: list[int]) -> None:
    sent = [
        value for value in sent if not 2**31 - _SHIFT_DAYS <= value < 2**31 - 1
    ]  # days that the server does not have
    odd: Counter[str] = Counter()
    found = binary_column(cells([struct.pack(">i", value) for value in sent]), PgType("date"), odd)
    wanted = [value + _SHIFT_DAYS if -(2**31) < value < 2**31 - 1 else None for value in sent]
    assert found.view(pa.int32()).to_pylist() == wanted
    assert odd["infinity"] == wanted.count(None)


@given(st.lists(st.one_of(st.none(), st.text(max_size=20).map(str.encode), st.binary(max_size=16))))
def test_texts_are_utf_8_or_refused(sent: list[bytes | None]) -> None:
    try:
        wanted = [None if value is None else value.decode() for value in sent]
    except UnicodeDecodeError:
        with pytest.raises(ValueError, match="UTF8"):
            binary_column(cells(sent), PgType("text"), Counter())
    else:
        assert binary_column(cells(sent), PgType("text"), Counter()).to_pylist() == wanted


@pytest.mark.slow
@given(st.lists(st.decimals(allow_nan=False, allow_infinity=False, places=4, min_value=-(10**13), max_value=10**13)))
def test_numerics_of_any_size(values: list[Decimal]) -> None:
    odd: Counter[str] = Counter()
    for kind in (PgType("numeric", 18, 4), PgType("numeric", 38, 6), PgType("numeric")):
        found = binary_column(cells([numeric(str(value)) for value in values]), kind, odd)
        assert found.to_pylist() == values
        text = text_column(cells([str(value).encode() for value in values]), kind, odd)
        assert text.equals(found)
    assert not odd


@pytest.mark.slow
@given(st.lists(st.integers(-(10**45), 10**45).map(str)), st.integers(0, 12))
def test_numerics_that_are_too_large_are_null_in_both_formats(texts: list[str], zeros: int) -> None:
    kind = PgType("numeric")
    values = [text + "0" * zeros for text in texts] if "0" not in texts else texts
    odd, odd_text = Counter[str](), Counter[str]()
    found = binary_column(cells([numeric(value) for value in values]), kind, odd)
    text = text_column(cells([value.encode() for value in values]), kind, odd_text)
    wanted = [Decimal(value) if abs(int(value)) < 10**20 else None for value in values]
    assert found.to_pylist() == text.to_pylist() == wanted
    assert odd == odd_text


@pytest.mark.parametrize("text", ["0044-03-15 BC", "20000-01-01", "9999-12-31", "0001-01-01"])
def test_dates_of_any_year(text: str) -> None:
    days = text_column(cells([text.encode()]), PgType("date"), Counter()).cast(pa.int32()).to_pylist()
    known = {"0044-03-15 BC": -735_160, "20000-01-01": 6_585_322, "9999-12-31": 2_932_896, "0001-01-01": -719_162}
    assert days == [known[text]]


def test_types_without_a_mapping_keep_their_text() -> None:
    found = text_column(cells([b"10.0.0.1/8", None]), PgType("inet"), Counter())
    assert found.to_pylist() == ["10.0.0.1/8", None]
