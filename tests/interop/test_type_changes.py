"""Old values under a new type: for every change that ALTER allows, ours and Java read the same from files of old types.

Values that Java cannot read under a type, or reads as something that the type cannot hold, are in the unit tests of the
casts instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import penstock
from penstock.table.values.cast_rules import can_cast
from penstock.table.values.types import parse_type
from tests.golden.relations import difference
from tests.interop.oracle.client import Oracle

LTZ = " WITH LOCAL TIME ZONE"
DAY = 86_400_000_000
NUMBERS = ["BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(38, 10)"]
TEXTS = ["CHAR(5)", "CHAR(1)", "VARCHAR(3)", "STRING"]
BINARIES = ["BINARY(4)", "VARBINARY(2)", "BYTES"]
STAMPS = [f"TIMESTAMP({digits}){zone}" for digits in (0, 1, 3, 5, 6, 9) for zone in ("", LTZ)]
TARGETS = [*NUMBERS, *TEXTS, *BINARIES, "DATE", "TIME(0)", "TIME(3)", *STAMPS]

# Stamps as microseconds since 1970. Java's times of day are negative before 1970, where ours are not.
INSTANTS, EARLY = [0, -DAY, 1_700_000_000_123_456, 123_456_789], [-1_234_567_123_456, -987_654_321]
DECIMALS = [Decimal(text) for text in ("0.00", "99999999.99", "-99999999.99", "0.05", "9.95", "-0.01", "127.99")]
FLOATS = [0.0, -0.0, 1.5, 1e-45, 1e-44, 0.1, 16777217.0, 99.95, -1e10, 2.5, -2.5, 0.05, 1e7, 1e-4]
BROKEN = [
    b"",
    b"ab",
    b"\xc3\xa9",
    b"\xe2\x82",
    b"\xe2",
    b"\x82\xac",
    b"\xed\xa0\x80",
    b"\xed\xa0\xed\xbf\xbf\xed",
    b"\xff" * 9,
]
BROKEN += [
    b"\xf0\x80\x80\x80",
    b"\xf0\x9f\x98\x80\xff",
    b"\xf4\x90\x80\x80z",
    b"\xe0\x9f\xbfz",
    b"\xc1\xbf",
    b"a\xe2\x82b",
]
SOURCES: dict[str, list[Any]] = {
    "BOOLEAN": [True, False],
    "TINYINT": [0, 1, -128, 127],
    "SMALLINT": [0, 32767, -32768, 255, 256],
    "INT": [0, -1, 2**31 - 1, -(2**31), 65536, 100],
    "BIGINT": [0, 2**31, -(2**31) - 1, 9_000_000_000],
    "FLOAT": [float("inf"), float("nan"), 3.4e38],
    "DOUBLE": [float("-inf"), 1.7976931348623157e308],
    "DECIMAL(10, 2)": DECIMALS,
    "CHAR(5)": ["12", "abcde", "", "é"],
    "VARCHAR(8)": ["12", "abcdefgh", "", "é", "😀😀😀😀"],
    "STRING": ["\ufffd", "😀😀😀😀😀😀", "", "abcdefghi", "\x00"],
    "BINARY(4)": [b"abcd", b"\x00\xff\x00\x01", b"\xed\xa0\x80a", b"\xf0\x9f\x98\x80"],
    "VARBINARY(9)": BROKEN,
    "BYTES": BROKEN,
    "DATE": [date(1970, 1, 1), date(1969, 12, 31), date(2024, 2, 29)],
    "TIME(0)": [0, 86_399_000],
    "TIME(3)": [0, 3_600_000],
    **dict.fromkeys(STAMPS, INSTANTS),
}  # fmt: skip
# Texts for the types that do not take all of them.
PARSED: dict[str, list[str]] = {
    "BOOLEAN": ["true", "T", "no", "0"],
    "BIGINT": ["-9223372036854775808", "1.5", ".5", "+5"],
    "DOUBLE": ["1e400", "-1e-400", "NaN", "-Infinity", " 5 ", "1d", "0x1p3"],
    "DECIMAL(38, 10)": ["1E+2", "-0.00000000005", "12345678901234567890"],
    "DATE": ["2024-01-31", "2024-3", " 5", "7 8", "20000"],
    "TIME(3)": ["12:34:56.7896", "5:6", " 5", "5 ", "60"],
    **{stamp: ["2024-02-30", "1969-12-31 23:59:59.123456789", "2024-01-01 12:34:56.987654321"] for stamp in STAMPS},
}


def column(values: Sequence[Any], declared: str, type_: pa.DataType) -> pa.Array:
    if pa.types.is_timestamp(type_):
        step = 10 ** max(6 - int(declared.partition("(")[2][0]), 0)
        cut = [None if value is None else value // step * step for value in values]
        return pa.array(cut, pa.timestamp("us", type_.tz)).cast(type_)
    return pa.array(values, type_)


def cases() -> Iterator[Any]:
    for source, values in SOURCES.items():
        targets = [target for target in TARGETS if source != target and allowed(source, target)]
        if source in {"FLOAT", "DOUBLE"}:  # neither NaN nor infinity is a decimal
            targets.remove("DECIMAL(38, 10)")
        if "CHAR" in source or source == "STRING":
            targets = [target for target in targets if target in TEXTS + BINARIES]
        yield pytest.param(source, targets, [*values, None], id=source)
    for source in STAMPS:
        targets = [target for target in [*TEXTS, *STAMPS, "DATE"] if source != target and allowed(source, target)]
        yield pytest.param(source, targets, EARLY, id=f"{source} before 1970")
    for source, values in (("FLOAT", FLOATS), ("DOUBLE", [*FLOATS, 5e-324, 1e-7, 123456789.125])):
        targets = [target for target in NUMBERS + TEXTS if source != target and allowed(source, target)]
        yield pytest.param(source, targets, values, id=f"finite {source}")
    for target, texts in PARSED.items():
        yield pytest.param("STRING", [target], texts, id=f"STRING to {target}")


def allowed(source: str, target: str) -> bool:
    return can_cast(parse_type(source), parse_type(target), explicit=True)


@pytest.mark.parametrize("file_format", ["parquet", "orc"])
@pytest.mark.parametrize("zone", ["", LTZ])
def test_nanoseconds_of_every_year_become_the_texts_that_java_shows(
    oracle: Oracle, tmp_path: Path, file_format: str, zone: str
) -> None:
    columns = [(f"t{digits}", f"TIMESTAMP({digits}){zone}") for digits in (7, 9)]
    path = oracle.create(
        tmp_path, "shop.old", [("id", "INT"), *columns], options={"bucket": "-1", "file.format": file_format}
    )
    for moment in (
        "9999-12-31T23:59:59.999999999",
        "2262-04-12T00:00:00.1234567",
        "2000-01-01T00:00:00",
        "1969-12-31T23:59:59.999999998" if file_format == "parquet" else "1960-12-31T23:59:58.999999998",
        "1600-01-01T12:00:00.5",
    ):
        value = moment + "Z" * bool(zone)
        oracle.write(path, [("+I", 1, value, value)])
    oracle.write(path, [("+I", 2, None, None)])
    penstock.Catalog(str(tmp_path)).alter_table(
        "shop.old", [penstock.UpdateColumnType(name, "STRING") for name, _ in columns]
    )
    assert not difference(oracle.read(path), penstock.open_table(str(path)).scan().to_arrow())


@pytest.mark.parametrize(("source", "targets", "values"), list(cases()))
def test_old_values_are_read_under_every_new_type_as_java_reads_them(
    oracle: Oracle, tmp_path: Path, source: str, targets: list[str], values: list[Any]
) -> None:
    catalog = penstock.Catalog(str(tmp_path))
    catalog.create_database("shop")
    names = [f"c{place}" for place in range(len(targets))]
    table = catalog.create_table(
        "shop.old", [("id", "INT"), *((name, source) for name in names)], options={"bucket": "-1"}
    )
    with table.writer(commit_user="test") as writer:
        rows = {name: column(values, source, table.schema.field(name).type) for name in names}
        writer.write(pa.table({"id": pa.array(range(len(values)), pa.int32()), **rows}))
        writer.commit(identifier=1)
    catalog.alter_table("shop.old", [penstock.UpdateColumnType(*change) for change in zip(names, targets, strict=True)])
    java = oracle.read(tmp_path / "shop.db" / "old")
    assert not difference(java, catalog.table("shop.old").scan().to_arrow())
