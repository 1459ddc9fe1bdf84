"""Events decoded per CPU second, by format: `python benchmarks/decode.py [events]`.

The event is a row of 14 columns of an order table, 60 % inserts and 40 % updates, as the formats write it. The last
columns compare with the decoder of single records, and with a mere scan of the same messages by msgspec, since machines
differ and load changes.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np

from benchmarks.figures import Figure, record
from penstock.formats import decode
from penstock.formats.change import DecodeOptions, Messages

GOAL = 2.0  # us an event
COLUMNS = {
    "id": "bigint",
    "user_id": "bigint",
    "amount": "decimal(16,2)",
    "discount": "decimal(10,4)",
    "status": "tinyint(4)",
    "paid": "tinyint(1)",
    "channel": "varchar(16)",
    "address": "varchar(200)",
    "receiver": "varchar(32)",
    "phone": "varchar(20)",
    "remark": "text",
    "weight": "double",
    "created": "datetime",
    "updated": "datetime(3)",
}
CONNECT = {"bigint": "int64", "tinyint(4)": "int16", "tinyint(1)": "int16", "double": "double"}
FIELDS = [{"field": name, "type": CONNECT.get(kind, "string"), "optional": True} for name, kind in COLUMNS.items()]


def row(number: int, status: int) -> dict[str, Any]:
    return {
        "id": number,
        "user_id": number * 7919 % 50_021,
        "amount": f"{number % 90_000}.{number % 100:02}",
        "discount": "0.0500",
        "status": status,
        "paid": number % 2,
        "channel": ("app", "web", "mini program")[number % 3],
        "address": f"北京市朝阳区建国路 {number % 999} 号",
        "receiver": "张三",
        "phone": f"1{number:010}",
        "remark": None if number % 3 else "leave it at the front desk, please",
        "weight": number % 1000 / 8,
        "created": "2024-05-01 10:00:00",
        "updated": f"2024-05-01 10:00:00.{number % 1000:03}",
    }


def texts(columns: dict[str, Any]) -> dict[str, str | None]:
    return {name: None if value is None else str(value) for name, value in columns.items()}


def canal(before: dict[str, Any] | None, after: dict[str, Any]) -> dict[str, Any]:
    old = [{"status": str(before["status"])}] if before else None
    return {
        "data": [texts(after)],
        "database": "shop",
        "es": 1714557600000,
        "id": 1,
        "isDdl": False,
        "mysqlType": COLUMNS,
        "old": old,
        "pkNames": ["id"],
        "sql": "",
        "sqlType": dict.fromkeys(COLUMNS, 12),
        "table": "orders",
        "ts": 1714557600200,
        "type": "UPDATE" if before else "INSERT",
    }


def maxwell(before: dict[str, Any] | None, after: dict[str, Any]) -> dict[str, Any]:
    change = {"type": "update", "old": {"status": before["status"]}} if before else {"type": "insert"}
    keys = {"primary_key_columns": ["id"]}
    return {"database": "shop", "table": "orders", "ts": 1714557600, "xid": 7, **change, **keys, "data": after}


def debezium(before: dict[str, Any] | None, after: dict[str, Any]) -> dict[str, Any]:
    source = {"connector": "mysql", "name": "shop", "ts_ms": 1714557600000, "db": "shop", "table": "orders", "pos": 154}
    return {"before": before, "after": after, "source": source, "op": "u" if before else "c", "ts_ms": 1714557600200}


def debezium_schema(before: dict[str, Any] | None, after: dict[str, Any]) -> dict[str, Any]:
    rows = [{"type": "struct", "fields": FIELDS, "optional": True, "field": side} for side in ("before", "after")]
    return {"schema": {"type": "struct", "fields": rows}, "payload": debezium(before, after)}


def ogg(before: dict[str, Any] | None, after: dict[str, Any]) -> dict[str, Any]:
    images = {"before": before, "after": after} if before else {"after": after}
    kind = "U" if before else "I"
    return {"table": "shop.orders", "op_type": kind, "op_ts": "2024-05-01 10:00:00.000000", "pos": "154", **images}


class Nothing(msgspec.Struct):
    """Read as this, a message is scanned and nothing is kept."""


Write = Callable[[dict[str, Any] | None, dict[str, Any]], dict[str, Any]]
CASES: dict[str, tuple[str, Write]] = {
    "canal-json": ("canal-json", canal),
    "maxwell-json": ("maxwell-json", maxwell),
    "debezium-json": ("debezium-json", debezium),
    "debezium-json, schema": ("debezium-json", debezium_schema),
    "ogg-json": ("ogg-json", ogg),
    "json": ("json", lambda _, after: after),
}


def seconds(work: Callable[[], object]) -> float:
    taken = []
    for _ in range(5):
        start = time.process_time()
        work()
        taken.append(time.process_time() - start)
    return min(taken)


def main() -> None:
    events = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    scan = msgspec.json.Decoder(Nothing).decode
    print(f"{'format':24}{'images':14}{'bytes':>6}{'us/event':>10}{'by record':>10}{'ratio':>7}{'x scan':>8}")
    for title, (name, write) in CASES.items():
        changes = [(row(n, 0) if n % 5 < 2 else None, row(n, 1)) for n in range(events)]
        values = [json.dumps(write(*change), ensure_ascii=False, separators=(",", ":")).encode() for change in changes]
        messages = Messages(values, np.arange(events))
        floor = seconds(lambda values=values: [scan(value) for value in values])
        for images in ("key-changes", "all"):
            by_layout = DecodeOptions(before_images=images, watch_columns=frozenset({"id"}))
            by_record = replace(by_layout, bulk_rows=10 * events)
            taken, records = (
                seconds(lambda name=name, messages=messages, options=options: decode(name, messages, options))
                for options in (by_layout, by_record)
            )
            size = sum(map(len, values)) // events
            us, record_us = taken / events * 1e6, records / events * 1e6
            print(f"{title:24}{images:14}{size:6}{us:10.2f}{record_us:10.2f}{records / taken:7.1f}{taken / floor:8.1f}")
            record(Figure(f"{title}, {images}", us, "us an event", record_us, "record by record", GOAL, less=True))


if __name__ == "__main__":
    main()
