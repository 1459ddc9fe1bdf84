"""Snapshot and change stream while the collection is written, with kills between: every change once, none missing."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from penstock.pipelines.commands.main import main
from penstock.pipelines.ledger.batch_identity import BatchIdentity
from tests.integration.mongodb.endless_sync import CHUNK, FLAGS
from tests.integration.mongodb.sync import MongoPlayground, MongoSync
from tests.pages import ROOT

pytestmark = [pytest.mark.mongodb, pytest.mark.slow]
DOCUMENTS = 1000


class Writer(threading.Thread):
    """Changes random documents until it is stopped."""

    def __init__(self, server: MongoPlayground, seed: int) -> None:
        super().__init__()
        self.server, self.random = server, random.Random(seed)
        self.stopped = threading.Event()

    def run(self) -> None:
        while not self.stopped.wait(0.01):
            number = self.random.randrange(DOCUMENTS * 2)
            match self.random.randrange(4):
                case 0:
                    self.server.db.w.delete_one({"_id": number})
                case 1:
                    new = {"n": -1, "by": {"writer": self.name}}
                    self.server.db.w.replace_one({"_id": number}, new, upsert=True)
                case _:
                    self.server.db.w.update_one({"_id": number}, {"$inc": {"n": 1}})


class _CrashError(Exception):
    pass


def source(server: MongoPlayground) -> dict[str, Any]:
    return {str(document["_id"]): str(document["n"]) for document in server.db.w.find()}


def target(sync: MongoSync) -> dict[str, Any]:
    return {key: row["n"] for key, row in sync.rows().items()}


def filled(server: MongoPlayground) -> list[Writer]:
    server.db.w.insert_many([{"_id": number, "n": 0} for number in range(DOCUMENTS)])
    writers = [Writer(server, seed) for seed in range(2)]
    for writer in writers:
        writer.start()
    return writers


def stop(writers: list[Writer]) -> None:
    for writer in writers:
        writer.stopped.set()
    for writer in writers:
        writer.join()


def test_nothing_is_lost_or_repeated_between_snapshot_and_log(server: MongoPlayground, tmp_path: Path) -> None:
    sync = MongoSync(server, tmp_path, "w", [CHUNK], FLAGS)
    crashes = random.Random(3)

    def crash(_identity: BatchIdentity, _report: object) -> None:
        if crashes.random() < 0.3:
            raise _CrashError

    writers = filled(server)
    try:
        for _ in range(8):  # a crash between the commit and the checkpoint: the batch is planned and read again
            try:
                sync.run(crash)
            except _CrashError:
                continue
    finally:
        stop(writers)
    sync.run()
    assert target(sync) == source(server)


def test_killed_processes_continue_where_their_tables_are(
    server: MongoPlayground, server_address: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    writers = filled(server)
    pauses = random.Random(7)
    try:
        for _ in range(4):
            words = [sys.executable, "-W", "ignore", "-m", "tests.integration.mongodb.endless_sync"]
            with subprocess.Popen([*words, server_address, str(tmp_path)], cwd=ROOT, stderr=subprocess.PIPE) as child:
                time.sleep(pauses.uniform(2.5, 5))
                assert child.poll() is None, child.stderr and child.stderr.read()
                child.kill()
    finally:
        stop(writers)
    sync = MongoSync(server, tmp_path, "w", [CHUNK], FLAGS)
    sync.run()
    sync.run()
    assert target(sync) == source(server)
    assert main(["verify", "mongodb-sync-table", *sync.words]) == 0
    assert "equal    ods.w" in capsys.readouterr().out
