"""State of the MySQL source in the checkpoint folder: the history of table definitions, and signals from users.

A single planner writes the history; records are added before a batch relies on them. Records after the position where a
pipeline resumes belong to a plan that was never used, and are created again.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from pyarrow import fs

from penstock.ingest.files.ledger import file_system
from penstock.ingest.mysql.ddl.history import Version

HISTORY, SIGNALS = "mysql/history", "signals"
ASKED = "snapshot-"  # prefix of signals that request a new snapshot of tables


@dataclass(frozen=True, slots=True)
class Record:
    """A definition, valid in the binlog of one server."""

    server: str
    version: Version


@dataclass(frozen=True, slots=True)
class Signal:
    """A request to read `tables` again, given as `table` or `database.table`."""

    name: str
    tables: tuple[str, ...]


class State:
    """Files of JSON lines, each written completely and never changed."""

    def __init__(self, location: str) -> None:
        self._store, self._folder = file_system(location)

    def records(self) -> list[Record]:
        """Return all stored definitions in the order in which they were stored."""
        found = []
        for name in self._names(HISTORY):
            # splitlines() would also split inside a comment or a label that contains U+2028, U+2029 or U+0085.
            for line in filter(None, self._content(f"{HISTORY}/{name}").split("\n")):
                server, version = json.loads(line)
                found.append(Record(server, Version.from_json(version)))
        return found

    def add(self, server: str, versions: Sequence[Version]) -> None:
        """Store definitions in a new file."""
        if versions:
            lines = [json.dumps([server, version.to_json()], ensure_ascii=False) for version in versions]
            names = self._names(HISTORY)
            number = int(names[-1].partition(".")[0]) + 1 if names else 1
            self._write(HISTORY, f"{number:012}.json", "\n".join(lines))

    def signals(self) -> list[Signal]:
        """Return the requests of users that are still stored."""
        names = [name for name in self._names(SIGNALS) if name.startswith(ASKED)]
        return [Signal(name, tuple(json.loads(self._content(f"{SIGNALS}/{name}"))["tables"])) for name in names]

    def forget(self, signal: str) -> None:
        """Delete a signal."""
        self._store.delete_file(f"{self._folder}/{SIGNALS}/{signal}")

    def _names(self, kind: str) -> list[str]:
        selector = fs.FileSelector(f"{self._folder}/{kind}", allow_not_found=True)
        names = (info.base_name for info in self._store.get_file_info(selector))
        return sorted(name for name in names if name.endswith(".json") and not name.startswith("."))

    def _content(self, name: str) -> str:
        with self._store.open_input_stream(f"{self._folder}/{name}") as stream:
            text: str = stream.read().decode("utf-8")
        return text

    def _write(self, kind: str, name: str, text: str) -> None:
        self._store.create_dir(f"{self._folder}/{kind}", recursive=True)
        half = f"{self._folder}/{kind}/.{name}"
        with self._store.open_output_stream(half) as out:
            out.write(text.encode("utf-8"))
        self._store.move(half, f"{self._folder}/{kind}/{name}")
