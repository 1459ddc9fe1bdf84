"""The message samples under tests/data with the tables they are expected to make (their README tells the form)."""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np

from penstock.table.handle import Table
from penstock.table.schema.type_text import read_type
from penstock.table.values.types import AtomicType, DataType, Field

ROOT = Path(__file__).resolve().parent / "data" / "cdc-samples"


@dataclass(frozen=True)
class Step:
    feed: list[tuple[str, list[bytes]]]  # topic and messages
    tables: dict[str, Any]


@dataclass(frozen=True)
class Sample:
    id: str
    action: str
    format: str
    arguments: list[str]
    steps: list[Step]


def samples() -> list[Sample]:
    return [_sample(path) for path in sorted(ROOT.glob("*/*/expected.json"))]


def _sample(path: Path) -> Sample:
    case = json.loads(path.read_text())
    steps = [
        Step([(feed["topic"], messages(path.parent / feed["file"])) for feed in step["feed"]], step["expect"]["tables"])
        for step in case["steps"]
    ]
    return Sample(case["id"], case["action"], case["value.format"], case["args"], steps)


def messages(path: Path) -> list[bytes]:
    """The lines that parse as JSON; the others are the notice."""
    found = []
    for line in path.read_bytes().splitlines():
        try:
            json.loads(line)
        except ValueError:
            continue
        found.append(line)
    return found


def check(table: Table, expected: dict[str, Any], topic: str) -> None:
    columns = [(field.name, field.type) for field in table.definition.fields]
    assert columns == [(column["name"], read_type(column["type"])) for column in expected["schema"]]
    assert sorted(table.primary_keys) == sorted(expected["primary_keys"])
    assert sorted(table.partition_keys) == sorted(expected["partition_keys"])
    rows = table.scan().to_arrow().to_pylist()
    left = list(rows)
    for wanted in expected["rows"]:
        match = next((row for row in left if fits(row, wanted, table.definition.fields, topic)), None)
        assert match is not None, f"{wanted} is not among {left}"
        left.remove(match)
    assert not left


def fits(row: dict[str, Any], wanted: Sequence[Any], fields: Sequence[Field], topic: str) -> bool:
    pairs = zip(fields, row.values(), wanted, strict=True)
    return all(same(value, other, field.type, topic) for field, value, other in pairs)


def same(value: Any, wanted: Any, type_: DataType, topic: str) -> bool:
    if isinstance(wanted, dict):
        return free(value, wanted, type_, topic)
    if value is None or wanted is None:
        return value is wanted
    match value:
        case float() if isinstance(type_, AtomicType) and type_.root == "FLOAT":
            return bool(np.float32(value) == np.float32(wanted))
        case Decimal():
            return format(value, "f") == wanted
        case dt.datetime():
            return stamp(value, type_) == wanted
        case dt.date() | dt.time():
            return str(value) == wanted
    return bool(value == wanted)


def stamp(value: dt.datetime, type_: DataType) -> str:
    digits = type_.precision if isinstance(type_, AtomicType) else 0
    text = value.strftime("%Y-%m-%d %H:%M:%S")
    return f"{text}.{value.microsecond:06d}"[: len(text) + 1 + digits] if digits else text


def free(value: Any, wanted: dict[str, Any], type_: DataType, topic: str) -> bool:
    match wanted:
        case {"$hex": text}:
            return bool(value == bytes.fromhex(text))
        case {"$text": text}:
            return bool(value == text.encode())
        case {"$any": options}:
            return any(same(value, option, type_, topic) for option in options)
        case {"$regex": pattern}:
            return re.fullmatch(pattern, str(value)) is not None
        case {"$topic": _}:
            return bool(value == topic)
        case {"$now": _}:
            return isinstance(value, dt.datetime) and abs(dt.datetime.now() - value.replace(tzinfo=None)).days < 1
        case {"$today": _}:
            return value is not None
    raise AssertionError(f"no such free value: {wanted}")
