"""Streaming reads: every change once, through overwrites, expiry, new columns and rollback, by random histories too."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from penstock.errors import ConfigError
from penstock.table.errors import SnapshotMissing, SnapshotReplaced
from penstock.table.handle import Table
from penstock.table.read.change_stream import ChangeStream
from penstock.table.schema.changes import AddColumn, DropColumn, SetOption
from penstock.table.schema.schema_files import SchemaFiles
from penstock.table.usable import check_usable
from penstock.table.values.types import parse_type
from tests.unit.table.tables import new_table

COLUMNS = [("p", "STRING NOT NULL"), ("k", "INT NOT NULL"), ("v", "STRING")]
OVERWRITES = {"streaming-read-overwrite": "true"}
FIRST = {"scan.snapshot-id": "1"}
Row = tuple[Any, ...]
State = dict[tuple[str, int], Row]
QUICK, NIGHT = 3, 300


def put(table: Table, *rows: tuple[str, int, str], kinds: list[str] | None = None) -> None:
    with table.writer() as writer:
        cells = [pa.array(column, field.type) for column, field in zip(zip(*rows), table.schema)]  # noqa: B905
        extra = [pa.nulls(len(rows), field.type) for field in list(table.schema)[len(cells) :]]
        writer.write(pa.table([*cells, *extra], schema=table.schema), kinds and pa.array(kinds))
        writer.commit()


def folded(state: State, rows: Iterable[dict[str, Any]]) -> State:
    made = dict(state)
    for row in rows:
        key = row["p"], row["k"]
        if row["rowkind"] in {"+I", "+U"}:
            made[key] = key, row["v"]
        elif row["rowkind"] == "-D":
            made.pop(key, None)
    return made


def state_of(table: Table) -> State:
    return folded({}, ({**row, "rowkind": "+I"} for row in table.scan().to_arrow().to_pylist()))


@pytest.mark.parametrize("trigger", ["9", "2"])
def test_a_stream_begins_with_the_rows_that_a_changelog_of_other_levels_has_shown(tmp_path: Path, trigger: str) -> None:
    """These rows are below the top level after the number of levels was raised. No later changelog shows them again."""
    options = {"bucket": "1", "changelog-producer": "full-compaction", "write-only": "true"}
    table = new_table(tmp_path, COLUMNS, keys=("p", "k"), options=options)
    put(table, ("a", 1, "x"), ("a", 2, "x"))
    table.compact()
    compacted = state_of(table)
    table.store.evolve([SetOption("num-sorted-run.compaction-trigger", trigger)], check_usable)
    put(table, ("a", 2, "y"), ("a", 3, "y"))
    assert folded({}, ({**row, "rowkind": "+I"} for row in table.system("ro").to_pylist())) == compacted
    stream = ChangeStream(table.store, {})
    found: State = {}
    for _ in range(2):
        while (changes := stream.poll()) is not None:
            found = folded(found, (row for batch in changes.batches for row in batch.to_pylist()))
            stream.advance(changes.snapshot)
        table.refresh().compact()
    assert stream.poll() is None
    assert found == state_of(table)


@pytest.mark.parametrize("compacted", [False, True])
def test_a_stream_of_keys_that_move_begins_with_the_rows_on_the_former_top_level(
    tmp_path: Path, *, compacted: bool
) -> None:
    """Compactions of single buckets write no changelog, and stop below the rows that have been shown."""
    options = {"bucket": "-1", "changelog-producer": "full-compaction", "write-only": "true"}
    table = new_table(tmp_path, COLUMNS, keys=("k",), partitions=("p",), options=options)
    for number in range(14):
        put(table.refresh(), ("a", number, "x"))
        if number == 6 and compacted:
            table.refresh().compact()
    table.store.evolve([SetOption("num-levels", "9")], check_usable)
    table.refresh().compact(full=False)
    changes = ChangeStream(table.refresh().store, {}).poll()
    assert changes is not None
    assert sum(batch.num_rows for batch in changes.batches) == (7 if compacted else 0)


def test_a_consumer_keeps_the_rows_that_an_overwrite_removed(tmp_path: Path) -> None:
    table = new_table(tmp_path, COLUMNS, keys=("p", "k"), options={"bucket": "1", **OVERWRITES})
    put(table, ("a", 1, "x"))
    reader = table.refresh().follow(consumer_id="c", until=3)
    next(reader).processed()
    with table.overwrite({}) as writer:
        writer.write(pa.table([["a"], pa.array([2], pa.int32()), ["y"]], schema=table.schema))
        writer.commit()
    put(table, ("a", 3, "z"))
    table.refresh().expire_snapshots(retain_max=1, retain_min=1)
    rows = next(table.refresh().follow(consumer_id="c", until=2)).rows
    assert rows.to_pylist() == [
        {"rowkind": "-D", "p": "a", "k": 1, "v": "x"},
        {"rowkind": "+I", "p": "a", "k": 2, "v": "y"},
    ]


def test_an_overwrite_that_a_stream_passes_over_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The rows that it removes stay with all readers of changes, and its new rows never arrive."""
    table = new_table(tmp_path, COLUMNS, keys=("p", "k"))
    put(table, ("a", 1, "x"))
    with table.overwrite({}) as writer:
        writer.write(pa.table([["a"], pa.array([2], pa.int32()), ["y"]], schema=table.schema))
        writer.commit()
    stream = ChangeStream(table.refresh().store, FIRST, position=1)
    changes = stream.poll()
    assert changes is not None
    assert list(changes.batches) == []
    assert caplog.text.count("event=overwrite_not_followed table=") == 1
    assert list(table.refresh().follow(2, until=2)) == []
    assert caplog.text.count("event=overwrite_not_followed table=") == 2


def test_a_stream_begins_before_a_column_was_added(tmp_path: Path) -> None:
    table = new_table(tmp_path, COLUMNS, keys=("p", "k"))
    put(table, ("a", 1, "x"))
    table.store.evolve([AddColumn("more", parse_type("STRING"))], check_usable)
    changes = ChangeStream(table.refresh().store, FIRST).poll()
    assert changes is not None
    assert [row["more"] for batch in changes.batches for row in batch.to_pylist()] == [None]


def test_a_stream_refuses_a_column_that_is_dropped_later(tmp_path: Path) -> None:
    table = new_table(tmp_path, COLUMNS, keys=("p", "k"))
    put(table, ("a", 1, "x"))
    stream = ChangeStream(table.refresh().store, {"scan.mode": "latest"})
    table.store.evolve([DropColumn("v")], check_usable)
    put(table.refresh(), ("a", 2))  # type: ignore[arg-type]  # the table has two columns now
    with pytest.raises(ConfigError, match="was changed while its changes are read"):
        stream.poll()


def test_a_rollback_before_the_first_changes_of_a_stream_is_noticed(tmp_path: Path) -> None:
    table = two_rows(tmp_path)
    stream = ChangeStream(table.store, {}, position=2)
    assert stream.poll() is None
    replace_newest(table)
    with pytest.raises(SnapshotReplaced):
        stream.poll()


@pytest.mark.parametrize("how", ["follow", "stream"])
def test_a_consumer_whose_position_is_written_after_a_rollback_is_noticed(tmp_path: Path, how: str) -> None:
    """Such a reader passed over the new snapshots with the ids of those that it had read."""
    table = new_table(tmp_path, COLUMNS, keys=("p", "k"), options={"bucket": "1"})

    def read() -> None:
        if how == "follow":
            list(table.refresh().follow(consumer_id="c", until=table.refresh().snapshots[-1].id))
            return
        stream = ChangeStream(table.refresh().store, {"consumer-id": "c", **FIRST})
        while (changes := stream.poll()) is not None:
            list(changes.batches)
            stream.advance(changes.snapshot)

    put(table, ("a", 1, "x"))
    put(table, ("a", 2, "x"))
    read()
    late = table.store.storage.read(f"{table.store.paths.root}/consumer/consumer-c")
    table.refresh().rollback_to(1)
    read()  # set back by the rollback
    put(table, ("a", 3, "y"))
    table.store.storage.write(f"{table.store.paths.root}/consumer/consumer-c", late)
    with pytest.raises(SnapshotReplaced, match="replaced after the consumer c had read it") as refused:
        read()
    assert refused.value.hint == "reset the consumer to the first snapshot after the rollback, or delete it"
    table.refresh().reset_consumer("c", 2)
    read()


def test_a_rollback_before_the_first_changes_that_are_followed_is_noticed(tmp_path: Path) -> None:
    table = two_rows(tmp_path)
    waiting = replace(table.store.ambient, sleep=lambda _: replace_newest(table))
    reader = Table(replace(table.store, ambient=waiting)).follow(from_snapshot=3)
    with pytest.raises(SnapshotReplaced):
        next(reader)


def test_a_table_that_is_created_again_is_noticed_after_its_snapshots_expired(tmp_path: Path) -> None:
    table = two_rows(tmp_path)
    stream = ChangeStream(table.store, {}, position=2)
    waiting = replace(table.store.ambient, sleep=lambda _: None)
    reader = Table(replace(table.store, ambient=waiting)).follow(from_snapshot=2)
    next(reader)
    created = table.store.schemas.latest()
    assert created is not None
    shutil.rmtree(table.path)
    SchemaFiles(table.store.storage, table.path).create(replace(created, time_millis=created.time_millis + 1))
    again = Table(table.store).refresh()
    for number in range(2):
        put(again, ("b", number, "x"))
    put(again, ("c", 1, "x"))
    put(again, ("c", 2, "x"))
    again.refresh().expire_snapshots(retain_max=2, retain_min=1)
    for step in (stream.poll, lambda: next(reader)):
        with pytest.raises(SnapshotReplaced, match="dropped and created again"):
            step()


def two_rows(folder: Path) -> Table:
    table = new_table(folder, COLUMNS, keys=("p", "k"))
    for number in range(2):
        put(table, ("a", number, "x"))
    return table.refresh()


def replace_newest(table: Table) -> None:
    """Undo the newest commit, and make two others."""
    table.rollback_to(1)
    for number in range(2, 4):
        put(table, ("a", number, "y"))


class History:
    """A table under random operations, and a consumer and a stream that fold its changes."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.draw = draw = random.Random(seed)
        self.producer = draw.choice(("none", "none", "lookup", "full-compaction"))
        options = {"bucket": draw.choice(("1", "2", "-1")), "changelog-producer": self.producer}
        options |= OVERWRITES if self.producer == "none" else {}
        self.partitions = ["p"] if draw.random() < 0.4 else []
        if self.producer == "none" and draw.random() < 0.3:
            options["deletion-vectors.enabled"] = "true"
        if draw.random() < 0.3:
            options |= {"snapshot.num-retained.max": "3", "snapshot.num-retained.min": "1"}
        if draw.random() < 0.3:
            options |= {"changelog.num-retained.max": "20", "changelog.num-retained.min": "10"}
            options |= {"changelog.time-retained": "900 d", "num-sorted-run.compaction-trigger": "2"}
        self.fixed = options["bucket"] != "-1"
        self.table = new_table(folder, COLUMNS, keys=("p", "k"), partitions=self.partitions, options=options)
        self.states: dict[int, State] = {0: {}}
        put(self.table, ("a", 0, "x"))
        self.stream: ChangeStream | None = ChangeStream(self.table.refresh().store, FIRST)
        self.streamed: State = {}
        self.consume()

    def step(self) -> None:
        table, draw = self.table, self.draw
        match draw.choice(
            ["write"] * 6 + ["compact"] * 2 + ["overwrite", "delete", "expire", "rollback", "alter", "rescale"]
        ):
            case "overwrite" if self.producer == "none":
                with table.overwrite(draw.choice((None, {}))) as writer:
                    writer.write(
                        pa.table([["a"], pa.array([draw.randrange(6)], pa.int32()), ["o"]], names=["p", "k", "v"])
                    )
                    writer.commit()
            case "delete":
                table.delete(pc.field("k") < draw.randrange(5))
            case "compact":
                table.compact(full=draw.random() < 0.5)
            case "expire":
                table.expire_snapshots(retain_max=draw.choice((1, 2)), retain_min=1)
            case "rollback":
                same = [snapshot.id for snapshot in table.snapshots if snapshot.schema_id == table.schema_id]
                if same:
                    table.rollback_to(draw.choice(same))
            case "alter":
                table.store.evolve([AddColumn(f"x{draw.getrandbits(32)}", parse_type("STRING"))], check_usable)
            case "rescale" if self.fixed and self.producer == "none":
                buckets = draw.choice((1, 2, 3))
                table.rescale(buckets)
                table.store.evolve([SetOption("bucket", str(buckets))], check_usable)
            case _:
                rows = [(draw.choice("ab"), draw.randrange(6), draw.choice("xyz")) for _ in range(draw.randint(1, 6))]
                put(table, *rows, kinds=[draw.choice(("+I", "+U", "-D")) for _ in rows])
        self.table = table.refresh()

    def check(self) -> None:
        self.table.compact(full=True)  # by then changelogs are complete
        self.table = self.table.refresh()
        expected = state_of(self.table)
        assert self.consume() == expected
        if self.follow_stream():
            assert self.streamed == expected

    def consume(self) -> State:
        """Continue as the consumer, whose position a rollback sets back; return its rows."""
        position = self.table.refresh().consumers.get("c", 1) - 1
        latest = self.table.refresh().store.snapshots.latest_id() or 0
        state = self.states[position]
        for changes in self.table.refresh().follow(from_snapshot=1, consumer_id="c", until=latest):
            self.states |= dict.fromkeys(range(position, changes.snapshot), state)
            state, position = folded(state, changes.rows.to_pylist()), changes.snapshot
        self.states |= dict.fromkeys(range(position, latest + 1), state)
        return state

    def follow_stream(self) -> bool:
        """Continue the stream; return False if it refuses to, or has nothing to notice a rollback by yet."""
        if self.stream is None:
            return False
        try:
            while (changes := self.stream.poll()) is not None:
                for batch in changes.batches:
                    self.streamed = folded(self.streamed, batch.to_pylist())
                self.stream.advance(changes.snapshot)
        except (SnapshotReplaced, SnapshotMissing):  # after a rollback, or because nothing kept its snapshots
            self.stream = None
            return False
        last = self.stream._last
        return last is not None and self.table.store.snapshots.find(last.id) == last


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("group", range(4))
def test_streams_have_the_rows_of_the_table(tmp_path: Path, group: int, night: bool) -> None:
    for seed in range(group, 4 * (NIGHT if night else QUICK), 4):
        history = History(tmp_path / str(seed), seed)
        for number in range(14):
            history.step()
            if number % 2:
                try:
                    history.check()
                except Exception as error:
                    raise AssertionError(f"seed {seed}, step {number}") from error
