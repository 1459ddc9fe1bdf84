"""The commits of a batch while other jobs commit to its tables, and expire their snapshots."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from penstock.pipelines.driver import commit
from penstock.pipelines.driver.commit import Commits
from penstock.pipelines.ledger.batch_identity import BatchIdentity, was_committed_before
from penstock.table.catalog.settings import CatalogSettings
from penstock.table.handle import Table
from penstock.table.schema.new_schema import create_schema

IDENTITY = BatchIdentity("p", "checkpoint", 0, {"at": 0}, {"at": 1})


def put(table: Table, number: int) -> None:
    with table.writer() as writer:
        writer.write(pa.table({"id": pa.array([number], pa.int32())}))
        writer.commit()


def test_snapshots_that_expire_while_earlier_checkpoints_are_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The search reads all snapshots of a table, which takes its time: the newest one may be long gone then."""
    warehouse = CatalogSettings.of(str(tmp_path), {"local.sync": "false"})
    warehouse.created("d.t", create_schema([("id", "INT")], options={"bucket": "-1"}, now=1))
    table = Table(warehouse.store("d.t"))
    put(table, 1)
    task = table.writer(commit_user=IDENTITY.user)
    task.write(pa.table({"id": pa.array([7], pa.int32())}))
    messages = task.prepare()

    def searched(*args: object, **named: object) -> bool:
        found = was_committed_before(*args, **named)  # type: ignore[arg-type]
        for number in (2, 3, 4):
            put(table, number)
        table.expire_snapshots(retain_max=1, retain_min=1, older_than=1 << 60)
        return found

    monkeypatch.setattr(commit, "was_committed_before", searched)
    done = Commits(warehouse).commit(IDENTITY, {"d.t": messages}, {})
    assert done.snapshots["d.t"].id == 5
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [1, 2, 3, 4, 7]
