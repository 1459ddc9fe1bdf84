"""The state that the MySQL source keeps in the checkpoint: the history of table definitions, and requests of users.

A single planner writes the history; records are added before a batch relies on them. Records after the position where a
pipeline resumes belong to a plan that was never used, and are created again.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from penstock.errors import ConfigError
from penstock.ingest.mysql.ddl.history import DefinitionVersion
from penstock.storage.state_folder import StateFolder


@dataclass(frozen=True, slots=True)
class Record:
    """A definition, valid in the binlog of one server."""

    server: str
    version: DefinitionVersion


@dataclass(frozen=True, slots=True)
class Signal:
    """A request to read `tables` again, given as `table` or `database.table`."""

    name: str
    tables: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MySqlState:
    """Two folders of the checkpoint, whose names the pipeline chooses.

    `history` contains files of JSON lines, each written completely and never changed. `snapshot_requests` are signals
    that ask for a new snapshot of tables.
    """

    history: StateFolder
    snapshot_requests: StateFolder

    def records(self) -> list[Record]:
        """Return all stored definitions in the order in which they were stored."""
        found = []
        for name in self._files():
            # splitlines() would also split inside a comment or a label that contains U+2028, U+2029 or U+0085.
            for line in filter(None, self._text(name).split("\n")):
                server, version = json.loads(line)
                found.append(Record(server, DefinitionVersion.from_json(version)))
        return found

    def add(self, server: str, versions: Sequence[DefinitionVersion]) -> None:
        """Store definitions in a new file."""
        if versions:
            lines = [json.dumps([server, version.to_json()], ensure_ascii=False) for version in versions]
            names = self._files()
            number = int(names[-1].partition(".")[0]) + 1 if names else 1
            self.history.write(f"{number:012}.json", "\n".join(lines).encode())

    def signals(self) -> list[Signal]:
        """Return the requests of users that are still stored."""
        found = ((name, self.snapshot_requests.read(name)) for name in self.snapshot_requests.names())
        return [Signal(name, tuple(json.loads(content)["tables"])) for name, content in found if content is not None]

    def forget(self, signal: str) -> None:
        """Delete a request."""
        self.snapshot_requests.delete(signal)

    def _text(self, name: str) -> str:
        content = self.history.read(name)
        if content is None:
            raise ConfigError(
                "a file of the schema history was deleted while it was read",
                file=f"{self.history.location}/{name}",
                hint="restore the checkpoint, or start the pipeline with a new one",
            )
        return content.decode()

    def _files(self) -> list[str]:
        return [name for name in self.history.names() if name.endswith(".json")]
