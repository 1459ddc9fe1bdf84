"""Time zones for a server that came without its zone tables."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from zoneinfo import ZoneInfo

_FIRST, _LAST = dt.datetime(1970, 1, 2, tzinfo=dt.UTC), dt.datetime(2037, 12, 31, tzinfo=dt.UTC)


def zone_statements(name: str) -> Iterator[str]:
    """INSERTs into mysql.time_zone* with every change of the offset between 1970 and 2037, found by looking."""
    zone = ZoneInfo(name)
    kinds: dict[tuple[int, bool, str], int] = {}
    changes: list[tuple[int, int]] = []
    at, known = _FIRST, None
    while at < _LAST:
        local = at.astimezone(zone)
        state = (_seconds(local.utcoffset()), bool(local.dst()), local.tzname() or "")
        number = kinds.setdefault(state, len(kinds))
        if state != known:
            changes.append((int(at.timestamp()), number))
            known = state
        at += dt.timedelta(hours=1)
    zone_id = 9000 + sum(map(ord, name)) % 900
    yield "SET SESSION sql_log_bin = 0"
    yield f"INSERT INTO mysql.time_zone VALUES ({zone_id}, 'N')"
    yield f"INSERT INTO mysql.time_zone_name VALUES ('{name}', {zone_id})"
    for (offset, is_dst, short), number in kinds.items():
        row = f"({zone_id}, {number}, {offset}, {is_dst:d}, '{short}')"
        yield f"INSERT INTO mysql.time_zone_transition_type VALUES {row}"
    for seconds, number in changes:
        yield f"INSERT INTO mysql.time_zone_transition VALUES ({zone_id}, {seconds}, {number})"
    yield "SET SESSION sql_log_bin = 1"


def _seconds(offset: dt.timedelta | None) -> int:
    return int((offset or dt.timedelta()).total_seconds())
