"""The snapshot of a scan by id, tag, time and mode, and the changes between two of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.errors import ConfigError
from penstock.table.errors import SnapshotMissing, TagMissing
from penstock.table.handle import Table
from penstock.table.meta.snapshot import CommitKind
from penstock.table.meta.snapshot_files import SnapshotFiles
from tests.unit.table.tables import new_table, rows


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """Snapshots 1 to 4: ids 1 and 2, a change of 2, 1 goes and 3 comes, a compaction."""
    made = new_table(tmp_path, options={"bucket": "1", "write-only": "true"})
    for values, kinds in (
        ([(1, "a", None), (2, "b", None)], ["+I", "+I"]),
        ([(2, "bb", None)], ["+U"]),
        ([(1, "a", None), (3, "c", None)], ["-D", "+I"]),
    ):
        with made.writer() as writer:
            writer.write(rows(made, *values), kinds)
            writer.commit()
    made.compact()
    made.create_tag("first", 1)
    made.create_tag("third", 3)
    return made


DELTA_COMMITS = {"full-compaction.delta-commits": "3"}


def seen(table: Table, **arguments: object) -> list[str]:
    found = table.scan(**arguments).to_arrow().sort_by("id")  # type: ignore[arg-type]
    kinds = found["rowkind"].to_pylist() if "rowkind" in found.column_names else [""] * len(found)
    return [f"{kind}{name}" for kind, name in zip(kinds, found["name"].to_pylist(), strict=True)]


@pytest.mark.slow
def test_time_travel_returns_the_rows_of_that_time(table: Table) -> None:
    times = [snapshot.time_millis for snapshot in table.snapshots]
    assert [seen(table, snapshot=n) for n in (1, 2, 3)] == [["a", "b"], ["a", "bb"], ["bb", "c"]]
    assert seen(table, tag="first") == ["a", "b"]
    assert seen(table, timestamp=times[1]) == ["a", "bb"]
    assert seen(table, options={"scan.version": "first"}) == seen(table, options={"scan.version": "1"}) == ["a", "b"]
    with pytest.raises(SnapshotMissing, match="as old as"):
        seen(table, timestamp=times[0] - 1)


def test_a_version_may_be_a_watermark(tmp_path: Path) -> None:
    table = new_table(tmp_path, options={"bucket": "1"})
    for name, watermark in (("a", 500), ("b", 900)):
        with table.writer() as writer:
            writer.write(rows(table, (watermark, name, None)))
            writer.commit(watermark, watermark=watermark)
    assert seen(table, options={"scan.version": "watermark-400"}) == ["a"]
    assert seen(table, options={"scan.version": "watermark-501"}) == ["a", "b"]
    with pytest.raises(SnapshotMissing, match="watermark 901"):
        seen(table, options={"scan.version": "watermark-901"})
    with pytest.raises(TagMissing, match="watermark-x"):
        seen(table, options={"scan.version": "watermark-x"})
    table.create_tag("watermark-901", 1)
    assert seen(table, options={"scan.version": "watermark-901"}) == ["a"]


def test_a_scan_that_is_pinned_looks_its_snapshot_up_once(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    first = table.snapshots[0]
    pinned = table.scan(timestamp=first.time_millis).at_one_snapshot()
    monkeypatch.setattr(SnapshotFiles, "find", lambda *_: pytest.fail("a snapshot was read again"))
    assert pinned.schema.names == table.schema.names
    assert pinned.plan().snapshot == first


def test_each_scan_mode_selects_the_snapshot_of_paimon(table: Table) -> None:
    times = [str(snapshot.time_millis) for snapshot in table.snapshots]
    assert seen(table) == seen(table, mode="latest-full") == seen(table, mode="latest") == ["bb", "c"]
    assert seen(table, mode="compacted-full") == ["bb", "c"]
    assert seen(table, mode="from-snapshot", options={"scan.snapshot-id": "2"}) == ["a", "bb"]
    assert seen(table, mode="from-snapshot-full", options={"scan.tag-name": "first"}) == ["a", "b"]
    assert seen(table, mode="from-timestamp", options={"scan.timestamp-millis": times[1]}) == ["a", "bb"]
    assert seen(table, mode="incremental", options={"incremental-between": "1,2"}) == ["+Ubb"]
    assert seen(table, mode="from-file-creation-time", options={"scan.file-creation-time-millis": "0"}) == ["bb", "c"]


def test_a_compacted_read_of_a_table_without_compaction_returns_its_rows(tmp_path: Path) -> None:
    table = new_table(tmp_path, options={"bucket": "1", "write-only": "true"})
    assert seen(table, mode="compacted-full") == []
    with table.writer() as writer:
        writer.write(rows(table, (1, "a", None)))
        writer.commit()
    assert seen(table, mode="compacted-full") == ["a"]


@pytest.mark.slow
@pytest.mark.parametrize(("every", "shown"), [({}, ["a", "b", "c", "d", "e"]), (DELTA_COMMITS, ["a", "b", "c"])])
def test_a_compacted_read_uses_full_compactions_of_certain_commits(
    tmp_path: Path, every: dict[str, str], shown: list[str]
) -> None:
    """Every commit is compacted, every third one in full; the fifth is not."""
    options = {"bucket": "1", "num-sorted-run.compaction-trigger": "1", "compaction.force-up-level-0": "true"}
    table = new_table(tmp_path, options={**options, **every})
    with table.writer(commit_user="etl") as writer:
        for number, name in enumerate("abcde", 1):
            writer.write(rows(table, (number, name, None)))
            writer.commit(number)
    assert table.snapshots[-1].commit_kind is CommitKind.COMPACT
    assert seen(table, mode="compacted-full") == shown


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["from-timestamp", "from-snapshot", "from-snapshot-full", "incremental"])
def test_a_scan_mode_without_its_position_is_refused(table: Table, mode: str) -> None:
    with pytest.raises(ConfigError, match="needs a snapshot, tag or time to start from"):
        seen(table, mode=mode)


@pytest.mark.parametrize("mode", ["latest-full", "latest", "compacted-full", "from-timestamp"])
def test_a_position_that_the_scan_mode_ignores_is_refused(table: Table, mode: str) -> None:
    options = {"scan.snapshot-id": "1", **({"scan.timestamp-millis": "1"} if mode == "from-timestamp" else {})}
    with pytest.raises(ConfigError, match=r"contradict each other|only one of them"):
        seen(table, mode=mode, options=options)


def test_an_argument_overrides_the_scan_mode_of_the_table(tmp_path: Path) -> None:
    table = new_table(tmp_path, options={"bucket": "1", "scan.mode": "latest"})
    for name in "ab":
        with table.writer() as writer:
            writer.write(rows(table, (1, name, None)))
            writer.commit()
    assert seen(table, snapshot=1) == ["a"]


def test_changes_between_ids_tags_and_times(table: Table) -> None:
    times = [snapshot.time_millis for snapshot in table.snapshots]
    assert seen(table, options={"incremental-between": "1,3"}) == ["-Da", "+Ubb", "+Ic"]
    assert seen(table, options={"incremental-between": "3,3"}) == []
    assert seen(table, options={"incremental-between": "first,third"}) == ["+Ubb", "+Ic"]  # two states, as in Java
    between = f"{times[0]},{times[2]}"
    assert seen(table, options={"incremental-between-timestamp": between}) == ["-Da", "+Ubb", "+Ic"]
    diff = {"incremental-between": "1,3", "incremental-between-scan-mode": "diff"}
    assert seen(table, options=diff) == ["+Ubb", "+Ic"]
    assert table.changes(0, 2)["rowkind"].to_pylist() == ["+I", "+I", "+U"]


@pytest.mark.parametrize(
    ("between", "reason"),
    [
        ("1", "not a start and an end"),
        ("3,1", "before the start"),
        ("1,99", "does not exist"),
        ("first,2", "is not a tag"),
    ],
)
def test_invalid_ranges_of_snapshots_are_refused(table: Table, between: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        seen(table, options={"incremental-between": between})


def test_a_consumer_resumes_and_keeps_unread_snapshots(table: Table) -> None:
    stream = table.follow(from_snapshot=1, consumer_id="c", until=3)
    assert next(stream).snapshot == 1
    assert next(stream).snapshot == 2  # 1 is read now; of 2 that is not sure yet
    assert table.consumers == {"c": 2}
    table.expire_snapshots(retain_max=1, retain_min=1)
    assert [snapshot.id for snapshot in table.snapshots] == [2, 3, 4]
    assert [change.snapshot for change in table.follow(consumer_id="c", until=3)] == [2, 3]
    table.expire_snapshots(retain_max=1, retain_min=1)
    assert [snapshot.id for snapshot in table.snapshots] == [4]
    with pytest.raises(SnapshotMissing, match="expired"):
        next(table.follow(from_snapshot=2))


ENGINES = {
    "deduplicate": {},
    "sequence": {"sequence.field": "n"},
    "sum": {"merge-engine": "aggregation", "fields.n.aggregate-function": "sum"},
    "partial": {"merge-engine": "partial-update"},
    "vectors": {"deletion-vectors.enabled": "true"},
}


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("compacted", [False, True])
def test_a_difference_is_of_the_merged_states(tmp_path: Path, engine: str, compacted: bool) -> None:
    columns = [("id", "INT NOT NULL"), ("n", "INT"), ("s", "STRING")]
    options = {"bucket": "1", "write-only": str(engine != "vectors").lower(), **ENGINES[engine]}
    made = new_table(tmp_path, columns, keys=["id"], options=options)
    states: list[set[tuple[object, ...]]] = [set()]
    for values in (
        [(1, 5, "a"), (2, 5, "b"), (3, 5, "c")],
        [(1, 1, None), (2, 5, "b")],
        [(3, 7, "z"), (4, 1, "d")],
        [(1, 9, None), (2, None, None)],
    ):
        with made.writer() as writer:
            writer.write(rows(made, *values))
            writer.commit()
        if compacted:
            made.compact()
        states.append({tuple(row.values()) for row in made.scan().to_arrow().to_pylist()})
        made.create_tag(f"t{len(states) - 1}")
    for start in range(1, 5):
        for end in range(start, 5):
            found = made.scan(options={"incremental-between": f"t{start},t{end}"}).to_arrow().drop_columns(["rowkind"])
            rows_found = [tuple(row.values()) for row in found.to_pylist()]
            assert sorted(rows_found, key=repr) == sorted(states[end] - states[start], key=repr), (start, end)


def test_a_difference_without_keys_contains_each_row_as_often_as_inserted(tmp_path: Path) -> None:
    made = new_table(
        tmp_path, [("id", "INT"), ("l", {"type": "ARRAY", "element": "INT"})], keys=[], options={"bucket": "-1"}
    )
    for number, ids in enumerate([[1, 1, 2], [3], [1, 2, 2]], 1):
        with made.writer() as writer:
            writer.write(rows(made, *((id_, [id_]) for id_ in ids)))
            writer.commit()
        made.create_tag(f"t{number}")
    made.compact(options={"compaction.min.file-num": "2"})
    made.create_tag("compacted")
    for end, expected in (("t2", [3]), ("t3", [1, 2, 2, 3]), ("compacted", [1, 2, 2, 3])):
        found = made.scan(options={"incremental-between": f"t1,{end}"}).to_arrow()
        assert sorted(found["id"].to_pylist()) == expected
    found = made.scan(options={"incremental-between": "t3,compacted"}).to_arrow()
    assert found.num_rows == 0


@pytest.mark.parametrize(
    ("keys", "option", "messages"),
    [
        ([], "streaming-read-append-overwrite", ["+I new"]),
        (["id"], "streaming-read-overwrite", ["-D old", "+I new"]),
        ([], None, []),
        (["id"], None, []),
    ],
)
def test_a_stream_contains_overwrites_if_configured(
    tmp_path: Path, keys: list[str], option: str | None, messages: list[str]
) -> None:
    options = {"bucket": "1" if keys else "-1", **({option: "true"} if option else {})}
    made = new_table(tmp_path, [("id", "INT NOT NULL"), ("s", "STRING")], keys=keys, options=options)
    with made.writer() as writer:
        writer.write(rows(made, (1, "old")))
        writer.commit()
    with made.overwrite() as writer:
        writer.write(rows(made, (1, "new")))
        writer.commit()
    found = [row for change in made.follow(2, until=2) for row in change.rows.to_pylist()]
    assert [f"{row['rowkind']} {row['s']}" for row in found] == messages


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        ({"snapshot": 2}, {"scan.snapshot-id": "1"}),
        ({"tag": "first"}, {"scan.tag-name": "third"}),
        ({"timestamp": 5}, {"scan.watermark": "1"}),
        ({"snapshot": 2}, {"incremental-between": "1,2"}),
        ({"mode": "latest"}, {"scan.mode": "latest-full"}),
    ],
)
def test_an_argument_and_an_option_that_both_choose_the_rows_are_refused(
    table: Table, arguments: dict[str, object], options: dict[str, str]
) -> None:
    with pytest.raises(ConfigError, match=r"one snapshot|two modes"):
        seen(table, options=options, **arguments)


def test_ends_of_changes_are_whole_numbers(table: Table) -> None:
    with pytest.raises(ConfigError, match="end_snapshot is a whole number, not None"):
        table.changes(1, None)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="start_snapshot is a whole number, not '1'"):
        table.changes("1", 2)  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.parametrize("number", [0, -1])
def test_a_snapshot_that_never_existed_has_not_expired(table: Table, number: int) -> None:
    with pytest.raises(SnapshotMissing, match=f"snapshot {number} does not exist"):
        seen(table, snapshot=number)
