"""The copy of a checkpoint's logs that Spark works on while the checkpoint is in an object store."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.pipelines.errors import CheckpointInUse
from penstock.pipelines.ledger.batch_logs import BatchLogs, NextBatch
from penstock.pipelines.ledger.checkpoint_folder import CheckpointFolder
from penstock.pipelines.ledger.local_logs import LocalLogs
from penstock.storage.state_folder import StateFolder

SETTINGS = '{"batchWatermarkMs":7,"batchTimestampMs":1,"conf":{}}'


def stored(folder: Path) -> BatchLogs:
    return BatchLogs(StateFolder.of(str(folder / "store")), lambda: 12.5)


def planned(copy: LocalLogs, number: int, position: int) -> None:
    """Write the plan of a batch as Spark does."""
    path = copy.path / "offsets" / str(number)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'v1\n{SETTINGS}\n{{"at": {position}}}')


def names(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_checkpoints_in_object_stores_are_copied(tmp_path: Path) -> None:
    for location in (str(tmp_path), f"file://{tmp_path}", "hdfs://name/x"):
        assert LocalLogs.of(CheckpointFolder(location), tmp_path) is None
    for location in ("s3://lake/x", "s3a://lake/x", "gs://lake/x", "abfss://lake@acme.dfs.core.windows.net/x"):
        assert LocalLogs.of(CheckpointFolder(location), tmp_path) is not None


def test_a_new_run_continues_where_the_stored_logs_end(tmp_path: Path) -> None:
    logs = stored(tmp_path)
    first = LocalLogs(logs, tmp_path / "first")
    first.fill()
    assert names(first.path) == ["metadata"]
    for number in range(12):
        planned(first, number, number + 1)
        first.keep_plan(number)
        first.keep_finish(number)
    planned(first, 12, 13)
    first.keep_plan(12)
    assert logs.next_batch() == NextBatch(12, {"at": 12}, {"at": 13})
    second = LocalLogs(logs, tmp_path / "second")
    second.fill()
    assert names(second.path) == ["commits/10", "commits/11", "metadata", "offsets/11", "offsets/12"]
    assert (second.path / "metadata").read_bytes() == (first.path / "metadata").read_bytes()
    second.keep_plan(12)  # the batch is repeated
    second.keep_finish(12)
    assert logs.next_batch() == NextBatch(13, {"at": 13})


def test_a_driver_ends_if_another_one_has_planned_its_batch(tmp_path: Path) -> None:
    logs = stored(tmp_path)
    one, other = (LocalLogs(logs, tmp_path / name) for name in ("one", "other"))
    for copy, position in ((one, 1), (other, 2)):
        copy.fill()
        planned(copy, 0, position)
    one.keep_plan(0)
    with pytest.raises(CheckpointInUse):
        other.keep_plan(0)
    assert logs.planned_offsets == {"at": 1}
