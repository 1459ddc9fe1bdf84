"""Consumers: how far each named reader has come, which keeps snapshots from expiring (table-format 13.7)."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.storage.base import Storage
from penstock.table.schema.json_file import JsonFile, pretty_json
from penstock.table.schema.numbered_files import branch_folder
from penstock.table.values.names import LONGEST_NEW, path_step


@dataclass(frozen=True, slots=True)
class Consumer:
    """`next_snapshot` is the first snapshot not read yet; `modified` is when it last moved, in epoch milliseconds."""

    id: str
    next_snapshot: int
    modified: int = 0


class ConsumerFiles:
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
                next_snapshot = self.next_snapshot(consumer_id)
                if next_snapshot is not None:
                    found.append(Consumer(consumer_id, next_snapshot, entry.modified))
        return found

    def next_snapshot(self, consumer_id: str) -> int | None:
        path = self.path(consumer_id)
        try:
            return JsonFile.parse(self._storage.read(path), path).number("nextSnapshot")
        except FileNotFoundError:
            return None

    def least_next_snapshot(self) -> int | None:
        """Snapshots from here on are still wanted by some reader."""
        return min((consumer.next_snapshot for consumer in self.all()), default=None)

    def put(self, consumer_id: str, next_snapshot: int) -> None:
        path_step(consumer_id, "consumer", longest=LONGEST_NEW, table=self._table)
        self._storage.write(self.path(consumer_id), pretty_json({"nextSnapshot": next_snapshot}))

    def delete(self, consumer_id: str) -> None:
        self._storage.delete(self.path(consumer_id))
