"""Partition values as folder names, as users write them, and as system tables show them."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from penstock.errors import ConfigError
from penstock.table.values.arrow_types import to_arrow
from penstock.table.values.internal import from_internal, internal_values
from penstock.table.values.partition_text import no_folder, partition_path, row_text, value_text
from penstock.table.values.partition_values import partition_values
from penstock.table.values.texts import to_text
from penstock.table.values.types import Field, parse_type

BLINK = 1_715_000_000 * 10**9


def column(name: str, type_: str) -> Field:
    return Field(0, name, parse_type(type_))


@pytest.mark.parametrize(
    ("value", "folder"),
    [
        ("a b/c:d=e%f", "a b%2Fc%3Ad%3De%25f"),
        ("x'\"#?*\\{}[]^<>~|&$@!,;+", "x%27%22%23%3F%2A%5C%7B%7D%5B%5D%5E<>~|&$@!,;+"),
        ("\x01\x1f\x7f", "%01%1F%7F"),
        ("日本 é", "日本 é"),
        (None, "__DEFAULT_PARTITION__"),
        ("", "__DEFAULT_PARTITION__"),
        (" \t", "__DEFAULT_PARTITION__"),
    ],
)
def test_odd_texts_are_escaped_and_blanks_share_the_default(value: str | None, folder: str) -> None:
    assert partition_path([value], [column("p", "STRING")]) == f"p={folder}"


@pytest.mark.parametrize(
    ("type_", "value", "legacy", "modern"),
    [
        ("DATE", 19849, "19849", "2024-05-06"),
        ("TIMESTAMP(6)", BLINK + 123_456_000, "2024-05-06T12%3A53%3A20.123456", "2024-05-06 12%3A53%3A20.123456"),
        ("TIMESTAMP(3)", BLINK + 123_000_000, "2024-05-06T12%3A53%3A20.123", "2024-05-06 12%3A53%3A20.123"),
        ("TIMESTAMP(9)", BLINK, "2024-05-06T12%3A53%3A20", "2024-05-06 12%3A53%3A20.000000000"),
        ("TIMESTAMP(0)", 0, "1970-01-01T00%3A00", "1970-01-01 00%3A00%3A00"),
        ("TIMESTAMP(3) WITH LOCAL TIME ZONE", 0, "1970-01-01T00%3A00", "1970-01-01 00%3A00%3A00.000"),
        ("TIME(3)", 3723004, "3723004", "01%3A02%3A03.004"),
        ("DECIMAL(10, 2)", Decimal("12.30"), "12.30", "12.30"),
        ("DECIMAL(20, 10)", Decimal("1E-10"), "0.0000000001", "0.0000000001"),
        ("BOOLEAN", True, "true", "true"),
        ("BIGINT", -5, "-5", "-5"),
        ("DOUBLE", 1e10, "1.0E10", "1.0E10"),
        ("FLOAT", 0.5, "0.5", "0.5"),
    ],
)
def test_value_text_by_legacy_name_and_without(type_: str, value: object, legacy: str, modern: str) -> None:
    fields = [column("p", type_)]
    assert partition_path([value], fields, legacy=True) == f"p={legacy}"
    assert partition_path([value], fields, legacy=False) == f"p={modern}"


def test_columns_are_in_order_and_names_are_escaped() -> None:
    fields = [column("a:b", "INT"), column("c", "STRING")]
    assert partition_path([1, None], fields, default_name="none") == "a%3Ab=1/c=none"
    assert partition_path([], []) == ""


def test_row_text_is_how_system_tables_show_partitions_and_keys() -> None:
    types = [parse_type("DATE"), parse_type("STRING"), parse_type("DOUBLE")]
    assert row_text([19849, None, 0.5], types) == "{2024-05-06, null, 0.5}"
    assert row_text([1], [parse_type("INT")], "[]") == "[1]"
    assert row_text([], []) == "{}"


def test_one_value_has_the_text_of_its_column() -> None:
    for text, value in [("DATE", -800_000), ("DATE", -719_162), ("TIMESTAMP(4)", BLINK + 120_000_000), ("TIME(2)", 1)]:
        type_ = parse_type(text)
        assert value_text(value, type_) == to_text(from_internal([value], type_), type_)[0].as_py()


def test_a_partition_is_selected_by_texts_or_values() -> None:
    fields = [column("d", "DATE"), column("n", "INT"), column("s", "STRING")]
    assert partition_values({"d": "2024-05-06", "n": "7"}, fields) == {"d": 19849, "n": 7}
    spec = {"d": dt.date(2024, 5, 6), "n": 7, "s": "__DEFAULT_PARTITION__"}
    assert partition_values(spec, fields) == {"d": 19849, "n": 7, "s": None}


ONE_OF_EACH_TYPE: dict[str, object] = {
    "BOOLEAN": True,
    "TINYINT": 1,
    "BIGINT": 1 << 40,
    "FLOAT": 1.1,
    "DOUBLE": 1.1,
    "DECIMAL(10, 2)": Decimal("1.5"),
    "STRING": "a b",
    "BYTES": b"\x00\xff",
    "DATE": dt.date(2024, 5, 6),
    "TIME(3)": dt.time(1, 2, 3, 400_000),
    "TIMESTAMP(3)": dt.datetime(2024, 5, 6, 7, 8, 9, 100_000),
    "TIMESTAMP(6)": dt.datetime(1965, 5, 6, 7, 8, 9, 123_456),
    "TIMESTAMP(9)": dt.datetime(2024, 5, 6, 7, 8, 9, 1),
    "TIMESTAMP_LTZ(6)": dt.datetime(2024, 5, 6, 7, 8, tzinfo=dt.timezone(dt.timedelta(hours=8))),
}


@pytest.mark.parametrize("text", ONE_OF_EACH_TYPE)
def test_a_python_value_selects_the_partition_in_which_it_is_written(text: str) -> None:
    type_, value = parse_type(text), ONE_OF_EACH_TYPE[text]
    [written] = internal_values(pa.array([value], to_arrow(type_)), type_)
    assert partition_values({"p": value}, [column("p", text)]) == {"p": written}
    # An internal value stands for itself, and a value that was read is the one that was written.
    assert partition_values({"p": written}, [column("p", text)]) == {"p": written}
    [read] = from_internal([written], type_).to_pylist()
    assert partition_values({"p": read}, [column("p", text)]) == {"p": written}


@pytest.mark.parametrize("text", sorted(set(ONE_OF_EACH_TYPE) - {"BYTES"}))
def test_the_text_of_a_value_selects_the_partition_in_which_it_is_written(text: str) -> None:
    type_, value = parse_type(text), ONE_OF_EACH_TYPE[text]
    [written] = internal_values(pa.array([value], to_arrow(type_)), type_)
    assert partition_values({"p": value_text(written, type_)}, [column("p", text)]) == {"p": written}


@pytest.mark.parametrize(("text", "value"), [("INT", b"1"), ("DATE", b"x"), ("TIMESTAMP(6)", b"x"), ("BYTES", 1.5)])
def test_a_value_of_another_type_selects_no_partition_in_silence(text: str, value: object) -> None:
    with pytest.raises(ConfigError, match="a partition cannot have this value"):
        partition_values({"p": value}, [column("p", text)])


def test_an_unknown_partition_column_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="partition columns are d"):
        partition_values({"x": 1}, [column("d", "DATE")])


@pytest.mark.parametrize("kind", [pa.string(), pa.binary()])
@pytest.mark.parametrize("offset", [0, 2])
def test_rows_whose_values_cannot_name_a_folder_are_reported(kind: pa.DataType, offset: int) -> None:
    values = ["a\0", "b", "good", None, "a\0b", "é" * 130, "", "good", "a\0b"]
    column = pa.array(values, pa.string()).cast(kind).slice(offset)
    rows, reason = no_folder(column, column_field := column_of(kind), 255) or (np.zeros(0), "")
    assert [values[offset + row] for row in rows] == ["a\0", "a\0b", "é" * 130, "a\0b"][bool(offset) :]
    assert "NUL" in reason
    assert no_folder(column.filter(pa.array([value == "good" for value in values[offset:]])), column_field, 255) is None


def column_of(kind: pa.DataType) -> Field:
    return column("p", "STRING" if kind == pa.string() else "BYTES")


def test_a_text_that_is_not_utf8_cannot_name_a_folder() -> None:
    odd = pa.Array.from_buffers(pa.string(), 2, pa.array([b"ok", b"\xed\xa0\x80"]).buffers())
    rows, reason = no_folder(odd, column("p", "STRING"), 255) or (None, "")
    assert (list(rows), "not UTF-8" in reason) == ([1], True)
    # Bytes have a text all the same, as Java gives them one.
    assert no_folder(pa.array([b"\xed\xa0\x80"]), column("p", "BYTES"), 255) is None


@pytest.mark.parametrize(
    ("value", "legacy", "modern"),
    [
        (253402300800 * 10**9, "+10000-01-01T00%3A00", "+10000-01-01 00%3A00%3A00.000000"),
        (-62167219200 * 10**9 - 1000, "-0001-12-31T23%3A59%3A59.999999", "-0001-12-31 23%3A59%3A59.999999"),
        (-62135596801 * 10**9, "0000-12-31T23%3A59%3A59", "0000-12-31 23%3A59%3A59.000000"),
        (2**62 * 1000, "+148108-07-06T14%3A00%3A27.387904", "+148108-07-06 14%3A00%3A27.387904"),
    ],
)
def test_years_outside_the_range_of_python_have_folders(value: int, legacy: str, modern: str) -> None:
    fields = [column("p", "TIMESTAMP(6)")]
    assert partition_path([value], fields, legacy=True) == f"p={legacy}"
    assert partition_path([value], fields, legacy=False) == f"p={modern}"
