"""The pipeline's own state beside Spark's offsets in the checkpoint: older checkpoints that this one may continue."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from penstock.pipelines.mapping.target_tables import Warehouse

FOLLOWS = "penstock-follows.json"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint folder, accessed through the warehouse's stores; Spark accesses the same folder through Hadoop's."""

    place: Warehouse

    @property
    def is_new(self) -> bool:
        """True if no batch was ever planned with this checkpoint."""
        storage, root = self.place.storage()
        return not any(entry.name.isdigit() for entry in storage.list(f"{root.rstrip('/')}/offsets"))

    def follows(self) -> frozenset[str]:
        """Return the commit users of older checkpoints whose tables this one may continue to write."""
        storage, _ = self.place.storage()
        return frozenset(json.loads(storage.read(self._file))) if storage.exists(self._file) else frozenset()

    def follow(self, users: Iterable[str]) -> frozenset[str]:
        """Add commit users to continue. Written to the checkpoint, so a restart knows them too."""
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
