"""A source that can be verified: every row carries its key, its version, and a checksum of both.

The tables alone then prove loss, doubling, mixing and order. `ledger` has no key: a row of it that comes twice is seen.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from zlib import crc32

from penstock.table.handle import Table
from tests.servers.produce import producing

KEYED = ("accounts", "items")
KEYS = 60
TYPES = {"id": "bigint", "version": "bigint", "checksum": "bigint"}


def checksum(table: str, id_: int, version: int) -> int:
    return crc32(f"{table}:{id_}:{version}".encode())


@dataclass
class Source:
    """The changes sent so far, and the rows that tables must have for them. Equal seeds send equal changes."""

    topic: str
    partitions: int
    random: random.Random
    versions: dict[tuple[str, int], int] = field(default_factory=dict)
    live: dict[tuple[str, int], int] = field(default_factory=dict)
    entries: int = 0

    def send(self, properties: dict[str, str], events: int) -> None:
        with producing(properties) as producer:
            for _ in range(events):
                key, message = self._event()
                producer.produce(self.topic, message, partition=key % self.partitions)

    def _event(self) -> tuple[int, str]:
        if self.random.random() < 0.2:
            self.entries += 1
            return self.entries, _message("INSERT", "ledger", self.entries, 0, keyed=False)
        table, key = self.random.choice(KEYED), self.random.randrange(KEYS)
        version = self.versions.get((table, key), 0) + 1
        self.versions[table, key] = version
        if (table, key) in self.live and self.random.random() < 0.2:
            return key, _message("DELETE", table, key, self.live.pop((table, key)))
        kind = "UPDATE" if (table, key) in self.live else "INSERT"
        self.live[table, key] = version
        return key, _message(kind, table, key, version)

    def wrong(self, table: Table) -> Iterator[str]:
        """Yield the missing, extra and outdated rows of a table that should be complete."""
        name = table.name.partition(".")[2]
        rows = table.scan().to_arrow().to_pylist()
        yield from self.impossible(table)
        found = [(row["id"], row["version"]) for row in rows]
        wanted = (
            [(number, 0) for number in range(1, self.entries + 1)]
            if name == "ledger"
            else [(key, version) for (other, key), version in self.live.items() if other == name]
        )
        for row in set(wanted) - set(found):
            yield f"{name} {row} is lost"
        for row in set(found) - set(wanted):
            yield f"{name} {row} is old, or was deleted"
        if len(found) != len(set(found)):
            yield f"{name} has rows twice"

    def impossible(self, table: Table) -> Iterator[str]:
        """Yield the rows that no prefix of the source results in; it can be called at any time."""
        name = table.name.partition(".")[2]
        rows = table.scan().to_arrow().to_pylist()
        for row in rows:
            if row["checksum"] != checksum(name, row["id"], row["version"]):
                yield f"{name} {row} is mixed"
            if name != "ledger" and row["version"] > self.versions.get((name, row["id"]), 0):
                yield f"{name} {row} was never sent"
        if len({row["id"] for row in rows}) != len(rows):
            yield f"{name} has a key twice"


def _message(kind: str, table: str, id_: int, version: int, *, keyed: bool = True) -> str:
    row = {"id": str(id_), "version": str(version), "checksum": str(checksum(table, id_, version))}
    return json.dumps(
        {
            "type": kind,
            "database": "bank",
            "table": table,
            "isDdl": False,
            "pkNames": ["id"] if keyed else None,
            "mysqlType": TYPES,
            "data": [row],
            "old": [{"version": str(version - 1)}] if kind == "UPDATE" else None,
            "es": 1_700_000_000_000,
            "ts": 1_700_000_000_001,
        }
    )
