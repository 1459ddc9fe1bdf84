"""Rows of walked Avro messages are those of the record path: random messages, odd on purpose, decoded both ways."""

from __future__ import annotations

import math
import struct
from io import BytesIO
from random import Random
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest

from penstock.errors import DecodeError
from penstock.formats import decode
from penstock.formats.change import BAD_VALUE, DecodeOptions, DecodeResult, ImageRule, Messages
from penstock.formats.debezium.avro_changes import AvroChanges
from tests.avro import without_logical
from tests.seeds import seeds

_DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 40, "scale": 2}
_DECIMAL |= {"connect.name": "org.apache.kafka.connect.data.Decimal", "connect.parameters": {"scale": "2"}}
_POINT = {
    "type": "record",
    "name": "Point",
    "connect.name": "io.debezium.data.geometry.Point",
    "fields": [{"name": "wkb", "type": "bytes"}, {"name": "srid", "type": ["null", "int"]}],
}
_VARIABLE = {
    "type": "record",
    "name": "VariableScaleDecimal",
    "namespace": "io.debezium.data",
    "connect.name": "io.debezium.data.VariableScaleDecimal",
    "fields": [{"name": "scale", "type": "int"}, {"name": "value", "type": "bytes"}],
}
_PAIR = {"type": "record", "name": "Pair", "fields": [{"name": "a", "type": "long"}, {"name": "b", "type": "string"}]}
_WKB = bytes.fromhex("0101000000000000000000f03f0000000000000040")
_TEXTS = ["", "a", "é", "\U0001f600", "x" * 28, "x" * 40, "x" * 70, "y" * 9000, "__debezium_unavailable_value", "\0"]
_BYTES = [b"", b"\0", b"\xff", b"\x01\x17", b"\x80" * 8, b"\x7f" * 9, b"__debezium_unavailable_value", b"z" * 200]
_LONGS = [0, -1, 63, 64, -65, 8191, 8192, 1 << 34, 1 << 55, -(1 << 55), 1 << 62, (1 << 63) - 1, -(1 << 63)]
_DOUBLES = [0.0, -0.0, 1.5, math.inf, math.nan, 1e300]


def _semantic(kind: str, name: str, **parameters: str) -> dict[str, Any]:
    return {"type": kind, "connect.name": name, **({"connect.parameters": parameters} if parameters else {})}


# The schemas of columns, each with its values.
_KINDS: list[tuple[Any, list[Any]]] = [
    ("int", [value for value in _LONGS if -(1 << 31) <= value < 1 << 31]),
    ("long", _LONGS),
    ("string", _TEXTS),
    ("bytes", _BYTES),
    ("boolean", [True, False]),
    ("float", _DOUBLES[:5]),
    ("double", _DOUBLES),
    (_DECIMAL, _BYTES),
    (_POINT, [{"wkb": _WKB, "srid": 1}, {"wkb": b"?", "srid": None}]),
    (_VARIABLE, [{"scale": 1, "value": b"\x05"}, {"scale": 1, "value": b""}]),
    (_PAIR, [{"a": 1, "b": "x"}, {"a": -(1 << 40), "b": "é"}]),
    (_semantic("int", "io.debezium.time.Date"), [0, 19_000, -1]),
    (_semantic("long", "io.debezium.time.MicroTimestamp"), _LONGS),
    (_semantic("long", "io.debezium.time.NanoTimestamp"), _LONGS),
    (
        _semantic("string", "io.debezium.time.ZonedTimestamp"),
        ["2024-02-29T12:34:56.5Z", "2024-02-29T12:34:56+01:00", "?"],
    ),
    (_semantic("string", "io.debezium.time.IsoDate"), ["2024-02-29Z", "x"]),
    (_semantic("string", "io.debezium.data.Json"), ["{}", "[1]"]),
    (_semantic("bytes", "io.debezium.data.Bits", length="9"), [b"\x01", b"\x01\x01"]),
    ({"type": "int", "connect.parameters": {"__debezium.source.column.type": "TINYINT"}}, [1, -5]),
    ({"type": "double", "connect.parameters": {"__debezium.source.column.type": "DOUBLE"}}, _DOUBLES[:3]),
    ({"type": "long", "connect.parameters": {"__debezium.source.column.type": "BIGINT UNSIGNED"}}, [5, -5]),
    ({"type": "enum", "name": "Size", "symbols": ["s", "m"]}, ["s", "m"]),
    ({"type": "array", "items": "string"}, [[], ["a", "é"]]),
]
_WALKED = len(_KINDS) - 2
_RENAMED = {"__debezium.source.column.name": "a b"}


class _Registry:
    def __init__(self) -> None:
        self.schemas: list[Any] = []

    def schema(self, number: int) -> Any:
        if number >= len(self.schemas):
            raise DecodeError(f"no schema {number}", reason=BAD_VALUE)
        return self.schemas[number]


class _RandomMessages:
    """Messages of some tables, most of them usual and some of them odd."""

    def __init__(self, seed: int) -> None:
        self.random, self.registry = Random(f"avro {seed}"), _Registry()
        self.is_first = self.random.random() < 0.2  # whether null is the second branch of unions
        self.tables = [self._table(number) for number in range(self.random.choice([1, 1, 3]))]

    def _optional(self, kind: Any) -> list[Any]:
        return [kind, "null"] if self.is_first else ["null", kind]

    def _table(self, number: int) -> list[tuple[str, list[Any]]]:
        random = self.random
        walked = _WALKED if random.random() < 0.8 else len(_KINDS)
        chosen = [_KINDS[random.choice([0, 1, 2])], *random.sample(_KINDS[:walked], random.randrange(1, 8))]
        fields, columns, named = [], [], set[str]()
        for place, (kind, values) in enumerate(chosen):
            if isinstance(kind, dict) and kind.get("name") in named:
                continue
            named |= {kind["name"]} if isinstance(kind, dict) and "name" in kind else set()
            nullable = place > 0 and random.random() < 0.6
            name = "id" if place == 0 else f"c{place}"
            if place == 1 and isinstance(kind, dict) and "connect.parameters" not in kind and "name" not in kind:
                kind = {**kind, "connect.parameters": _RENAMED}
            fields.append({"name": name, "type": self._optional(kind) if nullable else kind})
            columns.append((name, [*values, None] if nullable else values))
        self.registry.schemas += [self._envelope(number, fields), self._key(number, fields[0]["type"])]
        return columns

    def _envelope(self, number: int, fields: list[Any]) -> Any:
        names = [{"name": name, "type": self.random.choice(["string", self._optional("string")])} for name in _SOURCE]
        row = {"type": "record", "name": "Value", "fields": fields}
        members = [
            {"name": "before", "type": self._optional(row)},
            {"name": "after", "type": self._optional("Value")},
            {"name": "source", "type": {"type": "record", "name": "Source", "fields": names}},
            {"name": "op", "type": "string"},
            {"name": "ts_ms", "type": self._optional("long")},
        ]
        return {"type": "record", "name": "Envelope", "namespace": f"s.t{number}", "fields": members}

    def _key(self, number: int, kind: Any) -> Any:
        return {"type": "record", "name": "Key", "namespace": f"s.t{number}", "fields": [{"name": "id", "type": kind}]}

    def messages(self, count: int = 300) -> Messages:
        values, keys = zip(*(self._message() for _ in range(count)), strict=True)
        return Messages(list(values), np.arange(5, 5 + count), None if self.random.random() < 0.2 else list(keys))

    def _message(self) -> tuple[bytes | None, bytes | None]:
        random = self.random
        table = random.randrange(len(self.tables))
        operation = random.choices("crudtmx", [40, 5, 30, 20, 1, 1, 1])[0]
        before, after = self._row(table), self._row(table)
        if random.random() < 0.8:
            after["id"] = before["id"]
        row: dict[str, Any] = {
            "before": None if operation in "cr" else before,
            "after": None if operation == "d" else after,
        }
        for side in row:
            if random.random() < 0.05:
                row[side] = None
        source = dict.fromkeys(_SOURCE, "s") | {
            "db": "d",
            "schema": "s",
            "table": random.choice([f"t{table}"] * 50 + ["o"]),
        }
        change = {**row, "source": source, "op": operation, "ts_ms": random.choice([9, 10, -1, None])}
        key = self._written(2 * table + 1, {"id": random.choice([after, before])["id"]})
        value: bytes | None = self._written(2 * table, change)
        odd = random.random()
        if odd < 0.05:
            value = self._damaged(value or b"")
        elif odd < 0.07:
            key = self._damaged(key)
        elif odd < 0.08:
            value = random.choice([None, b"", b"\0", struct.pack(">bI", 0, 2 * table + 1)])
        return value, random.choice([key] * 20 + [None])

    def _row(self, table: int) -> dict[str, Any]:
        return {name: self.random.choice(values) for name, values in self.tables[table]}

    def _written(self, number: int, record: Any) -> bytes:
        out = BytesIO()
        schema = fastavro.parse_schema(without_logical(self.registry.schemas[number]))
        fastavro.schemaless_writer(out, schema, record)
        return struct.pack(">bI", 0, number) + out.getvalue()

    def _damaged(self, value: bytes) -> bytes:
        place, byte = self.random.randrange(len(value)), bytes([self.random.choice([0, 1, 2, 3, 4, 128, 129, 255])])
        rest = value[place + 1 :] if self.random.random() < 0.5 else value[place:]
        return self.random.choice([value[:place] + byte + rest] * 9 + [value[:place], value + b"\0"])


_SOURCE = ("version", "db", "schema", "table")


def shown(decoded: DecodeResult) -> Any:
    """Every row by its place, and everything else that was found; floats as texts, since nan is not equal to itself."""
    rows = {}
    for batch in decoded.batches:
        schema = batch.schema
        columns = [(column.type, _plain(column)) for column in batch.rows.columns]
        for row in range(len(batch)):
            place = (int(batch.positions[row]), int(batch.subs[row]))
            assert place not in rows
            cells = [(str(kind), repr(values[row])) for kind, values in columns]
            rows[place] = (schema, int(batch.kinds[row]), int(batch.event_times[row]), cells)
        batch.rows.validate(full=True)
    bad = sorted((record.pos, record.reason_class, record.message, record.raw) for record in decoded.bad)
    return rows, bad, decoded.skipped, sorted(map(str, decoded.truncations))


def _plain(column: pa.Array) -> list[Any]:
    if pa.types.is_date32(column.type):
        return column.view(pa.int32()).to_pylist()
    return column.view(pa.int64()).to_pylist() if pa.types.is_temporal(column.type) else column.to_pylist()


def check(seed: int) -> None:
    random = _RandomMessages(seed)
    messages = random.messages()
    rules = {("d", "t0"): ImageRule("all", frozenset({"ID", "c1"}))}
    for images in ("key-changes", "all"):
        by_record, walked = (
            shown(
                decode(
                    "debezium-avro",
                    messages,
                    DecodeOptions(
                        images,
                        frozenset({"id"}),
                        rules if seed % 3 == 0 else {},
                        registry=random.registry,
                        bulk_rows=bulk_rows,
                    ),
                )
            )
            for bulk_rows in (1_000_000, 1)
        )
        for part, expected in zip(walked, by_record, strict=True):
            assert part == expected, (seed, images)


@pytest.mark.parametrize("seed", [*seeds(4), 2028])
def test_rows_of_walked_messages_are_those_of_the_record_path(seed: int) -> None:
    check(seed)


@pytest.mark.slow
def test_rows_of_walked_messages_are_those_of_the_record_path_in_many_messages(night: bool) -> None:
    for seed in range(4, 500 if night else 16):
        check(seed)


def test_usual_messages_are_walked_and_odd_ones_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[float] = []
    added = AvroChanges.add_to

    def add_to(self: Any, decoded: DecodeResult) -> Any:
        accepted = added(self, decoded)
        taken.append(accepted.mean())
        return accepted

    monkeypatch.setattr(AvroChanges, "add_to", add_to)
    for seed in range(4):
        check(seed)
    assert max(taken) > 0.5
