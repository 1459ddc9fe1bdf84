"""Cluster times: the places of changes in the log of a replica set or a sharded cluster."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from bson.timestamp import Timestamp

# Seconds since 1970 in the upper half, a number within the second in the lower one: as in BSON, and comparable.
ClusterTime: TypeAlias = int


def time_of(value: Timestamp) -> ClusterTime:
    return int(value.time) << 32 | int(value.inc)


def timestamp_of(time: ClusterTime) -> Timestamp:
    from bson.timestamp import Timestamp

    return Timestamp(time >> 32, time & 0xFFFFFFFF)


def time_json(time: ClusterTime) -> str:
    """Return the time as it is in offsets: `1795370576:522`."""
    return f"{time >> 32}:{time & 0xFFFFFFFF}"


def time_from(value: str) -> ClusterTime:
    seconds, _, number = value.partition(":")
    return int(seconds) << 32 | int(number)


def time_text(time: ClusterTime) -> str:
    """Return the time for people: the moment, and both numbers as the server writes them."""
    seconds, number = time >> 32, time & 0xFFFFFFFF
    moment = dt.datetime.fromtimestamp(seconds, dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return f"{moment} Timestamp({seconds}, {number})"


def time_of_token(data: str) -> ClusterTime | None:
    """Return the time in a resume token, None if the token does not have the form of MongoDB 4.0.7 and later."""
    # The first byte is the type of a timestamp in the server's key strings; big-endian numbers follow.
    if len(data) < 18 or not data.startswith("82"):
        return None
    try:
        return int(data[2:18], 16)
    except ValueError:
        return None
