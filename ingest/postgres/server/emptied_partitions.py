"""Partitions that were truncated alone: pgoutput sends only a TRUNCATE of the whole partitioned table.

TRUNCATE gives a partition a new file, as VACUUM FULL and CLUSTER do, except in the transaction that made the partition.
Where files or partitions are new, a copy of the slot that decodes with test_decoding shows which were truncated.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.errors import SourceError
from penstock.ingest.postgres.errors import NoFreeSlot
from penstock.ingest.postgres.server.lsn import reachable_end
from penstock.ingest.postgres.server.slot import copied_slot

if TYPE_CHECKING:
    from penstock.ingest.postgres.server.catalog import PgTableFacts
    from penstock.ingest.postgres.server.connection import PgConnection
    from penstock.ingest.postgres.server.table_version import TableVersion

log = logging.getLogger(__name__)
_NO_SLOT = (
    "the server has no free replication slot, so it is not known whether a transaction has made, filled and truncated a"
    " partition, whose rows would stay in the target table; raise max_replication_slots"
)
_PLUGIN = "test_decoding"
_NO_SUCH_FILE = "58P01"
_NAME = re.compile(r'(?:"(?:[^"]|"")*"|[^",])+')
_TRUNCATED = re.compile(r"table (.+): TRUNCATE:[ a-z_()-]*")


@dataclass(frozen=True, slots=True)
class EmptiedPartitions:
    """Partitions that were emptied, by name. If not `is_sure`, they only have new files."""

    names: tuple[str, ...] = ()
    is_sure: bool = True


@dataclass(frozen=True, slots=True)
class _Leaf:
    oid: int
    name: str
    file: int
    is_rewritten: bool


def emptied_partitions(
    connection: PgConnection, slot: str, before: TableVersion, now: PgTableFacts
) -> EmptiedPartitions:
    """Return the partitions of a table that were truncated since a version."""
    if not before.parts or before.files in {0, now.files}:
        return EmptiedPartitions()
    root, leaves, others = _tree(connection, now)
    highest = before.parts[0]
    # The transaction that made a leaf may have filled and truncated it, and its file shows nothing of that.
    has_new = any(leaf.oid > highest for leaf in leaves)
    if not has_new and sum(leaf.file for leaf in leaves if leaf.oid <= highest) == before.files:
        return EmptiedPartitions()
    try:
        truncated = _truncated(connection, slot, root)
    except NoFreeSlot:
        if any(leaf.is_rewritten for leaf in leaves):
            raise
        log.warning("event=new_partitions_not_examined table=%s note=%s", root, _NO_SLOT)
        return EmptiedPartitions()
    if truncated is None:
        return EmptiedPartitions(tuple(leaf.name for leaf in leaves if leaf.is_rewritten), is_sure=False)
    names = {*others, *(leaf.name for leaf in leaves)}
    emptied = names & truncated
    # The log has the name that a table had then. One that nothing has now may be that of a partition with a new file.
    if _has_former(connection, truncated - names):
        emptied |= {leaf.name for leaf in leaves if leaf.is_rewritten}
    return EmptiedPartitions(tuple(sorted(emptied)))


def _tree(connection: PgConnection, table: PgTableFacts) -> tuple[str, list[_Leaf], list[str]]:
    """Return the name of the table, its partitions with rows, and the names of partitions that have partitions."""
    leaves, others = list[_Leaf](), list[str]()
    for oid, name, is_leaf, file, is_rewritten in connection.rows(
        "SELECT c.oid, quote_ident(n.nspname) || '.' || quote_ident(c.relname), t.isleaf, "
        "hashint8(c.relfilenode::int8), c.relfilenode <> c.oid "
        f"FROM pg_partition_tree({table.oid}) t JOIN pg_class c ON c.oid = t.relid "
        "JOIN pg_namespace n ON n.oid = c.relnamespace ORDER BY t.level, 2"
    ):
        if is_leaf == "t":
            leaves.append(_Leaf(int(str(oid)), str(name), int(str(file)), is_rewritten == "t"))
        else:
            others.append(str(name))
    return others[0] if others else "", leaves, others[1:]


def _has_former(connection: PgConnection, names: Collection[str]) -> bool:
    """Return whether no table has one of these names any more."""
    if not names:
        return False
    written = ", ".join(f"({connection.literal(name)})" for name in sorted(names))
    return bool(connection.rows(f"SELECT FROM (VALUES {written}) v(name) WHERE to_regclass(v.name) IS NULL LIMIT 1"))


def _truncated(connection: PgConnection, slot: str, root: str) -> set[str] | None:
    """Return the tables that were truncated without `root`, as far as the slot keeps the log.

    None if the server lacks the module that shows them.
    """
    reachable_end(connection)  # otherwise the log may end before the changes that the catalog shows
    try:
        copy = connection.literal(copied_slot(connection, slot, _PLUGIN))
    except SourceError as error:
        if error.facts.get("sqlstate") == _NO_SUCH_FILE:
            return None
        raise
    try:
        rows = connection.rows(
            f"SELECT data FROM pg_logical_slot_peek_changes({copy}, NULL, NULL, 'skip-empty-xacts', '1') "
            "WHERE data LIKE 'table %: TRUNCATE:%'"
        )
    finally:
        connection.rows(f"SELECT pg_drop_replication_slot({copy})")
    found = [_TRUNCATED.fullmatch(str(data)) for (data,) in rows]
    groups = [{name.strip() for name in _NAME.findall(match[1])} for match in found if match is not None]
    return set[str]().union(*(tables for tables in groups if root not in tables))
