"""A row gives the same cells by the snapshot and by the log, whatever its types, its character sets and the zones."""

from __future__ import annotations

import random

import pytest

from penstock.ingest.mysql.binlog.options import BinlogOptions
from penstock.ingest.mysql.snapshot.read import SnapshotOptions
from penstock.ingest.mysql.values.rules import ValueRules
from tests.integration.mysql.literals import MARIADB_TYPES, MYSQL_TYPES
from tests.integration.mysql.playground import Playground, insertions

RULES = [ValueRules(), ValueRules(zero_date="text", time="text")]


def random_table(server: Playground, dice: random.Random, rows: int) -> None:
    """A table of every type in random order, some columns NOT NULL, and rows with every kind of literal."""
    types = list((MARIADB_TYPES if server.is_mariadb else MYSQL_TYPES).items())
    dice.shuffle(types)
    required = [dice.random() < 0.3 and "NULL" not in name and "GEOM" not in name for name, _ in types]
    columns = ", ".join(
        f"c{place} {name}{' NOT NULL' if needed else ''}"
        for place, ((name, _), needed) in enumerate(zip(types, required, strict=True))
    )
    server.run(f"CREATE TABLE t (id INT PRIMARY KEY, {columns}) CHARACTER SET utf8mb4")
    null_share = dice.choice([0, 0.2, 0.9])
    for row in range(rows):
        values = ", ".join(
            "NULL" if not needed and dice.random() < null_share else draw(dice)
            for (_, draw), needed in zip(types, required, strict=True)
        )
        server.run(f"INSERT IGNORE INTO t VALUES ({row}, {values})")


@pytest.mark.parametrize("zone", ["+00:00", "+08:00", "America/New_York"])
@pytest.mark.parametrize("seed", [1, 2])
def test_every_cell_is_equal_in_snapshot_and_binlog(server: Playground, zone: str, seed: int) -> None:
    if "/" in zone:
        server.load_zone(zone)
    server.run(f"SET time_zone = '{zone}'")
    start = server.here()
    random_table(server, random.Random(f"{zone} {seed}"), rows=40)
    for rules in RULES:
        options = BinlogOptions(rules=rules, definitions=server.definitions("t"))
        logged = insertions(server.log_since(start, options), "t").sort_by("id")
        read = server.snapshot("t", SnapshotOptions(rules)).sort_by("id")
        assert len(read) == 40
        assert read.column_names == logged.column_names
        different = [
            (name, server.declared("t", name), mine.type, theirs.type, pairs[:3])
            for name, mine, theirs in zip(read.column_names, read.columns, logged.columns, strict=True)
            if (pairs := [pair for pair in zip(mine.to_pylist(), theirs.to_pylist(), strict=True) if not same(*pair)])
            or mine.type != theirs.type
        ]
        assert different == []


def same(item: object, other: object) -> bool:
    """Equal to the bit: a zero's sign counts."""
    return repr(item) == repr(other)
