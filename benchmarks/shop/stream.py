"""The change stream of a small web shop, as canal sends it: the same for the same seed.

    python -m benchmarks.shop.stream FOLDER EVENTS [TABLE...]    part-0.jsonl to part-3.jsonl

60 % inserts, 30 % updates, 10 % deletes. Updates fall on keys by rank with weight 1/rank, the newest first; one insert
in fifty brings a deleted key back. A key's changes are all in one part.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from zlib import crc32

import msgspec
import numpy as np

from benchmarks.shop.columns import EPOCH_MILLIS, MILLIS_AN_EVENT, TABLES, ShopTable, mixed

DATABASE = "shop"
PARTS = 4
CHUNK = 65_536
INSERTS, UPDATES = 60, 90
Row = dict[str, str | None]


@dataclass(slots=True)
class Shelf:
    """The rows of one table as the stream has them now."""

    table: ShopTable
    rows: dict[int, Row] = field(default_factory=dict)
    alive: list[int] = field(default_factory=list)
    gone: list[int] = field(default_factory=list)
    last_id: int = 0

    def insert(self, row: Row, draw: int) -> tuple[int, Row]:
        if self.gone and draw % 50 == 0:
            key = self.gone.pop()
        else:
            key = self.last_id = self.last_id + 1
        self.rows[key] = {"id": str(key), **row}
        self.alive.append(key)
        return key, self.rows[key]

    def update(self, row: Row, where: float, draw: int) -> tuple[int, Row, Row]:
        key = self.alive[-int(len(self.alive) ** where)]
        before = self.rows[key]
        touched = self.table.touched[draw % len(self.table.touched)]
        old = {name: before[name] for name in touched if before[name] != row[name]}
        self.rows[key] = before | {name: row[name] for name in touched}
        return key, self.rows[key], old

    def delete(self, where: float) -> tuple[int, Row]:
        place = int(len(self.alive) * where)
        key, last = self.alive[place], self.alive.pop()
        if last != key:
            self.alive[place] = last
        self.gone.append(key)
        return key, self.rows.pop(key)


@dataclass(frozen=True, slots=True)
class Change:
    table: str
    key: int
    message: bytes

    @property
    def routing_key(self) -> bytes:
        return f"{self.table}:{self.key}".encode()

    @property
    def part(self) -> int:
        return crc32(self.routing_key) % PARTS


def changes(events: int, tables: Sequence[str] = tuple(TABLES), seed: int = 7) -> Iterator[Change]:
    shelves = [Shelf(TABLES[name]) for name in tables]
    shares = np.cumsum([shelf.table.share for shelf in shelves])
    for start in range(0, events, CHUNK):
        numbers = np.arange(start, min(events, start + CHUNK), dtype=np.uint64)
        whose = np.searchsorted(shares, (mixed(seed, 1, numbers) % np.uint64(shares[-1])).astype(int), side="right")
        rows = [fresh_rows(shelf.table, seed, numbers[whose == place]) for place, shelf in enumerate(shelves)]
        kinds = (mixed(seed, 2, numbers) % np.uint64(100)).tolist()
        wheres = ((mixed(seed, 3, numbers) >> np.uint64(11)) / float(1 << 53)).tolist()
        draws = (mixed(seed, 4, numbers) >> np.uint64(20)).tolist()
        for place, kind, where, draw, number in zip(
            whose.tolist(), kinds, wheres, draws, numbers.tolist(), strict=True
        ):
            yield change(shelves[place], next(rows[place]), kind, where, draw, number)


def fresh_rows(table: ShopTable, seed: int, numbers: np.ndarray) -> Iterator[Row]:
    names = [column.name for column in table.columns]
    columns = [column.texts(seed, table.name, numbers) for column in table.columns]
    for values in zip(*columns, strict=True):
        yield dict(zip(names, values, strict=True))


def change(shelf: Shelf, row: Row, kind: int, where: float, draw: int, number: int) -> Change:
    old = None
    if kind < INSERTS or len(shelf.alive) < 100:
        (key, now), type_ = shelf.insert(row, draw), "INSERT"
    elif kind < UPDATES:
        (key, now, old), type_ = shelf.update(row, where, draw), "UPDATE"
    else:
        (key, now), type_ = shelf.delete(where), "DELETE"
    return Change(shelf.table.name, key, canal(shelf.table, number, type_, now, old))


def canal(table: ShopTable, number: int, type_: str, row: Row, old: Row | None) -> bytes:
    moment = EPOCH_MILLIS + number * MILLIS_AN_EVENT
    return msgspec.json.encode(
        {
            "data": [row],
            "database": DATABASE,
            "es": moment,
            "gtid": "",
            "id": number,
            "isDdl": False,
            "mysqlType": table.mysql_types,
            "old": None if old is None else [old],
            "pkNames": ["id"],
            "sql": "",
            "sqlType": {"id": -5} | {column.name: column.sql_type for column in table.columns},
            "table": table.name,
            "ts": moment + 200,
            "type": type_,
        }
    )


def write(folder: Path, events: int, tables: Sequence[str] = tuple(TABLES), seed: int = 7) -> list[Path]:
    """The stream as one file of JSON lines for each part; what is there already is kept."""
    paths = [folder / f"part-{part}.jsonl" for part in range(PARTS)]
    if not all(path.exists() for path in paths):
        folder.mkdir(parents=True, exist_ok=True)
        unfinished = [path.with_suffix(".unfinished") for path in paths]
        files = [path.open("wb") for path in unfinished]
        for made in changes(events, tables, seed):
            files[made.part].write(made.message + b"\n")
        for file, path, whole in zip(files, unfinished, paths, strict=True):
            file.close()
            path.rename(whole)
    return paths


if __name__ == "__main__":
    for written in write(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:] or tuple(TABLES)):
        print(written, written.stat().st_size)
