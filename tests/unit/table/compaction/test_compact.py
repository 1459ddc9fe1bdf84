"""Compactions of random commits: reads, changelogs and deletion vectors against a dict that plays the table."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from penstock.errors import ConfigError
from penstock.row_kinds import DELETE
from penstock.table.compaction.compact import compact
from penstock.table.compaction.lookup_store import LookupStore
from penstock.table.compaction.policy import Pick, Policy, pick
from penstock.table.merge.incoming_kinds import RetractRefused
from penstock.table.meta.live import live_entries
from penstock.table.schema.changes import AddColumn, ResetOption, SetOption
from penstock.table.usable import check_usable
from tests.unit.table.compaction.memory_bucket import ROW_BYTES, MemoryBucket, MemoryWriter
from tests.unit.table.merge.engine_model import merge_key
from tests.unit.table.merge.tables import schema_of
from tests.unit.table.tables import new_table, rows

COLUMNS = {"k": "INT NOT NULL", "a": "INT", "b": "STRING", "g": "INT"}
TEXT_KEY = {**COLUMNS, "k": "STRING NOT NULL"}
SIZES = {"target-file-size": str(25 * ROW_BYTES)}
PARTIAL = {"merge-engine": "partial-update"}
SUM = {"merge-engine": "aggregation", "fields.a.aggregate-function": "sum", "fields.b.aggregate-function": "max"}
FIRST_ROW = {"merge-engine": "first-row"}
GROUP = {**PARTIAL, "fields.g.sequence-group": "a,b"}
LOOKUP = {"changelog-producer": "lookup"}
FULL = {"changelog-producer": "full-compaction"}
VECTORS = {"deletion-vectors.enabled": "true"}
ROW_DEDUPLICATE = {"changelog-producer.row-deduplicate": "true"}

# name: columns, options, kinds. A deleted row forgets its sequence when compaction drops it, here as in Java: so no
# deletes of rows with a sequence field, and of groups only once the row is there.
TABLES: dict[str, tuple[dict[str, Any], dict[str, str], list[int]]] = {
    "deduplicate": (COLUMNS, {}, [0, 2, 3]),
    "deduplicate, text key": (TEXT_KEY, {}, [0, 2, 3]),
    "deduplicate by sequence": (COLUMNS, {"sequence.field": "g"}, [0, 2]),
    "partial update": (COLUMNS, PARTIAL, [0]),
    "sum": (COLUMNS, SUM, [0]),
    "full changelog": (COLUMNS, FULL, [0, 3]),
    "full changelog of partial update": (COLUMNS, {**PARTIAL, **FULL}, [0]),
    "full changelog without equal rows": (COLUMNS, {**FULL, **ROW_DEDUPLICATE}, [0, 3]),
    "lookup": (COLUMNS, LOOKUP, [0, 2, 3]),
    "lookup, text key": (TEXT_KEY, LOOKUP, [0, 2, 3]),
    "lookup by sequence": (COLUMNS, {**LOOKUP, "sequence.field": "g"}, [0, 2]),
    "lookup without equal rows": (COLUMNS, {**LOOKUP, **ROW_DEDUPLICATE}, [0, 3]),
    "lookup of partial update": (COLUMNS, {**LOOKUP, **PARTIAL}, [0]),
    "lookup of a sequence group": (COLUMNS, {**LOOKUP, **GROUP}, [0, 0, 3]),
    "lookup of sums": (COLUMNS, {**LOOKUP, **SUM}, [0]),
    "vectors": (COLUMNS, VECTORS, [0, 2, 3]),
    "vectors by sequence": (COLUMNS, {**VECTORS, "sequence.field": "g"}, [0, 2]),
    "vectors and lookup": (COLUMNS, {**VECTORS, **LOOKUP}, [0, 3]),
    "vectors of partial update": (COLUMNS, {**VECTORS, **PARTIAL}, [0]),
    "vectors, text key": (TEXT_KEY, VECTORS, [0, 3]),
    "first row": (COLUMNS, FIRST_ROW, [0]),
    "first row with changelog": (COLUMNS, {**FIRST_ROW, **LOOKUP}, [0]),
}


def random_commit(random: Random, columns: dict[str, Any], kinds: list[int]) -> list[tuple[int, dict[str, Any]]]:
    """Mostly few keys, now and then many; all of one region or spread."""
    count, base, width = random.choice([(3, 0, 90), (12, random.randint(0, 70), 20), (60, 0, 90)])
    records = []
    for _ in range(count):
        number = random.randint(base, base + width)
        key = number if columns["k"].startswith("INT") else "k" * (number % 4) + str(number)
        row = {"k": key, "a": random.randint(-9, 9), "b": random.choice("xyz"), "g": random.randint(0, 3)}
        row = {n: None if n in "ab" and random.random() < 0.2 else v for n, v in row.items()}
        records.append((random.choice(kinds), row))
    return records


class Player:
    """Replays a changelog, strictly: every image has to be what is there."""

    def __init__(self) -> None:
        self.rows: dict[Any, dict[str, Any]] = {}

    def play(self, changes: list[tuple[int, dict[str, Any]]]) -> None:
        for kind, row in changes:
            if kind == 0:
                assert row["k"] not in self.rows
                self.rows[row["k"]] = row
            elif kind in (1, 3):
                assert self.rows.pop(row["k"]) == row
            else:
                assert row["k"] not in self.rows
                self.rows[row["k"]] = row

    def shown(self) -> list[dict[str, Any]]:
        return [self.rows[key] for key in sorted(self.rows)]


LOOKING_UP = [name for name in TABLES if name.startswith(("lookup", "vectors", "first row"))]


@pytest.mark.slow
@pytest.mark.parametrize("name", TABLES)
def test_reads_changelogs_and_vectors_follow_the_table(name: str) -> None:
    follow(name, None)


@pytest.mark.slow
@pytest.mark.parametrize("name", LOOKING_UP)
def test_lookups_in_a_store_return_the_rows_of_files(name: str, tmp_path: Path) -> None:
    follow(name, LookupStore(tmp_path))


def follow(name: str, store: LookupStore | None) -> None:
    columns, options, kinds = TABLES[name]
    producer = options.get("changelog-producer", "none")
    for seed in range(1):
        random = Random(f"{name} {seed}")
        policy = Policy(trigger=3, num_levels=5, up_level0=name in LOOKING_UP)
        bucket = MemoryBucket(schema_of(columns, options={**SIZES, **options}), policy, store=store, variant=str(seed))
        history: dict[Any, list[tuple[int, dict[str, Any]]]] = {}
        player = Player()
        for commit in range(20):
            records = random_commit(random, columns, kinds)
            if bucket.spec.merge.groups:
                records = [(kind if row["k"] in history else 0, row) for kind, row in records]
            for record in records:
                history.setdefault(record[1]["k"], []).append(record)
            bucket.flush(records)
            full = commit % 9 == 8
            player.play(bucket.compact(full=full))
            bucket.check_levels()
            expected = state(bucket, history, bypass=producer != "lookup" and not bucket.spec.vectors)
            assert bucket.read() == expected
            if producer == "lookup" or (producer == "full-compaction" and full):
                assert player.shown() == expected


def state(bucket: MemoryBucket, history: dict[Any, list[tuple[int, dict[str, Any]]]], *, bypass: bool) -> list[Any]:
    spec = bucket.spec.merge
    rows = []
    for key in sorted(history):
        records = history[key]
        if spec.sequence_fields:
            records = sorted(records, key=lambda record: record[1]["g"])
        merged = merge_key(spec, records, bypass=bypass)
        if merged is not None:
            rows.append(merged[1])
    return rows


# ---------------------------------------------------------------------------------------------- single rules


def bucket_of(options: dict[str, str], **policy: Any) -> MemoryBucket:
    return MemoryBucket(schema_of(COLUMNS, options={**SIZES, **options}), Policy(**{"trigger": 3, **policy}))


def row(k: int, a: int | None = None) -> dict[str, Any]:
    return {"k": k, "a": a, "b": None, "g": None}


def levels(bucket: MemoryBucket) -> list[tuple[str, int]]:
    return sorted((name, level) for name, level in bucket.live)


def test_a_file_without_overlap_is_upgraded() -> None:
    bucket = bucket_of({})
    bucket.flush([(0, row(k)) for k in range(20)])
    [file] = bucket.levels.all_files
    done = compact(bucket.spec, bucket.bucket_files(), Pick((file,), 4))
    assert done.before == (file,)
    assert done.after == (replace(file, level=4),)


def test_a_file_with_deletes_is_rewritten_at_the_top_level() -> None:
    bucket = bucket_of({})
    bucket.flush([(0, row(1)), (3, row(2))])
    bucket.compact(full=True)
    [file] = bucket.levels.all_files
    assert (file.level, file.row_count, file.delete_row_count) == (5, 1, 0)


def test_deletes_are_kept_below_the_top_level_while_older_rows_may_exist() -> None:
    bucket = bucket_of({})
    bucket.flush([(0, row(k)) for k in range(50)])
    bucket.compact(full=True)
    bucket.flush([(3, row(7))])
    bucket.flush([(3, row(8))])
    bucket.run(Pick(bucket.levels.level0, 4))
    [upper] = bucket.levels.upper[3]
    assert upper.delete_row_count == 2
    assert len(bucket.read()) == 48


def test_a_bucket_with_only_deletes_compacts_to_nothing() -> None:
    bucket = bucket_of({})
    bucket.flush([(0, row(1))])
    bucket.flush([(3, row(1))])
    bucket.compact(full=True)
    assert bucket.live == {}


def test_small_files_are_rewritten_together_and_large_files_upgraded() -> None:
    bucket = bucket_of({})
    bucket.flush([(0, row(k)) for k in range(3)])
    bucket.flush([(0, row(k)) for k in range(10, 13)])
    bucket.flush([(0, row(k)) for k in range(20, 50)])
    large = bucket.levels.level0[0]
    bucket.compact(full=True)
    files = {file.name: file.row_count for file in bucket.levels.all_files}
    assert files.pop(large.name) == 30
    assert list(files.values()) == [6]


def test_outputs_roll_at_the_target_size() -> None:
    bucket = bucket_of({})
    for start in (0, 1):
        bucket.flush([(0, row(k)) for k in range(start, 60, 2)])
    bucket.compact(full=True)
    assert [file.row_count for file in bucket.levels.upper[4]] == [25, 25, 10]


def test_a_file_is_rewritten_if_the_next_level_has_another_format() -> None:
    bucket = bucket_of({"file.format.per.level": "5:avro"})
    bucket.flush([(0, row(1))])
    [before] = bucket.levels.all_files
    done = compact(bucket.spec, bucket.bucket_files(), Pick((before,), 5))
    assert done.after[0].name != before.name


def test_changelog_of_a_commit_contains_net_changes_only() -> None:
    bucket = bucket_of(LOOKUP, up_level0=True)
    bucket.flush([(0, row(1, 10)), (0, row(2, 20)), (0, row(2, 21))])
    assert bucket.compact() == [(0, row(1, 10)), (0, row(2, 21))]
    bucket.flush([(1, row(1, 10)), (2, row(1, 11)), (3, row(2, 21)), (0, row(3, 30)), (3, row(9))])
    assert bucket.compact() == [(1, row(1, 10)), (2, row(1, 11)), (3, row(2, 21)), (0, row(3, 30))]
    bucket.flush([(0, row(1, 11))])
    assert bucket.compact() == [(1, row(1, 11)), (2, row(1, 11))]


def test_equal_images_are_left_out_on_request() -> None:
    bucket = bucket_of({**LOOKUP, **ROW_DEDUPLICATE}, up_level0=True)
    for a in (10, 10):
        bucket.flush([(0, row(1, a))])
        changes = bucket.compact()
    assert changes == []


def test_a_delete_contains_the_old_row() -> None:
    bucket = bucket_of(LOOKUP, up_level0=True)
    bucket.flush([(0, row(1, 10))])
    bucket.compact()
    bucket.flush([(3, row(1, None))])
    assert bucket.compact() == [(3, row(1, 10))]


def test_images_have_the_sequence_numbers_of_their_rows() -> None:
    bucket = bucket_of(LOOKUP, up_level0=True)
    for a in (10, 11):
        bucket.flush([(0, row(1, a))])
        done = compact(bucket.spec, bucket.bucket_files(), pick_of(bucket))
        bucket.apply(done)
    [changelog] = done.changelog
    assert bucket.files.tables[changelog.name].column("_SEQUENCE_NUMBER").to_pylist() == [0, 1]


def pick_of(bucket: MemoryBucket) -> Pick:
    picked = pick(bucket.policy, bucket.levels)
    assert picked is not None
    return picked


def test_a_key_found_in_a_lower_file_is_marked_in_its_vector() -> None:
    bucket = bucket_of(VECTORS, up_level0=True)
    bucket.flush([(0, row(k)) for k in range(50)])
    bucket.compact()
    [base] = bucket.levels.all_files
    bucket.flush([(0, row(7, 1)), (3, row(9)), (0, row(99))])
    bucket.compact()
    assert {name: vector.tolist() for name, vector in bucket.vectors.items()} == {base.name: [7, 9]}


def test_a_row_deleted_by_a_vector_is_not_found_again() -> None:
    bucket = bucket_of({**VECTORS, **LOOKUP}, up_level0=True)
    bucket.flush([(0, row(k)) for k in range(50)])
    bucket.compact()
    bucket.flush([(3, row(7))])
    bucket.compact()
    bucket.flush([(0, row(7, 5))])
    assert bucket.compact() == [(0, row(7, 5))]


def test_full_compaction_of_the_top_level_removes_deleted_rows() -> None:
    bucket = bucket_of(VECTORS, up_level0=True)
    bucket.flush([(0, row(k)) for k in range(50)])
    bucket.compact()
    bucket.flush([(3, row(7))])
    bucket.compact()
    bucket.compact(full=True)
    assert bucket.vectors == {}
    assert sum(file.row_count for file in bucket.levels.all_files) == 49


def test_unchanged_vectors_are_not_reported() -> None:
    bucket = bucket_of(VECTORS, up_level0=True)
    bucket.flush([(0, row(1))])
    assert compact(bucket.spec, bucket.bucket_files(), pick_of(bucket)).vectors is None


def test_a_later_row_of_a_known_key_is_not_a_first_row() -> None:
    bucket = bucket_of({**FIRST_ROW, **LOOKUP}, up_level0=True)
    bucket.flush([(0, row(k, k)) for k in range(50)])
    bucket.compact()
    bucket.flush([(0, row(7, 99)), (2, row(77, 1)), (0, row(77, 2))])
    assert bucket.compact() == [(2, row(77, 1))]


def test_an_error_removes_what_was_written() -> None:
    bucket = bucket_of(PARTIAL)
    for kind in (0, 3):
        bucket.flush([(kind, row(k)) for k in range(3)])
    writers = []

    def watched(level: int) -> MemoryWriter:
        writers.append(bucket.writer("data", 25)(level))
        return writers[-1]

    files = replace(bucket.bucket_files(), open_data=watched)
    with pytest.raises(RetractRefused):
        compact(bucket.spec, files, Pick(bucket.levels.level0, 5))
    assert [writer.aborted for writer in writers] == [True]


def test_a_table_with_lookups_refuses_compaction_without_them() -> None:
    bucket = bucket_of(LOOKUP)
    bucket.flush([(0, row(1))])
    bucket.compact(full=True)
    bucket.flush([(0, row(1))])
    with pytest.raises(ConfigError, match="needs a lookup"):
        compact(bucket.spec, replace(bucket.bucket_files(), lookup=None), Pick(bucket.levels.level0, 4))


def test_a_deletion_is_kept_above_an_older_row(tmp_path: Path) -> None:
    count = 40_000  # so many that the compaction of small files leaves the upper level alone
    table = new_table(
        tmp_path,
        [("id", "INT NOT NULL"), ("v", "INT")],
        options={"bucket": "1", "num-sorted-run.compaction-trigger": "3"},
    )
    with table.writer() as writer:
        writer.write(rows(table, *((number, number * 7919 % 100_003) for number in range(count))))
        writer.commit()
    table.compact()
    for number in range(4):
        with table.writer() as writer:
            writer.write(rows(table, (number, 1)), kinds=np.array([DELETE], np.int8))
            writer.commit()
    levels = {entry.file.level for entry in live_entries(table.store, table.snapshots[-1])}
    assert len(levels - {0}) > 1, "small files were compacted to a level above 0, the large one was left alone"
    assert table.count() == count - 4


@pytest.mark.parametrize("producer", ["none", "input", "lookup", "full-compaction"])
def test_forced_lookups_compact_level_0_as_soon_as_it_has_a_file(tmp_path: Path, producer: str) -> None:
    options = {"force-lookup": "true", "changelog-producer": producer, "write-only": "true"}
    table = new_table(tmp_path, options={"bucket": "1", **options})
    with table.writer() as writer:
        writer.write(rows(table, (1, "a", None)))
        writer.commit()
    table.compact(full=False)
    assert 0 not in {entry.file.level for entry in live_entries(table.store, table.snapshots[-1])}


@pytest.mark.parametrize("trigger", ["9", "2"])
@pytest.mark.parametrize("altered", [True, False], ids=["altered", "one compaction"])
def test_rows_are_not_shown_again_if_the_number_of_levels_changes(
    tmp_path: Path, trigger: str, *, altered: bool
) -> None:
    options = {"bucket": "1", "changelog-producer": "full-compaction", "write-only": "true"}
    table = new_table(tmp_path, options=options)
    changed = {"num-sorted-run.compaction-trigger": trigger}
    for number, values in enumerate([[(1, "a", None), (2, "b", None)], [(2, "c", None)]]):
        with table.writer() as writer:
            writer.write(rows(table, *values))
            writer.commit()
        if number and altered:
            table.store.evolve([SetOption(name, value) for name, value in changed.items()], check_usable)
        table.compact(options=changed if number and not altered else {})
    last = table.snapshots[-1].id
    shown = table.changes(last - 1, last, "changelog").select(["rowkind", "id", "name"]).to_pylist()
    assert [tuple(row.values()) for row in shown] == [("-U", 2, "b"), ("+U", 2, "c")]
    table.compact()  # with the levels that the table has now
    assert len(table.changes(last, table.snapshots[-1].id, "changelog")) == 0


PARTIAL = {"bucket": "1", "merge-engine": "partial-update", "changelog-producer": "full-compaction"}
FORCED = {"force-lookup": "true", "write-only": "true"}


def test_rows_of_upper_levels_are_merged_if_only_full_compactions_look_at_older_rows(tmp_path: Path) -> None:
    # Java Paimon makes such tables.
    table = new_table(tmp_path, [("id", "INT NOT NULL"), ("a", "INT"), ("b", "INT")], options=PARTIAL | FORCED)
    for values in ([(number, number * 7919 % 100_003, None) for number in range(40_000)], [(1, None, 5)]):
        with table.writer() as writer:
            writer.write(rows(table, *values))
            writer.commit()
        table.compact(full=len(values) > 1)
    levels = {entry.file.level for entry in live_entries(table.store, table.snapshots[-1])}
    assert 0 not in levels
    assert len(levels) == 2, "the newer row is on an upper level, above that of the older row"
    assert table.scan(where="id = 1").to_arrow().to_pylist() == [{"id": 1, "a": 7919, "b": 5}]
    table.compact()
    assert table.scan(where="id = 1").to_arrow().to_pylist() == [{"id": 1, "a": 7919, "b": 5}]


@pytest.mark.parametrize("more", [{}, {"merge-engine": "deduplicate", "sequence.field": "a"}])
def test_forced_lookups_that_paimon_would_read_wrong_are_refused(more: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match=r"force-lookup cannot be used(.|\n)*changelog-producer = lookup"):
        check_usable(schema_of({"k": "INT NOT NULL", "a": "STRING"}, options=PARTIAL | FORCED | more))


def test_a_table_with_forced_lookups_that_paimon_made_can_be_altered(tmp_path: Path) -> None:
    table = new_table(tmp_path, [("id", "INT NOT NULL"), ("a", "INT")], options=PARTIAL | FORCED)
    changed = table.store.evolve([AddColumn("b", "INT"), SetOption("num-levels", "3")], check_usable)
    assert changed.names == ("id", "a", "b")
    reset = table.store.evolve([ResetOption("force-lookup")], check_usable)
    with pytest.raises(ConfigError, match="force-lookup cannot be used"):
        table.store.evolve([SetOption("force-lookup", "true")], check_usable)
    assert table.store.schema() == reset
