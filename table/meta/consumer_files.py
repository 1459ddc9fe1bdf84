"""Consumers: the read positions of named readers. Snapshots that a consumer has yet to read do not expire."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from penstock.storage.base import Storage
from penstock.table.schema.json_file import JsonFile, pretty_json
from penstock.table.schema.numbered_files import branch_folder
from penstock.table.values.names import LONGEST_NEW, path_step

_MARK = "penstockMark"  # Java and pypaimon ignore members that they do not know


class Position(NamedTuple):
    """The first snapshot that a reader has not read, and the mark of the one before it (0: not known)."""

    next_snapshot: int
    mark: int = 0


@dataclass(frozen=True, slots=True)
class Consumer:
    """A named reader's position.

    `next_snapshot` is the first snapshot that it has not read; `modified` is when the position last changed, in epoch
    milliseconds.
    """

    id: str
    next_snapshot: int
    modified: int = 0


class ConsumerFiles:
    """The consumer files of a table or branch."""

    def __init__(self, storage: Storage, table_path: str, branch: str | None = None) -> None:
        self._storage = storage
        self._table = table_path
        self._folder = f"{branch_folder(table_path, branch)}/consumer"

    def path(self, consumer_id: str) -> str:
        return f"{self._folder}/consumer-{path_step(consumer_id, 'consumer', table=self._table)}"

    def all(self) -> list[Consumer]:
        found = []
        for entry in sorted(self._storage.list(self._folder), key=lambda entry: entry.name):
            if entry.name.startswith("consumer-") and not entry.is_dir:
                consumer_id = entry.name.removeprefix("consumer-")
                # None if the consumer was deleted after the listing.
                next_snapshot = self.next_snapshot(consumer_id)
                if next_snapshot is not None:
                    # Each change of the position writes the file, so the time of the file is the time of the change.
                    found.append(Consumer(consumer_id, next_snapshot, entry.modified))
        return found

    def next_snapshot(self, consumer_id: str) -> int | None:
        position = self.position(consumer_id)
        return None if position is None else position.next_snapshot

    def position(self, consumer_id: str) -> Position | None:
        path = self.path(consumer_id)
        try:
            content = JsonFile.parse(self._storage.read(path), path)
        except FileNotFoundError:
            return None
        return Position(content.number("nextSnapshot"), content.number(_MARK, 0))

    def least_next_snapshot(self) -> int | None:
        """Return the first snapshot that some consumer still has to read, or None if there are no consumers."""
        return min((consumer.next_snapshot for consumer in self.all()), default=None)

    def put(self, consumer_id: str, next_snapshot: int, mark: int = 0) -> None:
        path_step(consumer_id, "consumer", longest=LONGEST_NEW, table=self._table)
        content = {"nextSnapshot": next_snapshot, **({_MARK: mark} if mark else {})}
        self._storage.write(self.path(consumer_id), pretty_json(content))

    def delete(self, consumer_id: str) -> None:
        self._storage.delete(self.path(consumer_id))
