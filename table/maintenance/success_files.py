"""Small files that tell the world that something is complete: a partition, a tag."""

from __future__ import annotations

import json
from dataclasses import dataclass

from penstock.table.meta.store import TableStore
from penstock.table.schema.json_file import pretty_json


@dataclass(frozen=True, slots=True)
class SuccessFile:
    """Both times in epoch milliseconds."""

    created: int
    changed: int


def read_success(store: TableStore, path: str) -> SuccessFile | None:
    """None when there is none, or one that is torn."""
    try:
        found = json.loads(store.storage.read(path))
        return SuccessFile(int(found["creationTime"]), int(found["modificationTime"]))
    except (FileNotFoundError, KeyError, TypeError, ValueError):
        return None


def write_success(store: TableStore, path: str) -> None:
    """Written again, it keeps when it was made first."""
    now, made = store.ambient.now_millis(), read_success(store, path)
    times = {"creationTime": made.created if made is not None else now, "modificationTime": now}
    store.storage.write(path, pretty_json(times))
