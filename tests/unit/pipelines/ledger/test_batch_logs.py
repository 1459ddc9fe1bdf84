"""The logs of batches, read and written as Spark does."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.errors import CheckpointDamaged
from penstock.pipelines.errors import CheckpointInUse
from penstock.pipelines.ledger import batch_logs
from penstock.pipelines.ledger.batch_logs import BatchLogs, CheckpointProgress, NextBatch
from penstock.storage.state_folder import StateFolder

SETTINGS = '{"batchWatermarkMs":7,"batchTimestampMs":1,"conf":{"spark.sql.shuffle.partitions":"2"}}'


def logs(folder: Path) -> BatchLogs:
    return BatchLogs(StateFolder.of(str(folder)), lambda: 12.5)


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """A checkpoint as Spark leaves it after batch 1, with the checksums of Hadoop's file system."""
    for name in ("offsets/0", "offsets/1"):
        put(tmp_path, name, f'v1\n{SETTINGS}\n{{"batch": {int(name[-1]) + 1}}}')
    for name in ("commits/0", "commits/1"):
        put(tmp_path, name, 'v1\n{"nextBatchWatermarkMs":0}')
    put(tmp_path, "metadata", '{"id":"5d0c"}')
    put(tmp_path, "offsets/.1.crc", "x")
    return tmp_path


def put(folder: Path, name: str, content: str) -> None:
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text(content)


def test_a_folder_that_does_not_exist_has_its_first_batch_before_it(tmp_path: Path) -> None:
    found = logs(tmp_path / "none")
    assert found.next_batch() == NextBatch(0, None)
    assert found.progress() == CheckpointProgress()
    assert (found.is_new, found.query(), found.planned_offsets) == (True, None, None)
    assert not (tmp_path / "none").exists()


def test_the_next_batch_follows_the_newest_finished_one(checkpoint: Path) -> None:
    assert logs(checkpoint).next_batch() == NextBatch(2, {"batch": 2})
    put(checkpoint, "offsets/2.tmp", "")  # as Spark leaves it
    assert logs(checkpoint).next_batch() == NextBatch(2, {"batch": 2})
    put(checkpoint, "offsets/2", f'v1\n{SETTINGS}\n{{"batch": 3}}')
    assert logs(checkpoint).next_batch() == NextBatch(2, {"batch": 2}, {"batch": 3})


def test_a_file_of_offsets_is_damaged_if_any_of_its_end_is_missing(checkpoint: Path) -> None:
    whole = (checkpoint / "offsets/1").read_text()
    for length in range(len(whole)):
        put(checkpoint, "offsets/1", whole[:length])
        assert logs(checkpoint).next_batch() is None  # Spark says what is wrong
        with pytest.raises(CheckpointDamaged, match="offsets/1"):
            logs(checkpoint).progress()
    put(checkpoint, "offsets/1", f"v1\n{SETTINGS}\n-\n")
    assert logs(checkpoint).progress().offsets is None


def test_the_first_batch_may_be_planned(checkpoint: Path) -> None:
    for name in ("offsets/1", "commits/0", "commits/1"):
        (checkpoint / name).unlink()
    assert logs(checkpoint).next_batch() == NextBatch(0, None, {"batch": 1})


DAMAGES: dict[str, Callable[[Path], object]] = {
    "no id": lambda folder: (folder / "metadata").unlink(),
    "another id": lambda folder: (folder / "metadata").write_text("[]"),
    "a cut id": lambda folder: (folder / "metadata").write_text('{"id"'),
    "a commit of another version": lambda folder: put(folder, "commits/1", "v2\n{}"),
    "offsets of another version": lambda folder: put(folder, "offsets/1", 'v2\n{}\n{"batch": 2}'),
    "a planned batch of another version": lambda folder: put(folder, "offsets/2", 'v2\n{}\n{"batch": 3}'),
    "a planned batch without offset": lambda folder: put(folder, "offsets/2", "v1\n{}\n-"),
    "a gap": lambda folder: put(folder, "offsets/3", 'v1\n{}\n{"batch": 3}'),
    "no offsets": lambda folder: (folder / "offsets/1").unlink(),
    "no first commit": lambda folder: [(folder / f"commits/{number}").unlink() for number in (0, 1)],
    "an empty file": lambda folder: put(folder, "commits/1", ""),
    "damaged offsets": lambda folder: put(folder, "offsets/1", "v1\n{}\n{"),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_files_that_are_not_as_spark_writes_them_have_no_next_batch(
    damage: Callable[[Path], object], checkpoint: Path
) -> None:
    damage(checkpoint)
    assert logs(checkpoint).next_batch() is None


def test_a_batch_is_written_as_spark_does(checkpoint: Path) -> None:
    found = logs(checkpoint)
    put(checkpoint, "offsets/.2.crc", "left behind by a crash")
    found.plan(2, {"batch": 3, "now": 5})
    assert (checkpoint / "offsets/2").read_text() == (
        'v1\n{"batchWatermarkMs":7,"batchTimestampMs":12500,"conf":{"spark.sql.shuffle.partitions":"2"}}\n'
        '{"batch": 3, "now": 5}'
    )
    assert not (checkpoint / "offsets/.2.crc").exists()
    assert found.next_batch() == NextBatch(2, {"batch": 2}, {"batch": 3, "now": 5})
    found.finish(2)
    assert (checkpoint / "commits/2").read_text() == (checkpoint / "commits/1").read_text()
    assert found.next_batch() == NextBatch(3, {"batch": 3, "now": 5})


def test_a_new_query_is_written_once(tmp_path: Path) -> None:
    found = logs(tmp_path)
    query = found.create_query()
    assert found.create_query() == query
    assert json.loads((tmp_path / "metadata").read_text()) == {"id": query}
    found.plan(0, {"batch": 1})
    found.finish(0)
    assert found.next_batch() == NextBatch(1, {"batch": 1})


def test_what_another_process_has_written_is_not_replaced(checkpoint: Path) -> None:
    logs(checkpoint).plan(2, {"batch": 3})
    logs(checkpoint).plan(2, {"batch": 3})  # the reply to the first request may have been lost
    with pytest.raises(CheckpointInUse, match="another process is running this pipeline"):
        logs(checkpoint).plan(2, {"batch": 4})
    assert logs(checkpoint).planned_offsets == {"batch": 3}


def test_old_batches_are_forgotten(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_logs, "_KEPT", 2)
    found = logs(checkpoint)
    for number in range(2, 6):
        found.plan(number, {"batch": number + 1})
        found.finish(number)
    names = sorted(str(path.relative_to(checkpoint)) for path in checkpoint.rglob("*") if path.is_file())
    assert names == ["commits/4", "commits/5", "metadata", "offsets/4", "offsets/5"]


@pytest.mark.parametrize(("location", "requests"), [("s3://bucket/checkpoint", 2), ("/checkpoint", 4)])
def test_a_store_gets_no_requests_for_checksums(location: str, requests: int, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    monkeypatch.setattr(StateFolder, "read", lambda folder, name: None)
    monkeypatch.setattr(StateFolder, "create", lambda folder, name, content: made.append(name) or True)
    monkeypatch.setattr(StateFolder, "delete", lambda folder, name: made.append(name))
    found = BatchLogs(StateFolder.of(location))
    found.plan(1, {})
    found.finish(1)
    assert len(made) == requests
