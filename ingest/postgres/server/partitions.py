"""Partitions whose rows the log lacks: attached or detached between two plans, or unlogged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from penstock.ingest.postgres.server.catalog import PART_LINK

if TYPE_CHECKING:
    from penstock.ingest.postgres.server.catalog import PgTableFacts
    from penstock.ingest.postgres.server.connection import PgConnection


def moved_partitions(connection: PgConnection, before: Sequence[int], now: PgTableFacts) -> tuple[bool, bool]:
    """Return whether partitions were attached, perhaps with rows, and whether some were detached or dropped.

    `before` are the `parts` of an earlier plan. A partition that was made as one was empty then, and its rows are in
    the log: the same statement has made it a table, its columns and a partition, while ATTACH PARTITION changes all
    columns. Numbers of tables grow, so one that is higher than all before belongs to a table that is new.
    """
    if not before or tuple(before) == now.parts:
        return False, False
    highest, count, total, *links = before  # offsets of an older release lack the last number
    rows = connection.rows(
        "SELECT c.oid, i.xmin <> y.xmin OR NOT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND "
        f"a.attnum > 0 AND a.xmin = y.xmin AND a.cmin = y.cmin), {PART_LINK} FROM pg_partition_tree("
        f"{now.oid}) t JOIN pg_class c ON c.oid = t.relid JOIN pg_inherits i ON i.inhrelid = c.oid "
        "JOIN pg_type y ON y.oid = c.reltype WHERE t.level > 0"
    )
    found = {int(str(oid)): attached == "t" for oid, attached, _ in rows}
    known = {int(str(oid)): int(str(link)) for oid, _, link in rows if int(str(oid)) <= highest}
    are_others = len(known) != count or sum(known) != total
    # The log lacks what happened to a partition while it was detached.
    are_others |= bool(links) and len(known) == count and sum(known.values()) != links[0]
    is_attached = any(attached for oid, attached in found.items() if oid > highest or are_others)
    return is_attached, len(known) < count or (len(known) == count and are_others)


def parts_without_log(connection: PgConnection, tables: Sequence[PgTableFacts]) -> list[tuple[str, str, bool]]:
    """Return the partitions of these tables that are UNLOGGED or foreign: table, partition, and whether it is foreign.

    A publication may have their table all the same.
    """
    roots = ", ".join(str(table.oid) for table in tables if table.kind == "p")
    if not roots:
        return []
    rows = connection.rows(
        "SELECT r.oid::regclass, p.oid::regclass, p.relkind = 'f' FROM pg_class r CROSS JOIN LATERAL "
        "pg_partition_tree(r.oid) t JOIN pg_class p ON p.oid = t.relid WHERE t.isleaf AND "
        f"(p.relkind = 'f' OR p.relpersistence = 'u') AND r.oid IN ({roots}) ORDER BY 1, 2"
    )
    return [(str(table), str(part), foreign == "t") for table, part, foreign in rows]
