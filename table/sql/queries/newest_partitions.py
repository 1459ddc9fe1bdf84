"""`sys.max_pt('t')` in queries: the newest partition of a table, as Paimon's function of that name returns it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from penstock.errors import ConfigError
from penstock.table.buckets.layout import Layout
from penstock.table.handle import Table
from penstock.table.values.binary_row import decode_row
from penstock.table.values.partition_text import value_text
from penstock.table.values.sql_text import literal

# Quoted texts and comments come first, so that the function is not found in them.
_CALL = re.compile(
    r"""'(?:[^']|'')*'|--[^\n]*|/\*.*?\*/|\b(?:\w+\.)?sys\.max_pt\s*\(\s*'(?P<table>[^']+)'\s*\)""",
    re.IGNORECASE | re.DOTALL,
)


def newest_partitions(sql: str, value_of: Callable[[str], str | None]) -> str:
    """Return the statement with the value in place of each call."""

    def replaced(found: re.Match[str]) -> str:
        if found["table"] is None:
            return found[0]
        value = value_of(found["table"])
        return "NULL" if value is None else literal(value)

    return _CALL.sub(replaced, sql)


def newest_partition(table: Table) -> str | None:
    """Return the greatest value of the first partition column among partitions with rows, None if there is no row."""
    if not table.partition_keys:
        raise ConfigError(
            "sys.max_pt needs a table with partitions",
            table=table.name,
            hint="use a condition on a column, such as  dt = (SELECT max(dt) FROM t)",
        )
    fields = Layout.of(table.definition).partition_fields
    types = [field.type for field in fields]
    # Of the internal values, because they have the order of the type. A table has few partitions compared with rows.
    found = {split.partition for split in table.scan().plan().splits}
    values: list[Any] = [
        value for value in (decode_row(partition, types)[0] for partition in found) if value is not None
    ]
    return value_text(max(values), types[0]) if values else None
