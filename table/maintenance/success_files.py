"""Success files: small JSON files that signal to other systems that a partition or a tag is complete."""

from __future__ import annotations

import json
from dataclasses import dataclass

from penstock.table.meta.store import TableStore
from penstock.table.schema.json_file import pretty_json


@dataclass(frozen=True, slots=True)
class SuccessFile:
    """The creation and modification time in a success file, in epoch milliseconds."""

    created: int
    changed: int


def read_success(store: TableStore, path: str) -> SuccessFile | None:
    """Return the times in the success file; None when it does not exist or is incomplete."""
    try:
        found = json.loads(store.storage.read(path))
        return SuccessFile(int(found["creationTime"]), int(found["modificationTime"]))
    except (FileNotFoundError, KeyError, TypeError, ValueError):
        return None


def write_success(store: TableStore, path: str) -> None:
    """Write a success file. An existing one keeps its creation time."""
    now, made = store.ambient.now_millis(), read_success(store, path)
    times = {"creationTime": made.created if made is not None else now, "modificationTime": now}
    store.storage.write(path, pretty_json(times))
