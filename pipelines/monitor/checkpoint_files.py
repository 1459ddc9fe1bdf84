"""What a checkpoint tells beside Spark's own logs: the driver's last word, and the signals that wait for it.

Layout below the checkpoint: `offsets/N` and `commits/N` are Spark's; `status.json` is the driver's; `signals/` holds
`paused` while the pipeline is to pause, `stop` until it is obeyed, and `snapshot-MILLIS.json` until it is taken up.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.ingest.source import Offsets
from penstock.pipelines.ledger.parked_tables import FOLDER, TABLES
from penstock.references import resolve
from penstock.storage.open import open_storage

STATUS = "status.json"
SIGNALS = "signals"
PAUSED, STOP, SNAPSHOT = "paused", "stop", "snapshot-"


@dataclass(frozen=True, slots=True)
class Progress:
    """`planned` is the newest batch Spark has written down, `done` the newest it counts as finished."""

    planned: int | None = None
    done: int | None = None
    offsets: Offsets | None = None  # where the newest finished batch ends


@dataclass(frozen=True, slots=True)
class Signals:
    paused: bool = False
    stop: bool = False
    snapshots: tuple[tuple[str, tuple[str, ...]], ...] = ()  # file name, tables


class CheckpointFolder:
    """Opened on a plain path or a URL, with the options of the warehouse; a folder that is not there reads as empty."""

    def __init__(self, location: str, options: Mapping[str, str] | None = None) -> None:
        self.location = location
        resolved = {name: resolve(value) for name, value in (options or {}).items()}
        self._store, self._root = open_storage(location, resolved)

    @property
    def exists(self) -> bool:
        return bool(self._store.list(self._root))

    def progress(self) -> Progress:
        planned, finished = self._numbers("offsets"), self._numbers("commits")
        if not finished:
            return Progress(max(planned, default=None))
        done = max(finished)
        return Progress(max(planned, default=None), done, self._offsets(done))

    def status(self) -> dict[str, Any] | None:
        content = self._content(STATUS)
        return None if content is None else dict(json.loads(content))

    def parked(self) -> dict[str, dict[str, Any]]:
        """The tables that failed and were set aside, with the batch since which, and why."""
        content = self._content(f"{FOLDER}/{TABLES}")
        return {} if content is None else {one["table"]: one for one in json.loads(content)}

    def put_status(self, facts: dict[str, Any]) -> None:
        """A reader sees a whole one or the one before."""
        self._put(STATUS, json.dumps(facts, separators=(",", ":")))

    def signals(self) -> Signals:
        names = self._names(SIGNALS)
        asked = [(name, tuple(self._tables(name))) for name in sorted(names) if name.startswith(SNAPSHOT)]
        return Signals(PAUSED in names, STOP in names, tuple(asked))

    def signal(self, name: str, tables: Sequence[str] = ()) -> None:
        self._put(f"{SIGNALS}/{name}", json.dumps({"tables": list(tables)}))

    def clear_signal(self, name: str) -> bool:
        """Whether there was one."""
        path = f"{self._root}/{SIGNALS}/{name}"
        if not self._store.exists(path):
            return False
        self._store.delete(path)
        return True

    def probe(self) -> None:
        """Write and delete a file; OSError where that cannot be."""
        self._put(".probe", "")
        self._store.delete(f"{self._root}/.probe")

    def _tables(self, name: str) -> list[str]:
        content = self._content(f"{SIGNALS}/{name}")
        return [] if content is None else list(json.loads(content)["tables"])

    def _offsets(self, number: int) -> Offsets | None:
        content = self._content(f"offsets/{number}")
        if content is None:
            return None
        last = content.decode().rstrip("\n").rpartition("\n")[2]
        return None if last == "-" else dict(json.loads(last))

    def _numbers(self, folder: str) -> list[int]:
        return [int(name) for name in self._names(folder) if name.isdigit()]

    def _names(self, folder: str) -> set[str]:
        return {entry.name for entry in self._store.list(f"{self._root}/{folder}") if not entry.is_dir}

    def _content(self, name: str) -> bytes | None:
        try:
            return self._store.read(f"{self._root}/{name}")
        except FileNotFoundError:
            return None

    def _put(self, name: str, text: str) -> None:
        self._store.write(f"{self._root}/{name}", text.encode())
