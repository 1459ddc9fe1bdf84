"""VARIANT values as the JSON they stand for: the open binary encoding of Parquet and Spark, decoded for comparison."""

from __future__ import annotations

import datetime as dt
import json
import struct
from decimal import Decimal
from itertools import pairwise
from typing import Any

EPOCH = dt.datetime(1970, 1, 1)
NUMBERS = {3: "<b", 4: "<h", 5: "<i", 6: "<q", 7: "<d", 14: "<f"}
DECIMALS = {8: 4, 9: 8, 10: 16}


def json_of(value: bytes, metadata: bytes) -> str:
    return json.dumps(decode(value, 0, names_of(metadata)), default=str)


def names_of(metadata: bytes) -> list[str]:
    width = (metadata[0] >> 6) + 1
    count = whole(metadata, 1, width)
    ends = [whole(metadata, 1 + width * (1 + place), width) for place in range(count + 1)]
    start = 1 + width * (count + 2)
    return [metadata[start + a : start + b].decode() for a, b in pairwise(ends)]


def decode(data: bytes, at: int, names: list[str]) -> Any:
    header = data[at] >> 2
    match data[at] & 3:
        case 0:
            return primitive(header, data, at + 1)
        case 1:
            return data[at + 1 : at + 1 + header].decode()
        case 2:
            count, at = counted(data, at + 1, large=bool(header >> 4 & 1))
            id_width, width = (header >> 2 & 3) + 1, (header & 3) + 1
            ids = [whole(data, at + id_width * place, id_width) for place in range(count)]
            values = members(data, at + id_width * count, count, width, names)
            return {names[name]: value for name, value in zip(ids, values, strict=True)}
    count, at = counted(data, at + 1, large=bool(header >> 2 & 1))
    return members(data, at, count, (header & 3) + 1, names)


def members(data: bytes, at: int, count: int, width: int, names: list[str]) -> list[Any]:
    start = at + width * (count + 1)
    return [decode(data, start + whole(data, at + width * place, width), names) for place in range(count)]


def counted(data: bytes, at: int, *, large: bool) -> tuple[int, int]:
    width = 4 if large else 1
    return whole(data, at, width), at + width


def primitive(kind: int, data: bytes, at: int) -> Any:
    if kind in {0, 1, 2}:
        return (None, True, False)[kind]
    if kind in NUMBERS:
        return struct.unpack_from(NUMBERS[kind], data, at)[0]
    if kind in DECIMALS:
        unscaled = int.from_bytes(data[at + 1 : at + 1 + DECIMALS[kind]], "little", signed=True)
        return float(Decimal(unscaled).scaleb(-data[at]))
    if kind == 11:
        return (EPOCH + dt.timedelta(days=struct.unpack_from("<i", data, at)[0])).date()
    if kind in {12, 13}:
        return EPOCH + dt.timedelta(microseconds=struct.unpack_from("<q", data, at)[0])
    size = whole(data, at, 4)
    content = data[at + 4 : at + 4 + size]
    return content.hex() if kind == 15 else content.decode()


def whole(data: bytes, at: int, width: int) -> int:
    return int.from_bytes(data[at : at + width], "little")
