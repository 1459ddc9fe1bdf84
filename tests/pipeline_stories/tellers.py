"""One logical change as a message of each format: the formats must lead to the same table."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from tests.pipeline_stories.columns import BIGINT, DATETIME, DECIMAL, INT, is_number, type_of
from tests.pipeline_stories.log_source import MILLIS, Message
from tests.pipeline_stories.story import Change, Row

Teller = Callable[[Change, Sequence[str]], Message]
_CONNECT: Mapping[str, Mapping[str, Any]] = {
    BIGINT: {"type": "int64"},
    INT: {"type": "int32"},
    DATETIME: {"type": "int64", "name": "io.debezium.time.Timestamp"},
    DECIMAL: {
        "type": "bytes",
        "name": "org.apache.kafka.connect.data.Decimal",
        "parameters": {"scale": "2", "connect.decimal.precision": "12"},
    },
}


def told(kind: str, change: Change, keys: Sequence[str]) -> Message:
    """Return the message; a tombstone has no value, and a poisoned one any text."""
    if "poison" in change:
        return None, change["poison"].encode("latin-1")
    if "tombstone" in change:
        return change["tombstone"].encode(), None
    return TELLERS[kind](change, keys)


def _text(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()


def _time(change: Change) -> int:
    return MILLIS + int(change.get("at", 0))


def _previous(change: Change) -> dict[str, str | None]:
    """Return the columns of the row before that differ."""
    after = change["after"]
    return {name: value for name, value in change["before"].items() if after.get(name) != value}


def canal(change: Change, keys: Sequence[str]) -> Message:
    row = change["before"] if change["op"] == "D" else change["after"]
    message = {
        "type": {"I": "INSERT", "U": "UPDATE", "D": "DELETE"}[change["op"]],
        "database": change["db"],
        "table": change["table"],
        "isDdl": False,
        "pkNames": list(keys) or None,
        "mysqlType": {name: type_of(name) for name in row},
        "data": [dict(row)],
        "old": [_previous(change)] if change["op"] == "U" else None,
        "es": _time(change),
        "ts": _time(change) + 1,
    }
    return None, _text(message)


def maxwell(change: Change, keys: Sequence[str]) -> Message:
    row = change["before"] if change["op"] == "D" else change["after"]
    message = {
        "database": change["db"],
        "table": change["table"],
        "type": {"I": "insert", "U": "update", "D": "delete"}[change["op"]],
        "ts": _time(change) // 1000,
        "primary_key_columns": list(keys),
        "data": _native(row),
    }
    return None, _text(message | ({"old": _native(_previous(change))} if change["op"] == "U" else {}))


def ogg(change: Change, keys: Sequence[str]) -> Message:
    moment = datetime.fromtimestamp(_time(change) / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")
    message = {
        "table": f"{change['db']}.{change['table']}",
        "op_type": change["op"],
        "op_ts": moment,
        "primary_keys": list(keys),
    }
    images = {side: _native(change[side]) for side in ("before", "after") if change[side] is not None}
    return None, _text(message | images)


def debezium(change: Change, keys: Sequence[str]) -> Message:
    images = {side: None if change[side] is None else _native(change[side]) for side in ("before", "after")}
    return _debezium_key(change, keys, _native), _text(_debezium_payload(change, images, keys))


def debezium_with_schema(change: Change, keys: Sequence[str]) -> Message:
    images = {side: None if change[side] is None else _carried(change[side]) for side in ("before", "after")}
    row = change["after"] or change["before"]
    fields = [{"field": name, "optional": True, **_CONNECT.get(type_of(name), {"type": "string"})} for name in row]
    sides = [{"type": "struct", "field": side, "optional": True, "fields": fields} for side in images]
    value = {"schema": {"type": "struct", "fields": sides}, "payload": _debezium_payload(change, images, keys)}
    return _debezium_key(change, keys, _carried), _text(value)


def _debezium_payload(change: Change, images: Mapping[str, object], keys: Sequence[str]) -> dict[str, object]:
    operation = {"I": "c", "U": "u", "D": "d"}[change["op"]]
    source = {"db": change["db"], "table": change["table"], "ts_ms": _time(change)}
    stated = {} if keys else {"pkNames": []}
    return {"op": operation, **images, "source": source, "ts_ms": _time(change), **stated}


def _debezium_key(change: Change, keys: Sequence[str], told_row: Callable[[Row], Any]) -> bytes | None:
    row = change["before"] or change["after"]
    return _text(told_row({name: row[name] for name in keys})) if keys else None


def _native(row: Row) -> dict[str, Any]:
    """Return JSON values: numbers without fractions are numbers, all others texts."""
    return {name: int(text) if _is_whole(name, text) else text for name, text in row.items()}


def _is_whole(name: str, text: str | None) -> bool:
    return text is not None and is_number(name) and type_of(name) != DECIMAL and text.lstrip("-").isdecimal()


def _carried(row: Row) -> dict[str, Any]:
    return {name: None if text is None else _carried_value(name, text) for name, text in row.items()}


def _carried_value(name: str, text: str) -> Any:
    match type_of(name):
        case "datetime(3)":
            moment = datetime.fromisoformat(text).replace(tzinfo=UTC)
            return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // (
                datetime(1970, 1, 1, 0, 0, 0, 1000) - datetime(1970, 1, 1)
            )
        case "decimal(12,2)":
            unscaled = int(Decimal(text).scaleb(2))
            return base64.b64encode(unscaled.to_bytes(8, "big", signed=True)).decode()
        case "bigint" | "int":
            return int(text) if text.lstrip("-").isdecimal() else text
    return text


TELLERS: Mapping[str, Teller] = {
    "canal-json": canal,
    "maxwell-json": maxwell,
    "ogg-json": ogg,
    "debezium-json": debezium,
    "debezium-schema": debezium_with_schema,
}
TYPED = frozenset({"canal-json", "debezium-schema"})  # the formats that declare the types of columns


def format_of(kind: str) -> str:
    return "debezium-json" if kind == "debezium-schema" else kind
