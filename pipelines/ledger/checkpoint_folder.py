"""What a pipeline keeps of its own beside Spark's offsets: which older checkpoints this one may follow."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from penstock.pipelines.mapping.target_tables import Warehouse

FOLLOWS = "penstock-follows.json"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A folder in the sense of the warehouse's stores; Spark reaches the same place through Hadoop's."""

    place: Warehouse

    @property
    def is_new(self) -> bool:
        """Whether no batch was ever planned with it."""
        storage, root = self.place.storage()
        return not any(entry.name.isdigit() for entry in storage.list(f"{root.rstrip('/')}/offsets"))

    def follows(self) -> frozenset[str]:
        """The commit users of older checkpoints whose tables this one was allowed to go on with."""
        storage, _ = self.place.storage()
        return frozenset(json.loads(storage.read(self._file))) if storage.exists(self._file) else frozenset()

    def follow(self, users: Iterable[str]) -> frozenset[str]:
        """Allow more of them; known after a restart too."""
        known = self.follows()
        wanted = known | frozenset(users)
        if wanted != known:
            storage, root = self.place.storage()
            storage.mkdirs(root)
            storage.write(self._file, json.dumps(sorted(wanted)).encode())
        return wanted

    @property
    def _file(self) -> str:
        _, root = self.place.storage()
        return f"{root.rstrip('/')}/{FOLLOWS}"
