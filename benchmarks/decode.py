"""Events decoded per CPU second, by format: `python benchmarks/decode.py [events]`.

The event is a row of 14 columns of an order table, 60 % inserts and 40 % updates, as the formats write it. The cases
"shop" have the changes of `benchmarks.shop` instead: four tables by turns, nulls, escapes, deletes, and `old` of
several columns; those with "200 tables" the same changes, divided by key, so that each table has few of them and
layouts may cost no more than single records do. The last columns compare with the decoder of single records, and with
a mere scan of the same messages by msgspec, since machines differ and load changes.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import numpy as np

from benchmarks.figures import Figure, record
from benchmarks.shop.columns import TABLES
from benchmarks.shop.stream import changes as shop_changes
from penstock.formats import decode
from penstock.formats.change import DecodeOptions, Messages

GOAL = 2.0  # us an event
SHARDS = 50  # of each of the shop's four tables
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
CONNECT = {"bigint": "int64", "int": "int32", "tinyint(4)": "int16", "tinyint(1)": "int16", "double": "double"}

Row = dict[str, Any]
Message = dict[str, Any]


def row(number: int, status: int) -> Row:
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


@dataclass(frozen=True, slots=True)
class Event:
    """A change of a table: `previous` are the values before it of the columns that an update changed."""

    types: dict[str, str]
    before: Row | None
    after: Row | None
    previous: Row | None = None
    table: str = "orders"

    def kind(self, insert: str, update: str, delete: str) -> str:
        return delete if self.after is None else update if self.before else insert

    @property
    def images(self) -> Message:
        return {name: row for name, row in (("before", self.before), ("after", self.after)) if row}


def orders(events: int) -> Iterator[Event]:
    for number in range(events):
        updated = number % 5 < 2
        before = row(number, 0) if updated else None
        yield Event(COLUMNS, before, row(number, 1), {"status": 0} if updated else None)


def shop(events: int) -> Iterator[Event]:
    """The changes of the shop, with integers where canal has digits as texts."""
    for change in shop_changes(events):
        types = TABLES[change.table].mysql_types
        whole = {name for name, kind in types.items() if "int" in kind}
        message = msgspec.json.decode(change.message)
        now, previous = (
            {name: int(text) if text and name in whole else text for name, text in (rows or [{}])[0].items()}
            for rows in (message["data"], message["old"])
        )
        before = {"INSERT": None, "UPDATE": now | previous, "DELETE": now}[message["type"]]
        yield Event(types, before, None if message["type"] == "DELETE" else now, previous or None, change.table)


def sharded(events: list[Event]) -> Iterator[Event]:
    """The changes with each table divided by key into 50."""
    for event in events:
        key = (event.after or event.before or {})["id"]
        yield replace(event, table=f"{event.table}_{int(key) % SHARDS:02}")


def texts(columns: Row) -> dict[str, str | None]:
    return {name: None if value is None else str(value) for name, value in columns.items()}


def canal(event: Event) -> Message:
    return {
        "data": [texts(event.after or event.before or {})],
        "database": "shop",
        "es": 1714557600000,
        "id": 1,
        "isDdl": False,
        "mysqlType": event.types,
        "old": [texts(event.previous)] if event.previous else None,
        "pkNames": ["id"],
        "sql": "",
        "sqlType": dict.fromkeys(event.types, 12),
        "table": event.table,
        "ts": 1714557600200,
        "type": event.kind("INSERT", "UPDATE", "DELETE"),
    }


def maxwell(event: Event) -> Message:
    change = {"type": event.kind("insert", "update", "delete")} | ({"old": event.previous} if event.previous else {})
    keys = {"primary_key_columns": ["id"]}
    data = event.after or event.before
    return {"database": "shop", "table": event.table, "ts": 1714557600, "xid": 7, **change, **keys, "data": data}


def debezium(event: Event) -> Message:
    place = {"db": "shop", "table": event.table, "pos": 154}
    source = {"connector": "mysql", "name": "shop", "ts_ms": 1714557600000, **place}
    rows = {"before": event.before, "after": event.after}
    return {**rows, "source": source, "op": event.kind("c", "u", "d"), "ts_ms": 1714557600200}


def debezium_schema(event: Event) -> Message:
    kinds = {name: CONNECT.get(kind, "string") for name, kind in event.types.items()}
    fields = [{"field": name, "type": kind, "optional": True} for name, kind in kinds.items()]
    rows = [{"type": "struct", "fields": fields, "optional": True, "field": side} for side in ("before", "after")]
    envelope = {"type": "struct", "fields": rows, "optional": False, "name": f"shop.shop.{event.table}.Envelope"}
    return {"schema": envelope, "payload": debezium(event)}


def ogg(event: Event) -> Message:
    place = {"op_ts": "2024-05-01 10:00:00.000000", "pos": "154"}
    return {"table": f"shop.{event.table}", "op_type": event.kind("I", "U", "D"), **place, **event.images}


class Nothing(msgspec.Struct):
    """Read as this, a message is scanned and nothing is kept."""


CASES: dict[str, Callable[[Event], Message]] = {
    "canal-json": canal,
    "maxwell-json": maxwell,
    "debezium-json": debezium,
    "debezium-json, schema": debezium_schema,
    "ogg-json": ogg,
    "json": lambda event: event.after or event.before or {},
}


def seconds(work: Callable[[], object]) -> float:
    taken = []
    for _ in range(5):
        start = time.process_time()
        work()
        taken.append(time.process_time() - start)
    return min(taken)


def measure(title: str, values: list[bytes], *, few: bool) -> None:
    """Print and record the costs; with few rows of a table the goal is to cost no more than single records."""
    name, events = title.partition(",")[0], len(values)
    messages = Messages(values, np.arange(events))
    scan = msgspec.json.Decoder(Nothing).decode
    floor = seconds(lambda: [scan(value) for value in values])
    for images in ("key-changes", "all"):
        by_layout = DecodeOptions(before_images=images, watch_columns=frozenset({"id"}))
        by_record = replace(by_layout, bulk_rows=10 * events)
        taken, records = (
            seconds(lambda options=options: decode(name, messages, options)) for options in (by_layout, by_record)
        )
        size = sum(map(len, values)) // events
        us, record_us = taken / events * 1e6, records / events * 1e6
        print(f"{title:28}{images:14}{size:6}{us:10.2f}{record_us:10.2f}{records / taken:7.1f}{taken / floor:8.1f}")
        goal = 1.0 if few else GOAL
        what = f"{title}, {images}"
        record(Figure(what, us, "us an event", record_us, "record by record", goal, goal_of_ratio=few, less=True))


def main() -> None:
    events = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    print(f"{'format':28}{'images':14}{'bytes':>6}{'us/event':>10}{'by record':>10}{'ratio':>7}{'x scan':>8}")
    changes = list(shop(events))
    for stream, made in (("", list(orders(events))), (", shop", changes), (", 200 tables", list(sharded(changes)))):
        for title, write in CASES.items():
            written = (json.dumps(write(event), ensure_ascii=False, separators=(",", ":")) for event in made)
            measure(title + stream, [text.encode() for text in written], few=stream.endswith("tables"))


if __name__ == "__main__":
    main()
