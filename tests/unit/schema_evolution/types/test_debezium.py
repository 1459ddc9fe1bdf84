"""Types of columns whose messages contain the type in the source database."""

from __future__ import annotations

import pytest

from penstock.formats.debezium.connect import SOURCE_LENGTH, SOURCE_TYPE, ConnectType
from penstock.schema_evolution.types.debezium import debezium_type
from penstock.schema_evolution.types.mapping import TypeMapping
from penstock.table.values.types import BYTES, STRING, AtomicType

BINARIES = [("BLOB", None), ("TINYBLOB", None), ("VARBINARY", "5"), ("BINARY", "16")]


def type_of(carrier: str, source: str, length: str | None) -> object:
    parameters = ((SOURCE_TYPE, source), *([(SOURCE_LENGTH, length)] if length else []))
    return debezium_type(str(ConnectType(carrier, None, parameters)), TypeMapping())


@pytest.mark.parametrize(("source", "length"), BINARIES)
def test_bytes_that_are_sent_as_digits_are_text(source: str, length: str | None) -> None:
    # Of binary.handling.mode = base64, base64-url-safe or hex.
    assert type_of("string", source, length) == STRING


def test_bytes_that_are_sent_as_bytes_have_the_type_of_the_source() -> None:
    assert type_of("bytes", "BLOB", None) == BYTES
    assert type_of("bytes", "VARBINARY", "5") == AtomicType("VARBINARY", length=5)
