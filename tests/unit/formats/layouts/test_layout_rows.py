"""Rows by layout are those of the record path: random messages, odd on purpose, decoded both ways."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.formats import decode
from penstock.formats.change import DecodeOptions, DecodeResult, ImageRule, Messages
from tests.seeds import seeds

FORMATS = ("json", "maxwell-json", "ogg-json", "debezium-json", "canal-json")
ODD_TEXTS = [
    *('a"b', "back\\slash", "tab\tx", "line\nx", "\u00e9", "\u5317\u4eac", "\U0001f600", "\u2028", "", ":)", '":'),
    *("null", "true", "12", "-0", "1e5", "a,b}{][:", "\\", '\\"', "x" * 40, "\x7f", "\u0001", "/", "a/b"),
    *("__debezium_unavailable_value", "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ==", '{"payload":1}', ',"payload":'),
]
# Texts as they are in JSON: every escape, escapes by number, surrogates with and without their partner, and wrong ones.
ESCAPES = [
    *(
        rb"a\/b",
        rb"\b\f\n\r\t",
        rb"\"",
        rb"\\",
        rb"\\\"",
        rb"\\\\n",
        rb"\"\"\"",
        rb"x\\",
        rb"\"},{\"",
        rb"\":\"",
        rb"\\\":",
    ),
    *(rb"\u0041", rb"\u0022:", rb"\ud83d\ude00", rb"\ud800", rb"\udc00\ud800", rb"\u0000", rb"\\u0041"),
    *(rb"\x", rb"\u12", rb"\'", rb"\0", b"\\\n", b"\\", rb"\\\\\\", rb'\\"', b"\xff", b"\xff:"),
]
NUMBERS = [
    *(0, 1, -1, 7, 12345678, 123456789, 1234567890123456, 12345678901234567, -(1 << 63), 1 << 63, 10**30),
    *(1.5, -0.25, 0.1, 100.0, 1e21, 1.5e-9, -0.0, True, False, None),
]
CONNECT = {"int": "int64", "decimal": "double", "text": "string", "boolean": "boolean", "any": "string"}
SEMANTIC = ("io.debezium.time.MicroTimestamp", "io.debezium.time.Date", None)
REPLACED = [34, 92, 58, 44, 123, 125, 48, 0, 10, 255, 32, 110, 45, 46]
WHOLE = [b"", b"null", b"{}", b"[]", b'"x"', b"1", b"{", b'{"a":1}', b"\xff", b"[{}]"]


class RandomMessages:
    """Messages of a few tables in one format, most of them usual and some of them odd."""

    def __init__(self, name: str, seed: int) -> None:
        self.name, self.random = name, Random(f"{name} {seed}")
        self.blanks, self.ascii = self.random.random() < 0.2, self.random.random() < 0.3
        self.schemas = self.random.random() < 0.4
        self.last = self.random.random() < 0.3
        self.escapes = self.random.choice([0, 0.02, 0.3])
        self.tables = [self.table(number) for number in range(self.random.choice([1, 3, 12]))]
        if self.random.random() < 0.4:  # parts of one table, which share their layouts
            self.tables = [self.tables[0]] * len(self.tables)
        self.damage = self.random.choice([0, 0, 0.01, 0.05])

    def messages(self) -> Messages:
        count = self.random.choice([50, 400, 1200])
        values = [self.value(number) for number in range(count)]
        keys = None
        if self.name == "debezium-json" and self.random.random() < 0.6:
            keys = [self.key(number) for number in range(count)]
        return Messages(values, np.arange(count), keys)

    def value(self, number: int) -> bytes | None:
        table = self.random.randrange(len(self.tables))
        if self.random.random() < 0.002:
            self.tables[table] = self.table(table)
        value = self.text(self.message(table, number))
        if self.random.random() < self.escapes:
            value = value.replace(b"hello world", self.random.choice(ESCAPES))
        if self.random.random() < self.damage:
            value = self.damaged(value)
        return None if self.random.random() < 0.005 else value

    def key(self, number: int) -> bytes | None:
        if self.random.random() < 0.03:
            return self.random.choice([None, b"", b"{}", b"5", b"{", b'{"id":{"a":1}}', b'{"other":5}'])
        identity: Any = number if self.random.random() < 0.9 else self.random.choice([number + 1, str(number), None])
        key = {"id": identity}
        return self.text({"schema": {"type": "struct"}, "payload": key} if self.schemas else key)

    def table(self, number: int) -> dict[str, str]:
        kinds = ["int", "decimal", "text", "boolean", "int", "text", *(["any"] if number % 3 == 0 else [])]
        names = ["c%d", "column_%d_with_a_long_name", "\u5217%d", "x y%d"]
        if self.escapes:
            names += self.random.choice([[], [], ['a"b%d'], ["tab\t%d", "back\\%d", '"%d']])
        columns = {
            self.random.choice(names) % place: self.random.choice(kinds) for place in range(self.random.randrange(2, 9))
        }
        return {"id": "int", **columns}

    def cell(self, kind: str) -> Any:
        odd = self.random.random()
        if odd > 0.97 and kind in {"int", "decimal"}:
            return self.random.choice(NUMBERS)
        if odd > 0.93 and kind == "text":
            return self.random.choice(ODD_TEXTS)
        if odd > 0.9 and kind == "any":
            return self.random.choice([*NUMBERS, *ODD_TEXTS, [1, 2], {"a": 1}, {}, [], {"a": {"b": [None]}}, ["x"]])
        usual = {
            "int": lambda: self.random.choice([self.random.randrange(100), self.random.randrange(10**9), -5, None]),
            "decimal": lambda: round(self.random.uniform(-1000, 1000), self.random.randrange(5)),
            "text": lambda: self.random.choice(["abc", "hello world", None, f"x{self.random.randrange(1000)}"]),
            "boolean": lambda: self.random.choice([True, False, None]),
            "any": lambda: "v",
        }
        return usual[kind]()

    def message(self, table: int, number: int) -> Any:
        columns = self.tables[table]
        row = {name: number if name == "id" else self.cell(kind) for name, kind in columns.items()}
        before = dict(row)
        for name in self.random.sample(list(row), self.random.randrange(1, len(row) + 1)):
            if name != "id":
                before[name] = self.cell(columns[name])
            elif self.random.random() < 0.1:
                before[name] = number + 1
        if self.random.random() < 0.02:
            row.pop(self.random.choice(list(row)))
        if self.random.random() < 0.02:
            row[f"new{self.random.randrange(3)}"] = 5
        return getattr(self, self.name.split("-")[0])(table, number, before, row, self.random.choice("ccuud"))

    def json(self, _table: int, _number: int, _before: Any, row: Any, _operation: str) -> Any:
        return [row, row] if self.random.random() < 0.01 else row

    def maxwell(self, table: int, number: int, before: Any, row: Any, operation: str) -> Any:
        kind = {"c": "insert", "u": "update", "d": "delete"}[operation]
        message = {"database": "db", "table": f"t{table}", "type": kind, "ts": 1_700_000_000 + number, "xid": number}
        self.disturb(message, "ts", [-1, 1.5, "x", None, 10**20, True])
        self.disturb(message, "type", ["table-alter", "bogus", None, 5, "bootstrap-insert"])
        self.disturb(message, "database", [None, 5, "other"])
        if table % 2:
            message["primary_key_columns"] = self.random.choice([["id"], ["id"], ["id"], [], [5]])
        message["data"] = row
        if operation == "u":
            message["old"] = {name: value for name, value in before.items() if value != row.get(name)}
            self.disturb(message, "old", [None, {}, [], {"gone": 1}, 5])
        return message

    def canal(self, table: int, number: int, before: Any, row: Any, operation: str) -> Any:
        kinds = {"int": "bigint", "decimal": "double", "text": "text", "boolean": "tinyint(1)", "any": "text"}
        message = {
            "data": [self.texts(row)] * (2 if number % 50 == 0 else 1),
            "database": "db",
            "es": 1_700_000_000_000 + number,
            "id": number,
            "isDdl": False,
            "mysqlType": {name: kinds[kind] for name, kind in self.tables[table].items()},
            "old": None,
            "pkNames": ["id"] if table % 3 else None,
            "table": f"t{table}",
            "ts": 1_700_000_000_000 + number,
            "type": {"c": "INSERT", "u": "UPDATE", "d": "DELETE"}[operation],
        }
        if operation == "u":
            changed = {name: value for name, value in before.items() if value != row.get(name)}
            message["old"] = [self.texts(changed)]
            self.disturb(message, "old", [None, [None], [], {}, [{"id": 5}], [{"id": "x"}, None]])
        self.disturb(message, "data", [None, [], {}, [None], [{}], [row]])
        self.disturb(message, "ts", [-1, 1.5, "5", None, 10**20, 0])
        self.disturb(message, "type", ["ROW", "ALTER", "TRUNCATE", "bogus", None, 5])
        self.disturb(message, "isDdl", [True, None, 5])
        self.disturb(message, "mysqlType", [None, {}, {"id": "enum('a')"}, 5])
        self.disturb(message, "table", [None, 5, "other"])
        # Other producers of the format have another order of members.
        return dict(reversed(message.items())) if self.last else message

    def texts(self, row: Any) -> Any:
        return {name: None if value is None else str(value) for name, value in row.items()}

    def ogg(self, table: int, number: int, before: Any, row: Any, operation: str) -> Any:
        kind = {"c": "I", "u": "U", "d": "D"}[operation]
        moment = f"2024-05-{number % 28 + 1:02} 10:00:00.{number % 1000:03}000"
        message = {"table": f"db.t{table}", "op_type": kind, "op_ts": moment, "pos": str(number)}
        self.disturb(message, "op_ts", ["x", None, 5])
        self.disturb(message, "op_type", ["T", "X", None, 5])
        if table % 2:
            message["primary_keys"] = self.random.choice([["id"], ["id"], []])
        if kind != "I":
            message["before"] = before if kind == "U" else row
        if kind != "D":
            message["after"] = row
        self.disturb(message, "before", [None, {}, {"id": number, "id_isMissing": True}])
        return message

    def debezium(self, table: int, number: int, before: Any, row: Any, operation: str) -> Any:
        source = {"version": "3", "ts_ms": number, "db": "db", "schema": "s", "table": f"t{table}", "thread": None}
        self.disturb(source, "table", [None, 5, "other"])
        payload = {"before": None, "after": row, "source": source, "op": operation, "ts_ms": 1_700_000_000_000 + number}
        if operation == "u" and table % 3:
            payload["before"] = before
        if operation == "d":
            payload["before"], payload["after"] = (row if self.random.random() < 0.9 else None), None
        self.disturb(payload, "op", ["r", "t", "m", "x", None, 5])
        self.disturb(payload, "ts_ms", [-1, 1.5, "x", None, 10**20])
        self.disturb(payload, "before", [None, 5, {}, {"id": 1}])
        self.disturb(payload, "pkNames", [["id"], [], None])
        if self.random.random() < 0.01:
            payload.pop(self.random.choice(list(payload)))
        if not self.schemas:
            return payload
        fields = self.connect(self.tables[table])
        sides = [{"type": "struct", "fields": fields, "optional": True, "field": side} for side in ("before", "after")]
        schema: Any = {"type": "struct", "fields": sides, "name": f"s.db.t{table}.Envelope"}
        return {"schema": self.random.choice([schema] * 100 + [None, {}, 5]), "payload": payload}

    def connect(self, columns: dict[str, str]) -> list[dict[str, Any]]:
        fields = []
        for place, (name, kind) in enumerate(columns.items()):
            semantic = SEMANTIC[place % 3] if kind == "int" and name != "id" else None
            carrier = "int32" if semantic == SEMANTIC[1] else CONNECT[kind]
            fields.append(
                {"type": carrier, "optional": True, "field": name, **({"name": semantic} if semantic else {})}
            )
        return fields

    def disturb(self, message: dict[str, Any], name: str, values: list[Any]) -> None:
        if self.random.random() < 0.01:
            message[name] = self.random.choice(values)

    def text(self, value: Any) -> bytes:
        separators = None if self.blanks else (",", ":")
        return json.dumps(value, ensure_ascii=self.ascii, separators=separators).encode()

    def damaged(self, value: bytes) -> bytes:
        place, byte = self.random.randrange(len(value)), bytes([self.random.choice(REPLACED)])
        rest = value[place + 1 :] if self.random.random() < 0.5 else value[place:]
        return self.random.choice([value[:place] + byte + rest] * 9 + [value[:place] + rest, *WHOLE[:3]])


def shown(decoded: DecodeResult) -> Any:
    """Every row by its place with the values that are not null, and everything else that was found."""
    rows = {}
    for batch in decoded.batches:
        schema, fields = batch.schema, batch.schema.fields
        columns = [
            (field, column.type, plain(column)) for field, column in zip(fields, batch.rows.columns, strict=True)
        ]
        table = (schema.dialect, schema.database, schema.table, schema.primary_keys, schema.states_no_key)
        for row in range(len(batch)):
            cells = {field: (str(kind), values[row]) for field, kind, values in columns if values[row] is not None}
            place = (int(batch.positions[row]), int(batch.subs[row]))
            assert place not in rows
            rows[place] = (*table, int(batch.kinds[row]), int(batch.event_times[row]), cells)
    bad = sorted((record.pos, record.reason_class, record.message, record.raw) for record in decoded.bad)
    return rows, bad, decoded.skipped, sorted(map(str, decoded.truncations)), decoded.repaired


def plain(column: pa.Array) -> list[Any]:
    if pa.types.is_date32(column.type):
        return column.view(pa.int32()).to_pylist()
    return column.view(pa.int64()).to_pylist() if pa.types.is_temporal(column.type) else column.to_pylist()


def check(name: str, seed: int) -> None:
    messages = RandomMessages(name, seed).messages()
    rules = {("db", "t1"): ImageRule("all", frozenset({"ID", "c1"}))}
    for images in ("key-changes", "all"):
        found = {}
        for bulk_rows in (1, 200, 1_000_000):
            options = DecodeOptions(images, frozenset({"id"}), rules if seed % 3 == 0 else {}, bulk_rows=bulk_rows)
            found[bulk_rows] = shown(decode(name, messages, options))
        for bulk_rows in (1, 200):
            for part, expected in zip(found[bulk_rows], found[1_000_000], strict=True):
                assert part == expected, (name, seed, images, bulk_rows)


@pytest.mark.parametrize("seed", seeds(4))
@pytest.mark.parametrize("name", FORMATS)
def test_rows_by_layout_are_those_of_the_record_path(name: str, seed: int) -> None:
    check(name, seed)


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMATS)
def test_rows_by_layout_are_those_of_the_record_path_in_many_messages(name: str, night: bool) -> None:
    for seed in range(4, 500 if night else 7):
        check(name, seed)
