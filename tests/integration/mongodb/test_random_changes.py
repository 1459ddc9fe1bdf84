"""Random changes, inclusions, failed calls and kills: at the end, all tables have the documents of the server.

PENSTOCK_CHAOS_ROUNDS=100 plays that many seeds instead of a few.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from pymongo.database import Database
from pymongo.errors import AutoReconnect, OperationFailure

from penstock.errors import ConfigError, PenstockError
from penstock.ingest.database import reachability
from penstock.ingest.mongodb.config import MongoConfig
from penstock.ingest.mongodb.server import collections
from penstock.pipelines.config.model import PipelineSpec
from penstock.pipelines.ledger.checkpoint_folder import SNAPSHOT_REQUEST, CheckpointFolder
from penstock.storage.local import LocalStorage
from tests.here import note_as_spark_does, run
from tests.integration.failing_calls import Killed
from tests.integration.mongodb.random_changes import COLLECTIONS, RandomChanges, text_of
from tests.integration.mongodb.sync import MongoPlayground, MongoSync
from tests.integration.play_report import history_shown
from tests.without_spark import run_here

pytestmark = pytest.mark.mongodb
SEEDS = range(int(os.environ.get("PENSTOCK_CHAOS_ROUNDS", "8")))
FAILURES = {
    0: "connection closed",
    43: "CursorNotFound",
    237: "CursorKilled",
    260: "InvalidResumeToken",
    286: "ChangeStreamHistoryLost",
}
CALLS = ("command", "list_collections")  # all that the source asks a server goes through them
FILES = ("/checkpoint/", "/checkpoint/", "/snapshot/", "/schema/")  # where the process is killed


class Interruption:
    """Something that happens before or after a call, when `left` calls have been counted down."""

    def __init__(self, left: int, happens: Callable[[], None], *, after: bool) -> None:
        self.left, self.happens, self.after, self.is_happening = left, happens, after, False

    def around(self, function: Callable[..., Any], part: str = "") -> Callable[..., Any]:
        """Return the function such that its calls are counted, those whose first argument contains this part."""

        def counted(*args: Any, **kwargs: Any) -> Any:
            if self.is_happening or (part and part not in args[1]):
                return function(*args, **kwargs)
            self.left -= 1
            is_due = self.left == 0
            if is_due and not self.after:
                self._happen()
            result = function(*args, **kwargs)
            if is_due and self.after:
                self._happen()
            return result

        return counted

    def _happen(self) -> None:
        self.is_happening = True
        try:
            self.happens()
        finally:
            self.is_happening = False


@dataclass
class Play:
    """Random changes on a server, and runs of a pipeline between and beside them."""

    changes: RandomChanges
    folder: Path
    draw: random.Random
    signals: int = 0
    excluded: set[str] = field(default_factory=set)  # collections that a run excluded
    flags: tuple[str, ...] = ()  # of the next run only

    def __post_init__(self) -> None:
        self.included = self.some()
        self.rows = self.draw.choice((None, None, 3, 20))
        self.chunk = self.draw.choice((2, 3, 50))
        self.log_seconds = self.draw.choice((1, 3600, 3600))
        self.as_spark = self.draw.random() < 0.3
        self.tell(f"rows={self.rows} chunk={self.chunk} log={self.log_seconds} spark={self.as_spark}")

    def some(self) -> list[str]:
        return sorted(self.draw.sample(COLLECTIONS, self.draw.randint(1, len(COLLECTIONS))))

    def tell(self, what: str) -> None:
        self.changes.history.append(f"-- {what}")

    def perform(self) -> None:
        for _ in range(self.draw.randint(2, 6)):
            self.changes.act(self.draw.randint(1, 6))
            if self.draw.random() < 0.25:
                self.included = self.some()
            self.ask_to_read_again()
            self.run_with_trouble()
        if not self.changes.names:
            self.changes.insert("t0")
        self.included = list(COLLECTIONS)
        for _ in range(2):  # collections are read again by the batches after the one that finds the need
            self.run()

    def ask_to_read_again(self) -> None:
        way, name = self.draw.random(), self.draw.choice(COLLECTIONS)
        if way < 0.1:
            self.signals += 1
            self.tell(f"signal {name}")
            CheckpointFolder(f"{self.folder}/checkpoint").signal(f"{SNAPSHOT_REQUEST}{self.signals}.json", [name])
        elif way < 0.15:
            self.flags = ("--resnapshot",)
        elif way < 0.25 and name in self.included and self.changes.server.db[name].find_one():
            self.flags = ("--reset", f"ods.{name}")

    def run_with_trouble(self) -> None:
        """Run once, perhaps with a failed call, a kill, or changes at some point."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(reachability, "_PAUSE_S", 0.0)
            troubles = (self.fail_call, self.kill, self.change_meanwhile, lambda _: ())
            expected = self.draw.choice(troubles)(patch)
            try:
                self.run()
            except expected as error:
                self.tell(f"  {error!r}"[:150])

    def fail_call(self, patch: pytest.MonkeyPatch) -> tuple[type[BaseException], ...]:
        code = self.draw.choice(list(FAILURES))

        def fails() -> None:
            raise OperationFailure(FAILURES[code], code) if code else AutoReconnect(FAILURES[code])

        failure = Interruption(self.draw.randint(1, 40), fails, after=self.draw.random() < 0.3)
        self.tell(f"call {failure.left} fails: {FAILURES[code]}, after={failure.after}")
        for name in CALLS:
            patch.setattr(Database, name, failure.around(getattr(Database, name)))
        return (PenstockError,)

    def change_meanwhile(self, patch: pytest.MonkeyPatch) -> tuple[type[BaseException], ...]:
        def changes() -> None:
            self.tell("meanwhile")
            self.changes.act(self.draw.randint(1, 3))
            change.left = self.draw.randint(1, 20)

        change = Interruption(self.draw.randint(1, 20), changes, after=self.draw.random() < 0.3)
        self.tell(f"changes before or after calls, first {change.left}, after={change.after}")
        for name in CALLS:
            patch.setattr(Database, name, change.around(getattr(Database, name)))
        # The collection that is to be read again may be gone by then.
        return (ConfigError,) if self.flags else ()

    def kill(self, patch: pytest.MonkeyPatch) -> tuple[type[BaseException], ...]:
        def dies() -> None:
            raise Killed

        place = self.draw.choice(FILES)
        death = Interruption(self.draw.randint(1, 8), dies, after=self.draw.random() < 0.5)
        self.tell(f"killed at file {death.left} of {place}, after={death.after}")
        for name in ("write", "create", "delete"):
            patch.setattr(LocalStorage, name, death.around(getattr(LocalStorage, name), place))
        return (Killed,)

    def run(self) -> None:
        self.excluded |= set(COLLECTIONS) - set(self.included)
        self.tell(f"run {' '.join([*self.included, *self.flags])}")
        spec = self.spec
        self.flags = ()
        with pytest.MonkeyPatch.context() as patch:
            self.keep_identities(patch)
            if self.as_spark:
                try:
                    run(spec)
                finally:
                    note_as_spark_does(Path(spec.checkpoint))
            else:
                run_here(spec)

    def keep_identities(self, patch: pytest.MonkeyPatch) -> None:
        """Give collections an identity that stays when they are renamed, as MongoDB does."""
        found = collections._collection

        def kept(database: str, listed: dict[str, Any]) -> collections.Collection:
            return replace(found(database, listed), identity=self.changes.identity(str(listed["name"])))

        patch.setattr(collections, "_collection", kept)

    @property
    def sync(self) -> MongoSync:
        limit = ("--max-batch-rows", str(self.rows)) if self.rows else ()
        flags = (*limit, *self.flags, "--including-tables", "|".join(self.included))
        conf = [f"scan.incremental.snapshot.chunk.size={self.chunk}"]
        return MongoSync(self.changes.server, self.folder, conf=conf, flags=flags)

    @property
    def spec(self) -> PipelineSpec:
        spec = self.sync.spec
        assert isinstance(spec.source, MongoConfig)
        source = spec.source.model_copy(update={"log_seconds": self.log_seconds})
        return spec.model_copy(update={"source": source})

    def compare(self) -> None:
        sync, found = self.sync, set(self.sync.tables())
        for name in sorted(found | set(self.changes.names)):
            documents = {text_of(document["_id"]): document for document in self.changes.server.db[name].find()}
            rows = sync.rows(name) if name in found else {}
            assert documents.keys() <= rows.keys(), (name, "lacks", documents.keys() - rows.keys())
            more = rows.keys() - documents.keys() - self.changes.kept[name]
            # Deletes are not followed while a collection is excluded. Its table is emptied when it is included again,
            # or once there is a collection of this name again.
            may_keep = name in self.excluded & self.changes.lost and name not in self.changes.names
            assert not more or may_keep, (name, "has too many", more)
            for key, document in documents.items():
                wanted = {column: None if value is None else text_of(value) for column, value in document.items()}
                row = {column: value for column, value in rows[key].items() if value is not None or column in wanted}
                assert row == wanted, name


@pytest.mark.parametrize("seed", SEEDS)
def test_tables_have_the_documents_of_the_server_after_random_changes(
    server: MongoPlayground, tmp_path: Path, seed: int
) -> None:
    draw = random.Random(seed)
    play = Play(RandomChanges(server, draw), tmp_path, draw)
    with history_shown(play.changes.history):
        play.perform()
        play.compare()
