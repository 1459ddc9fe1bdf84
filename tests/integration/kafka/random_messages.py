"""Changes of rows as messages of each format, for random plays."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Row = dict[str, Any]


@dataclass(slots=True)
class Change:
    """A change of one row. `types` are the declared types of its table at that time."""

    table: str
    before: Row | None
    after: Row | None
    types: dict[str, str]
    millis: int
    is_key_only: bool = False  # a delete whose message has only the key

    @property
    def row(self) -> Row:
        row = self.before if self.after is None else self.after
        assert row is not None
        return row


def _texts(row: Row) -> Row:
    return {name: None if value is None else str(value) for name, value in row.items()}


def _differences(change: Change) -> Row:
    before, after = change.before or {}, change.after or {}
    return {name: value for name, value in before.items() if after.get(name) != value or name not in after}


def canal(change: Change, keys: bool = True) -> str:
    kind = "INSERT" if change.before is None else "DELETE" if change.after is None else "UPDATE"
    types = {name: change.types[name] for name in change.row}
    message: dict[str, Any] = {"type": kind, "database": "shop", "table": change.table, "isDdl": False}
    message |= {"ts": change.millis, "es": change.millis, "pkNames": ["id"] if keys else None, "mysqlType": types}
    old = [_texts(_differences(change))] if kind == "UPDATE" else None
    return json.dumps(message | {"data": [_texts(change.row)], "old": old})


def maxwell(change: Change, keys: bool = True) -> str:
    kind = "insert" if change.before is None else "delete" if change.after is None else "update"
    message: dict[str, Any] = {"type": kind, "database": "shop", "table": change.table, "ts": change.millis // 1000}
    message |= {"primary_key_columns": ["id"]} if keys else {}
    old = {"old": _differences(change)} if kind == "update" else {}
    return json.dumps(message | {"data": change.row} | old)


def debezium(change: Change, keys: bool = True) -> str:
    operation = "c" if change.before is None else "d" if change.after is None else "u"
    before = None if change.is_key_only else change.before
    source = {"db": "shop", "table": change.table, "ts_ms": change.millis}
    return json.dumps({"op": operation, "before": before, "after": change.after, "source": source})


def debezium_declared(change: Change, keys: bool = True) -> str:
    kinds = {"INT": "int32", "BIGINT": "int64"}
    columns = [
        {"field": name, "type": kinds.get(change.types[name], "string"), "optional": name != "id"}
        for name in change.row
    ]
    rows = [{"type": "struct", "field": side, "fields": columns, "optional": True} for side in ("before", "after")]
    payload = json.loads(debezium(change))
    return json.dumps({"schema": {"type": "struct", "fields": rows}, "payload": payload})


def ogg(change: Change, keys: bool = True) -> str:
    kind = "I" if change.before is None else "D" if change.after is None else "U"
    seconds, millis = divmod(change.millis, 1000)
    time = f"2023-11-14 {seconds // 3600 % 24:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{millis:03}000"
    message: dict[str, Any] = {"table": f"shop.{change.table}", "op_type": kind, "op_ts": time, "pos": "1"}
    message |= {"primary_keys": ["id"]} if keys else {}
    images = {"before": change.before} if change.before is not None else {}
    return json.dumps(message | images | ({"after": change.after} if change.after is not None else {}))


def plain(change: Change, keys: bool = True) -> str:
    return json.dumps(change.row)


def json_key(key: int) -> bytes:
    return json.dumps({"id": key}).encode()


def broken_json(_: random.Random) -> bytes:
    return b'{"broken'


@dataclass(frozen=True, slots=True)
class Format:
    """A format of values, and of keys.

    `declares`: its messages declare types. `has_deletes`: not only new rows. `has_bad_values`: a message can have a
    value that is not of its declared type.
    """

    name: str
    write: Callable[[Change, bool], str | bytes]
    declares: bool = False
    has_deletes: bool = True
    has_bad_values: bool = False
    key: Callable[[int], bytes] = json_key
    malformed: Callable[[random.Random], bytes] = broken_json

    def value(self, change: Change, keys: bool) -> bytes:
        found = self.write(change, keys)
        return found if isinstance(found, bytes) else found.encode()


FORMATS = (
    Format("canal-json", canal, declares=True, has_bad_values=True),
    Format("maxwell-json", maxwell),
    Format("debezium-json", debezium),
    Format("debezium-json", debezium_declared, declares=True, has_bad_values=True),
    Format("ogg-json", ogg),
    Format("json", plain, has_deletes=False),
)
