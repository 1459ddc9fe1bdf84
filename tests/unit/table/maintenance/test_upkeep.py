"""A round of maintenance: all of it, bounded, and never an error to the one who asked."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.errors import TableCorrupt
from penstock.table.handle import Table
from penstock.table.maintenance import snapshot_expiry, upkeep
from penstock.table.maintenance.upkeep import Upkeep, after_compaction, keep_up
from penstock.table.meta.snapshot_files import SnapshotFiles
from penstock.table.meta.store import TableStore
from penstock.table.schema.schema_files import SchemaFiles
from tests.simulation.store import Disk, SimStore
from tests.simulation.story import Story
from tests.simulation.tellers import create_ours
from tests.unit.table.tables import content, new_table, rows

NOW = int(datetime(2026, 1, 31, 12, tzinfo=UTC).timestamp() * 1000)
HOUR = 3_600_000
DAYS = [("dt", "STRING NOT NULL"), ("id", "INT NOT NULL")]


def later(table: Table, millis: int) -> TableStore:
    return replace(table.store, ambient=replace(table.store.ambient, now_millis=lambda: millis))


def filled(folder: Path, commits: int = 3, **options: str) -> Table:
    named = {name.replace("__", ".").replace("_", "-"): value for name, value in options.items()}
    table = new_table(folder, DAYS, keys=("dt", "id"), partitions=("dt",), options={"bucket": "1", **named})
    for number in range(1, commits + 1):
        with table.writer() as writer:
            writer.write(rows(table, (f"2026-01-{number:02}", number)))
            writer.commit()
    return table


def test_a_commit_expires_snapshots_by_its_options(tmp_path: Path) -> None:
    table = filled(tmp_path, 5, snapshot__num_retained__max="2", snapshot__num_retained__min="1")
    assert [snapshot.id for snapshot in table.snapshots] == [4, 5]


def test_a_compaction_expires_all_that_write_only_jobs_left(tmp_path: Path) -> None:
    """Such jobs may commit more often between two compactions than snapshots expire in a round."""
    limits = {"snapshot__num_retained__max": "1", "snapshot__num_retained__min": "1", "snapshot__expire__limit": "2"}
    table = filled(tmp_path, 8, write_only="true", **limits)
    assert len(table.snapshots) == 8
    after_compaction(table.store, seconds=0)
    assert len(table.snapshots) == 8  # no step starts when the time is over
    after_compaction(table.store)
    assert len(table.snapshots) == 1


def test_maintenance_runs_every_step(tmp_path: Path) -> None:
    table = filled(
        tmp_path,
        snapshot__num_retained__min="1",
        partition__expiration_time="29 d",
        tag__automatic_creation="process-time",
        consumer__expiration_time="1 d",
    )
    table.reset_consumer("idle", 3)
    done = keep_up(later(table, NOW + 3600 * HOUR * 1000), None)
    assert done.consumers == ("idle",)
    assert done.expired.snapshots == 2
    assert [partition["dt"] for partition in done.partitions] == ["2026-01-01", "2026-01-02", "2026-01-03"]
    assert done.tags
    assert done.failures == ()


@pytest.mark.parametrize(("enabled", "over"), [("true", ("short",)), ("false", ())])
def test_tags_expire_in_maintenance_unless_the_table_disables_it(
    tmp_path: Path, enabled: str, over: tuple[str, ...]
) -> None:
    table = filled(tmp_path, tag__time_expire_enabled=enabled)
    table.create_tag("short", retain_millis=1)
    table.create_tag("long")
    assert keep_up(later(table, table.store.ambient.now_millis() + HOUR)).tags_over == over


def test_partitions_are_checked_at_the_configured_interval(tmp_path: Path) -> None:
    table = filled(tmp_path, partition__expiration_time="29 d")
    first = keep_up(later(table, NOW))
    assert [partition["dt"] for partition in first.partitions] == ["2026-01-01", "2026-01-02"]
    soon = keep_up(later(table, NOW + 24 * HOUR - 1), replace(first, partitions_checked=NOW + 23 * HOUR))
    assert soon.partitions == ()
    after = keep_up(later(table, NOW + 24 * HOUR), replace(first, partitions_checked=NOW + 23 * HOUR))
    assert [partition["dt"] for partition in after.partitions] == ["2026-01-03"]
    assert keep_up(later(table, NOW + 24 * HOUR), after).partitions_checked == NOW + 24 * HOUR


@pytest.mark.slow
def test_a_batch_commit_expires_partitions_if_configured(tmp_path: Path) -> None:
    options = {"partition__expiration_time": "29 d", "end_input__check_partition_expire": "true"}
    assert len(content(filled(tmp_path / "a", 1, **options))) == 1  # its clock stands in 2023
    table = filled(tmp_path / "b", 3, **{**options, "end_input__check_partition_expire": "false"})
    assert len(content(table)) == 3
    with Table(later(table.refresh(), NOW)).overwrite(partition={"dt": "x"}) as writer:
        writer.commit()
    assert len(content(table)) == 3
    configured = filled(tmp_path / "c", 3, **options)
    with Table(later(configured.refresh(), NOW)).writer() as writer:
        writer.write(rows(configured, ("2026-01-30", 9)))
        writer.commit()
    assert content(configured) == [("2026-01-03", 3), ("2026-01-30", 9)]


def test_a_failing_step_is_reported_and_the_others_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(store: TableStore, *_: object) -> None:
        raise TableCorrupt("a manifest is torn", table=store.name)

    monkeypatch.setattr(upkeep, "expire_when_due", broken)
    table = filled(tmp_path, tag__automatic_creation="process-time")
    done = keep_up(later(table, NOW))
    assert done.failures[0].startswith("snapshots: a manifest is torn")
    assert done.tags == ("2026-01-30",)
    assert len(content(table)) == 3


@pytest.mark.parametrize("error", [OSError("the store is away"), TableCorrupt("a schema is torn")])
def test_a_schema_that_cannot_be_read_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def broken(_: SchemaFiles) -> None:
        raise error

    table = filled(tmp_path)
    monkeypatch.setattr(SchemaFiles, "latest", broken)
    last = Upkeep(partitions_checked=1, done_checked=2, done_watermark=3)
    assert keep_up(later(table, NOW), last) == replace(last, failures=(f"options: {error}",))


def test_options_that_are_invalid_stop_their_own_step(tmp_path: Path) -> None:
    table = filled(tmp_path, tag__automatic_creation="process-time")
    path = Path(table.path) / "schema/schema-0"
    node = json.loads(path.read_text())
    node["options"] |= {"consumer.expiration-time": "soon", "tag.time-expire-enabled": "perhaps"}
    path.write_text(json.dumps(node))
    done = keep_up(later(table, NOW))
    assert [failure.partition(":")[0] for failure in done.failures] == ["consumers", "tags over"]
    assert done.tags == ("2026-01-30",)


def test_a_commit_reads_the_schema_few_times() -> None:
    """Each time costs two requests to an object store."""
    disk = Disk()
    store = SimStore(disk)
    create_ours(Story([("k", "INT NOT NULL")], ["k"], (), {"bucket": "1"}), store, "/w/d.db/t")
    table = Table(TableStore.open(store, "/w/d.db/t"))
    for number in range(2):
        before = len(store.log)
        with table.writer("job") as writer:
            writer.write(pa.table({"k": pa.array([1], pa.int32())}))
            writer.commit(number)
    operations = store.log[before:]
    assert sum(operation.name == "list" and operation.path.endswith("/schema") for operation in operations) <= 5
    assert len(operations) <= 40


def test_no_step_starts_after_the_time_limit(tmp_path: Path) -> None:
    table = filled(tmp_path, tag__automatic_creation="process-time")
    assert not keep_up(later(table, NOW), seconds=0).did_something


def test_write_only_tables_are_left_to_their_compaction_job(tmp_path: Path) -> None:
    options = {"snapshot__num_retained__max": "1", "snapshot__num_retained__min": "1", "write_only": "true"}
    table = filled(tmp_path, **options)
    assert len(table.snapshots) == 3
    assert not table.maintain().did_something
    assert keep_up(table.store, write_only=False).expired.snapshots == 2


def test_a_round_reads_each_tag_twice() -> None:
    """Once for automatic tags and once for tags whose time is over: a table may have thousands of tags."""
    disk = Disk()
    store = SimStore(disk)
    options = {"bucket": "1", "tag.automatic-creation": "process-time", "tag.creation-period": "hourly"}
    create_ours(Story([("k", "INT NOT NULL")], ["k"], (), options), store, "/w/d.db/t")
    table = Table(TableStore.open(store, "/w/d.db/t"))
    with table.writer("job") as writer:
        writer.write(pa.table({"k": pa.array([1], pa.int32())}))
        writer.commit(1)
    for number in range(10):
        table.create_tag(f"a{number}")
    before = len(store.log)
    assert keep_up(table.store).failures == ()
    read = [operation for operation in store.log[before:] if operation.name == "read" and "/tag/" in operation.path]
    assert len(read) <= 2 * len(table.tags)


def test_many_snapshots_are_listed_only_when_the_oldest_one_may_expire(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = filled(tmp_path, 5, snapshot__num_retained__max="7", snapshot__num_retained__min="1")
    first = table.snapshots[0].time_millis
    listed: list[list[int]] = []
    real = SnapshotFiles.ids
    monkeypatch.setattr(snapshot_expiry, "LISTED_AT_ONCE", 3)
    monkeypatch.setattr(SnapshotFiles, "ids", lambda files: listed.append(real(files)) or listed[-1])

    def kept_up(last: Upkeep | None, millis: int, listings: int) -> Upkeep:
        listed.clear()
        done = keep_up(later(table, millis), last)
        assert (len(listed), done.failures) == (listings, ())
        return done

    done = kept_up(None, first + 1000, 1)
    done = kept_up(done, first + 1000, 0)
    assert (done.expired.first, done.expired.end, done.did_something) == (1, 1, False)
    for number in (6, 7):
        with table.writer(options={"write-only": "true"}) as writer:
            writer.write(rows(table, (f"2026-01-{number:02}", number)))
            writer.commit()
    done = kept_up(done, first + 1000, 0)
    # They are listed again if the clock is before the oldest commit, and if the oldest snapshot may expire.
    kept_up(done, first - 1000, 1)
    assert kept_up(done, first + 2 * HOUR, 1).expired.snapshots
    done = kept_up(None, first + 1000, 1)
    with table.writer(options={"write-only": "true"}) as writer:
        writer.write(rows(table, ("2026-01-01", 8)))
        writer.commit()
    table = table.refresh()
    assert done.oldest is None
    assert [snapshot.id for snapshot in table.snapshots] == [7, 8]


@pytest.mark.parametrize("change", ["one too many", "rolled back"])
def test_many_snapshots_are_listed_again_after_a_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    table = filled(tmp_path, 5, snapshot__num_retained__max="5", snapshot__num_retained__min="1")
    monkeypatch.setattr(snapshot_expiry, "LISTED_AT_ONCE", 3)
    done = keep_up(later(table, table.snapshots[0].time_millis + 1000))
    assert done.oldest == table.snapshots[0]
    if change == "rolled back":
        table.create_tag("t", 1)
        (Path(table.path) / "snapshot" / "LATEST").unlink()
        for path in (Path(table.path) / "snapshot").glob("snapshot-*"):
            path.unlink()
    else:
        with table.writer(options={"write-only": "true"}) as writer:
            writer.write(rows(table, ("2026-01-01", 8)))
            writer.commit()
    done = keep_up(later(table, done.oldest.time_millis + 1000), done)
    assert (done.oldest and done.oldest.id) == (2 if change == "one too many" else None)
