"""The checkpoint folder: the only code that knows the names of its files.

offsets/N, commits/N, metadata   Spark's: the end of a planned batch, a finished batch, the query's id
status.json                      the state of the driver; a second driver sees there that one is running
sent-failure.json                the failure that was sent to the webhook last
signals/paused, signals/stop     requests of users; paused as long as the file exists, stop until it was obeyed
signals/snapshot-MILLIS.json     a request to read tables again, until the source has planned it
parked/tables.json, parked/N.json  the parked tables, and the batches that they lack
penstock-tables.json             the tables that the pipeline filled
penstock-follows.json            older checkpoints that this one may continue
replay.json                      a replay of dead letters that has not ended
files/N.json                     which files a batch consists of (source of files)
mysql/history/N.json             definitions of source tables (source MySQL)
sources/KIND/                    what a source of any other kind keeps
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.ingest.database.settings import REQUESTED_AGAIN
from penstock.pipelines.ledger.batch_logs import BatchLogs, numbered
from penstock.storage.state_folder import StateFolder

STATUS, SENT_FAILURE = "status.json", "sent-failure.json"
REPLAY = "replay.json"
SIGNALS = "signals"
PAUSED, STOP, SNAPSHOT_REQUEST = "paused", "stop", "snapshot-"
PARKED, PARKED_TABLES = "parked", "tables.json"
FILLED_TABLES = "penstock-tables.json"
FOLLOWS = "penstock-follows.json"
# The folders of the first two kinds are older than the rule. Under other names, their state would seem to be lost.
_SOURCES = {"files": "files", "mysql": "mysql/history"}  # other kinds: sources/KIND


# What to do when a file is damaged.
_WRITTEN_AGAIN = "delete the file; the next run writes it again"
_REPLAYED = (
    "restore the file from a backup of the checkpoint, or delete it: if tables have rows of the replay that was"
    " interrupted, the next one writes them again"
)
_FOLLOWED = (
    "delete the file, and run once with  --accept-replay : it continues at the position of the checkpoint.  If that has"
    " no batch yet, run with the flag that it was begun with"
)
_ACCEPTED = (
    "restore the file from a backup of the checkpoint, or delete it: the tables are then accepted as they are, and"
    " penstock verify  compares them with their source"
)
_CATCHES_UP = (
    "restore the file from a backup of the checkpoint: it records the batches that parked tables lack. Without it,  "
    "--checkpoint NEW --from earliest --accept-replay  reads again all that the source still has"
)


@dataclass(frozen=True, slots=True)
class Signals:
    paused: bool = False
    stop: bool = False
    snapshots: tuple[tuple[str, tuple[str, ...], str], ...] = ()  # file name, tables, condition


class CheckpointFolder:
    """A checkpoint on a plain path or a URL, with the options of the warehouse's store.

    Spark writes the same folder through Hadoop, or a local copy of one in an object store. A folder that does not exist
    reads as empty.
    """

    def __init__(self, location: str, options: Mapping[str, str] | None = None) -> None:
        self.location = location
        self._folder = StateFolder.of(location, options)

    @property
    def exists(self) -> bool:
        return self._folder.exists

    def probe(self) -> None:
        """Write and delete a file. Raise OSError if that is not possible."""
        self._folder.probe()

    @property
    def batches(self) -> BatchLogs:
        """Return the logs of planned and finished batches."""
        return BatchLogs(self._folder)

    # the driver's status, and signals for it -------------------------------------------------------------------

    def status(self) -> dict[str, Any] | None:
        return self._facts(STATUS, _WRITTEN_AGAIN)

    def put_status(self, facts: dict[str, Any]) -> None:
        """Replace the status. A reader sees the whole new status or the previous one."""
        self._folder.write(STATUS, _compact(facts))

    def sent_failure(self) -> dict[str, Any] | None:
        return self._facts(SENT_FAILURE, _WRITTEN_AGAIN)

    def put_sent_failure(self, facts: Mapping[str, Any]) -> None:
        self._folder.write(SENT_FAILURE, _compact(facts))

    def signals(self) -> Signals:
        folder = self._folder.below(SIGNALS)
        names = folder.names()
        requests = [
            (name, folder.read_json(name, REQUESTED_AGAIN)) for name in names if name.startswith(SNAPSHOT_REQUEST)
        ]
        snapshots = tuple(
            (name, tuple(request["tables"]), str(request.get("where", ""))) for name, request in requests if request
        )
        return Signals(PAUSED in names, STOP in names, snapshots)

    @property
    def has_requests(self) -> bool:
        """Return whether users ask the run to pause, or to read tables again."""
        return any(name == PAUSED or name.startswith(SNAPSHOT_REQUEST) for name in self._folder.below(SIGNALS).names())

    def signal(self, name: str, tables: Sequence[str] = (), where: str = "") -> None:
        content = {"tables": list(tables), **({"where": where} if where else {})}
        self._folder.below(SIGNALS).write(name, json.dumps(content).encode())

    def clear_signal(self, name: str) -> bool:
        """Delete a signal. Return False if it did not exist."""
        return self._folder.below(SIGNALS).delete(name)

    # what sources keep -----------------------------------------------------------------------------------------

    def source_state(self, kind: str) -> StateFolder:
        """Return the folder in which a source of this kind keeps its own files."""
        return self._folder.below(_SOURCES.get(kind, f"sources/{kind}"))

    @property
    def snapshot_requests(self) -> StateFolder:
        """Return the signals that ask the source to read tables again."""
        return self._folder.below(SIGNALS, SNAPSHOT_REQUEST)

    # what the pipeline keeps about its tables ------------------------------------------------------------------

    def follows(self) -> frozenset[str]:
        """Return the commit users of older checkpoints whose tables this one may continue to write."""
        return frozenset(self._folder.read_json(FOLLOWS, _FOLLOWED, list) or ())

    def follow(self, users: Iterable[str]) -> frozenset[str]:
        """Add commit users to continue. They are stored, so a restart knows them too."""
        known = self.follows()
        # Only ever added to: a table may have been written last by any of the older checkpoints.
        wanted = known | frozenset(users)
        if wanted != known:
            self._folder.write(FOLLOWS, json.dumps(sorted(wanted)).encode())
        return wanted

    def filled_tables(self) -> dict[str, Any] | None:
        """Return the record of filled tables, None if the checkpoint has no such record."""
        return self._facts(FILLED_TABLES, _ACCEPTED)

    def put_filled_tables(self, content: Mapping[str, Any]) -> None:
        self._folder.write(FILLED_TABLES, _compact(content))

    def parked(self) -> dict[str, dict[str, Any]]:
        """Return the records of parked tables, by table."""
        records = self._folder.below(PARKED).read_json(PARKED_TABLES, _CATCHES_UP, list)
        return {record["table"]: record for record in records or ()}

    def put_parked(self, records: Sequence[Mapping[str, Any]]) -> None:
        self._folder.write(f"{PARKED}/{PARKED_TABLES}", json.dumps(list(records)).encode())

    def missed_batches(self) -> list[int]:
        """Return the numbers of the batches that parked tables lack, in order."""
        return sorted(numbered(self._folder.below(PARKED), ".json"))

    def missed_batch(self, number: int) -> dict[str, Any] | None:
        content = self._folder.below(PARKED).read_json(f"{number}.json", _CATCHES_UP)
        return None if content is None else dict(content)

    def put_missed_batch(self, number: int, facts: Mapping[str, Any]) -> None:
        self._folder.write(f"{PARKED}/{number}.json", json.dumps(facts).encode())

    def delete_missed_batch(self, number: int) -> None:
        self._folder.delete(f"{PARKED}/{number}.json")

    # what replays of dead letters keep --------------------------------------------------------------------------

    def begun_replay(self) -> dict[str, Any] | None:
        """Return the replay whose letters are not settled; None if all are."""
        return self._facts(REPLAY, _REPLAYED)

    def begin_replay(self, content: Mapping[str, Any]) -> bool:
        """Note a replay. Return False if another one is noted."""
        return self._folder.create(REPLAY, _compact(content))

    def end_replay(self) -> None:
        self._folder.delete(REPLAY)

    def _facts(self, name: str, hint: str) -> dict[str, Any] | None:
        content = self._folder.read_json(name, hint)
        return None if content is None else dict(content)


def _compact(content: Mapping[str, Any]) -> bytes:
    return json.dumps(content, separators=(",", ":")).encode()
