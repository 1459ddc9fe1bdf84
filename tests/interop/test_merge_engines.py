"""Random rows through every merge engine, here and in Java: files, reads, compactions, changelogs are the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

import datasketches
import numpy as np
import pyarrow as pa
import pytest
from pyroaring import BitMap

import penstock
from penstock.table.buckets.layout import Layout
from penstock.table.compaction.compact import CompactionInput, compact
from penstock.table.compaction.compaction_result import CompactionResult
from penstock.table.compaction.lookup import Lookup
from penstock.table.compaction.plan import CompactionSpec
from penstock.table.compaction.policy import Pick, Policy, pick, pick_all
from penstock.table.files.deletion_vectors import decode_vectors
from penstock.table.files.file_reader import FileReader
from penstock.table.merge.sorted_runs import Levels
from penstock.table.meta.data_file import DataFile
from penstock.table.meta.entries import DELETION_VECTORS
from penstock.table.meta.live import changelog_entries, index_entries, live_entries
from penstock.table.meta.snapshot import CommitKind, Snapshot
from tests.golden.relations import canonical_of, difference, relation_of
from tests.interop.oracle.client import Oracle
from tests.unit.table.compaction.memory_bucket import MemoryFiles, MemoryWriter
from tests.unit.table.merge.aggregates.test_roaring64 import bitmap_of, numbers_in
from tests.unit.table.merge.engine_tables import IGNORING, TABLES, random_row
from tests.unit.table.merge.tables import rows_table, spec_of

ALL = TABLES | IGNORING
KINDS = ("+I", "-U", "+U", "-D")
KEYS = range(30)
COMPACTIONS = 11
UNORDERED = frozenset({"set", "keyed"})  # Java keeps these in hash tables


def random_commits(name: str, count: int = 5) -> Iterator[tuple[pa.Table, list[int]]]:
    columns, options, kinds = ALL[name]
    random, spec = Random(name), spec_of(columns, options)
    for _ in range(count):
        keys = [random.choice(KEYS) for _ in range(random.randint(1, 50))]
        if spec.descending:
            # Java 1.3.1 forgets the order within one flush; we do not.
            keys = list(dict.fromkeys(keys))
        rows = [{**random_row(random, columns), "k": key} for key in keys]
        drawn = [random.choice(kinds) for _ in rows]
        table = rows_table(spec, [(0, kind, row) for kind, row in zip(drawn, rows, strict=True)])
        yield table.drop_columns(["_SEQUENCE_NUMBER", "_VALUE_KIND"]), drawn


def rows_with_kinds(rows: pa.Table, kinds: list[int], columns: dict[str, Any]) -> list[list[Any]]:
    """As the oracle takes them."""
    return [[KINDS[kind], *row] for kind, row in zip(kinds, relation_of(rows, columns).rows, strict=True)]


@pytest.mark.parametrize("name", ALL)
def test_files_and_reads_of_random_commits_equal_those_of_java(oracle: Oracle, name: str, tmp_path: Path) -> None:
    columns, options, _ = ALL[name]
    options = {**options, "bucket": "1", "write-only": "true"}
    java, ours = (
        oracle.create(tmp_path, f"db.{who}", list(columns.items()), primary_keys=["k"], options=options)
        for who in ("java", "ours")
    )
    for number, (rows, kinds) in enumerate(random_commits(name), 1):
        oracle.write(java, rows_with_kinds(rows, kinds, columns))
        with penstock.open_table(str(ours)).writer(commit_user="test") as writer:
            writer.write(rows, kinds=[KINDS[kind] for kind in kinds])
            writer.commit(identifier=number)
        assert file_rows(ours, columns) == file_rows(java, columns), f"commit {number}"
        expected = replace(oracle.read(java), unordered=UNORDERED)
        assert difference(expected, penstock.open_table(str(java)).scan().to_arrow()) is None, f"commit {number}"
        assert difference(expected, oracle.read(ours)) is None, f"commit {number}"


def test_row_kinds_are_read_from_the_rowkind_field_as_in_java(oracle: Oracle, tmp_path: Path) -> None:
    columns = [("k", "INT NOT NULL"), ("v", "INT"), ("op", "STRING NOT NULL")]
    options = {"rowkind.field": "op", "bucket": "1", "write-only": "true"}
    java, ours = (
        oracle.create(tmp_path, f"db.{who}", columns, primary_keys=["k"], options=options) for who in ("java", "ours")
    )
    random, table = Random(1), penstock.open_table(str(ours))
    for number in range(4):
        rows = [[random.choice(KEYS), random.randint(0, 9), random.choice(KINDS)] for _ in range(20)]
        oracle.write(java, [["+I", *row] for row in rows])
        with table.writer() as writer:
            writer.write(pa.table(dict(zip(("k", "v", "op"), zip(*rows, strict=True), strict=True))))
            writer.commit()
        assert file_rows(ours, dict(columns)) == file_rows(java, dict(columns)), f"commit {number}"
        assert difference(oracle.read(java), penstock.open_table(str(ours)).scan().to_arrow()) is None


class Bucket:
    """The one bucket of a table on disk."""

    def __init__(self, path: Path) -> None:
        self.store = penstock.open_table(str(path)).store
        self.schema = self.store.schema()
        self.layout = Layout.of(self.schema)
        self.reader = FileReader(
            self.store.storage,
            self.layout.path_of(self.store.paths, bytes(12), 0),
            self.store.schemas.get,
            self.schema.fields,
            with_sequence=True,
            with_kind=True,
        )

    def files(self, snapshot: Snapshot) -> list[DataFile]:
        return [entry.file for entry in live_entries(self.store, snapshot)]

    def rows(self, file: DataFile) -> pa.Table:
        return pa.Table.from_batches(self.reader.read(file))


def file_rows(path: Path, columns: dict[str, Any]) -> Counter[Any]:
    bucket = Bucket(path)
    latest = bucket.store.snapshots.latest()
    assert latest is not None
    return Counter(
        row for file in bucket.files(latest) for row in canonical_rows(bucket.rows(file), columns, file.level)
    )


def canonical_rows(table: pa.Table, columns: dict[str, Any], level: int) -> Iterator[Any]:
    types = {"_SEQUENCE_NUMBER": "BIGINT", "_VALUE_KIND": "TINYINT", **columns}
    rows = relation_of(table, types)
    canonicals = [canonical_of(types[name], unordered=name in UNORDERED) for name in rows.columns]
    for row in rows.rows:
        yield (level, *(canonical(value) for canonical, value in zip(canonicals, row, strict=True)))


LOOKUP = {"changelog-producer": "lookup"}
FULL = {"changelog-producer": "full-compaction"}
VECTORS = {"deletion-vectors.enabled": "true"}
EQUAL_ROWS = {"changelog-producer.row-deduplicate": "true"}
# Table of above, more options. Deletes that come before any row of their key make Java's lookup merge show rows of
# negative sums and the like, as ours does.
COMPACTED: dict[str, tuple[str, dict[str, str]]] = {
    "deduplicate": ("deduplicate", {}),
    "by sequence": ("two sequence fields", {}),
    "partial update": ("partial update", {}),
    "sequence groups": ("sequence groups", {}),
    "aggregation": ("aggregation", {}),
    "aggregation takes back": ("aggregation takes back", {}),
    "aggregation removes": ("aggregation removes", {}),
    "full changelog": ("deduplicate", FULL),
    "full changelog without equal rows": ("deduplicate", {**FULL, **EQUAL_ROWS}),
    "full changelog of partial update": ("partial update removes", FULL),
    "full changelog of aggregation": ("aggregation takes back", FULL),
    "lookup": ("deduplicate", LOOKUP),
    "lookup without equal rows": ("deduplicate", {**LOOKUP, **EQUAL_ROWS}),
    "lookup by sequence": ("one sequence field", LOOKUP),
    "lookup of partial update": ("partial update", LOOKUP),
    "lookup of partial update that removes": ("partial update removes", LOOKUP),
    "lookup of sequence groups": ("sequence groups", LOOKUP),
    "lookup of groups that remove": ("groups remove", LOOKUP),
    "lookup of aggregation": ("aggregation takes back", LOOKUP),
    "vectors": ("deduplicate", VECTORS),
    "vectors by sequence": ("one sequence field", VECTORS),
    "vectors and lookup": ("deduplicate", {**VECTORS, **LOOKUP}),
    "vectors of partial update": ("partial update", VECTORS),
    "vectors of aggregation": ("aggregation", {**VECTORS, **LOOKUP}),
    "first row": ("first row", {}),
    "first row with changelog": ("first row", LOOKUP),
}


@pytest.mark.parametrize("name", COMPACTED)
def test_compactions_of_java_files_equal_those_of_java(oracle: Oracle, name: str, tmp_path: Path) -> None:
    table, more = COMPACTED[name]
    columns, options, _ = TABLES[table]
    options = {**options, **more, "bucket": "1", "num-sorted-run.compaction-trigger": "3"}
    path = oracle.create(tmp_path, "db.t", list(columns.items()), primary_keys=["k"], options=options)
    bucket = CompactedBucket(path, columns)
    for number, (rows, kinds) in enumerate(random_commits(table, COMPACTIONS)):
        full = number % 6 == 5
        oracle.write(path, rows_with_kinds(rows, kinds, columns), compact="full" if full else "auto")
        bucket.compare(f"commit {number}", full=full)


@dataclass(frozen=True)
class Shape:
    """Return the rows of the bucket and its changelog; rows deleted by vectors are marked."""

    rows: Counter[Any]
    changelog: Counter[Any]


class CompactedBucket(Bucket):
    def __init__(self, path: Path, columns: dict[str, Any]) -> None:
        super().__init__(path)
        self.columns = columns
        self.spec = CompactionSpec.of(self.schema)
        self.policy = Policy.of(self.schema.typed, needs_lookup=self.spec.merge.needs_upper_levels)
        self.memory = MemoryFiles(self.spec)

    def compare(self, what: str, *, full: bool) -> None:
        """Compact the inputs of Java's last commit again and compare the results."""
        latest = self.store.snapshots.latest()
        assert latest is not None
        before = latest
        if latest.commit_kind is CommitKind.COMPACT:
            before = self.store.snapshots.get(latest.id - 1)
        levels = Levels.of(self.files(before), self.policy.num_levels)
        vectors = self.vectors(before)
        picked = pick_all(levels, vectors) if full else pick(self.policy, levels)
        assert (picked is None) == (latest is before), f"{what}: Java compacted otherwise"
        if picked is None:
            return
        done = compact(self.spec, self.bucket_files(levels, vectors), self.as_java_picked(levels, picked, latest))
        java = [(file, self.rows(file)) for file in self.files(latest)]
        changes = [(file, self.rows(file)) for file in (entry.file for entry in changelog_entries(self.store, latest))]
        theirs = self.shape(java, self.vectors(latest), changes)
        ours = self.our_shape(levels, vectors, done)
        assert ours.rows - theirs.rows == theirs.rows - ours.rows, f"{what}: rows"
        assert ours.changelog == theirs.changelog, f"{what}: changelog"

    def as_java_picked(self, levels: Levels, picked: Pick, latest: Snapshot) -> Pick:
        """The oracle lets Java pick a second time when the first compaction is done: then more files are gone."""
        after = {(file.name, file.level) for file in self.files(latest)}
        gone = tuple(file for file in levels.all_files if (file.name, file.level) not in after)
        known = {(file.name, file.level) for file in levels.all_files}
        new = [level for name, level in after if (name, level) not in known]
        level = max(new, default=picked.level)
        assert {file.name for file in picked.files} <= {file.name for file in gone} or level == picked.level
        return Pick(gone, level)

    def bucket_files(self, levels: Levels, vectors: dict[str, np.ndarray[Any, Any]]) -> CompactionInput:
        names = iter(range(1_000))
        return CompactionInput(
            levels=levels,
            reader=self.reader,
            open_data=lambda level: MemoryWriter(self.memory, level, "data", names, 10_000),
            open_changelog=lambda level: MemoryWriter(self.memory, level, "changelog", names, 10_000),
            vectors=vectors,
            lookup=Lookup(self.spec.merge, self.reader),
        )

    def vectors(self, snapshot: Snapshot) -> dict[str, np.ndarray[Any, Any]]:
        found: dict[str, np.ndarray[Any, Any]] = {}
        for entry in index_entries(self.store, snapshot):
            if entry.index_type == DELETION_VECTORS and entry.vector_ranges:
                path = self.store.paths.index_file(entry.name, "", 0)
                found |= decode_vectors(self.store.storage.read(path), entry.vector_ranges, path)
        return found

    def our_shape(self, levels: Levels, vectors: dict[str, np.ndarray[Any, Any]], done: CompactionResult) -> Shape:
        gone = {(file.name, file.level) for file in done.before}
        stays = [file for file in levels.all_files if (file.name, file.level) not in gone]
        files = [(file, self._table(file)) for file in (*stays, *done.after)]
        after = vectors if done.vectors is None else dict(done.vectors)
        return self.shape(files, after, [(file, self._table(file)) for file in done.changelog])

    def _table(self, file: DataFile) -> pa.Table:
        return self.memory.tables.get(file.name) or self.rows(file)

    def shape(
        self,
        files: list[tuple[DataFile, pa.Table]],
        vectors: dict[str, np.ndarray[Any, Any]],
        changelog: list[tuple[DataFile, pa.Table]],
    ) -> Shape:
        rows: Counter[Any] = Counter()
        for file, table in files:
            deleted = set(vectors.get(file.name, np.zeros(0, np.int64)).tolist())
            for place, row in enumerate(canonical_rows(table, self.columns, file.level)):
                rows[*row, place in deleted] += 1
        changes = Counter(row for _, table in changelog for row in canonical_rows(table, self.columns, 0))
        return Shape(rows, changes)


def test_merged_sketches_are_read_by_java(oracle: Oracle, tmp_path: Path) -> None:
    options = {"merge-engine": "aggregation", "bucket": "1", "write-only": "true"}
    options |= {"fields.hll.aggregate-function": "hll_sketch", "fields.theta.aggregate-function": "theta_sketch"}
    columns = [("k", "INT NOT NULL"), ("hll", "BYTES"), ("theta", "BYTES")]
    path = oracle.create(tmp_path, "db.t", columns, primary_keys=["k"], options=options)
    written = []
    for start in (0, 40, 3000):
        hll, theta = datasketches.hll_sketch(12), datasketches.update_theta_sketch(12)
        for number in range(start, start + start + 50):
            hll.update(number)
            theta.update(number)
        written.append((hll.serialize_compact(), theta.compact().serialize()))
    for hll_bytes, theta_bytes in written[:2]:
        oracle.write(path, [("+I", 1, hll_bytes.hex(), theta_bytes.hex())])
    assert estimates(path) == estimates_of(oracle.read(path).rows[0])
    [ours] = penstock.open_table(str(path)).scan().to_arrow().to_pylist()
    again = oracle.create(tmp_path, "db.again", columns, primary_keys=["k"], options=options)
    oracle.write(again, [("+I", 1, ours["hll"].hex(), ours["theta"].hex())])
    oracle.write(again, [("+I", 1, *(part.hex() for part in written[2]))])
    assert estimates(again) == estimates_of(oracle.read(again).rows[0])


def test_sketches_of_all_sizes_are_united_as_in_java(oracle: Oracle, tmp_path: Path) -> None:
    """Their bits are equal, and their estimates as far as the two libraries estimate equal bits alike."""
    options = {"merge-engine": "aggregation", "bucket": "1", "write-only": "true"}
    options |= {"fields.hll.aggregate-function": "hll_sketch"}
    columns = [("k", "INT NOT NULL"), ("hll", "BYTES")]
    path = oracle.create(tmp_path, "db.t", columns, primary_keys=["k"], options=options)
    chance = Random(3)
    for start in range(0, 3 * 10**6, 10**6):
        rows = []
        for key in range(150):
            sketch = datasketches.hll_sketch(chance.randrange(4, 16), datasketches.tgt_hll_type.HLL_8)
            for number in range(chance.choice([0, 1, 3, 8, 40, 200, 700, 4000])):
                sketch.update(start + number)
            rows.append(("+I", key, bytes(sketch.serialize_compact()).hex()))
        oracle.write(path, rows)
    java = {int(key): bytes.fromhex(text) for key, text in oracle.read(path).rows}
    ours = {row["k"]: row["hll"] for row in penstock.open_table(str(path)).scan().to_arrow().to_pylist()}
    read = {key: [datasketches.hll_sketch.deserialize(one[key]) for one in (ours, java)] for key in java}
    assert {key: sketch.lg_config_k for key, (sketch, _) in read.items()} == {
        key: sketch.lg_config_k for key, (_, sketch) in read.items()
    }
    for key, (sketch, other) in read.items():
        error = 1 / 2 ** (other.lg_config_k / 2)
        assert sketch.get_estimate() == pytest.approx(other.get_estimate(), rel=error), key


def estimates(path: Path) -> tuple[float, float]:
    [row] = penstock.open_table(str(path)).scan().to_arrow().to_pylist()
    return estimates_of([1, row["hll"].hex(), row["theta"].hex()])


def estimates_of(row: list[Any]) -> tuple[float, float]:
    hll, theta = (bytes.fromhex(cell) for cell in row[1:])
    read = datasketches.hll_sketch.deserialize(hll), datasketches.compact_theta_sketch.deserialize(theta)
    return read[0].get_estimate(), read[1].get_estimate()


def test_roaring_bitmaps_are_merged_as_in_java(oracle: Oracle, tmp_path: Path) -> None:
    options = {"merge-engine": "aggregation", "bucket": "1", "write-only": "true"}
    options |= {"fields.narrow.aggregate-function": "rbm32", "fields.wide.aggregate-function": "rbm64"}
    columns = [("k", "INT NOT NULL"), ("narrow", "BYTES"), ("wide", "BYTES")]
    path = oracle.create(tmp_path, "db.t", columns, primary_keys=["k"], options=options)
    random, numbers = Random(1), list[int]()
    for _ in range(4):
        drawn = [random.randrange(2 ** random.choice([4, 20, 40, 63])) for _ in range(200)]
        drawn += range(start := random.randrange(2**33), start + random.randrange(6000))
        numbers += drawn
        narrow = BitMap(number % 2**32 for number in drawn).serialize()
        oracle.write(path, [("+I", 1, narrow.hex(), bitmap_of(drawn).hex())])
    [[_, narrow_of_java, wide_of_java]] = oracle.read(path).rows
    [ours] = penstock.open_table(str(path)).scan().to_arrow().to_pylist()
    assert ours["narrow"].hex() == narrow_of_java
    assert numbers_in(ours["wide"]) == numbers_in(bytes.fromhex(wide_of_java)) == sorted(set(numbers))


@pytest.mark.parametrize(
    ("options", "after"),
    [
        ({"merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"}, (1, 5, 7)),
        (
            {
                "merge-engine": "aggregation",
                "aggregation.remove-record-on-delete": "true",
                "fields.b.aggregate-function": "sum",
            },
            (1, 5, 13),
        ),
    ],
)
@pytest.mark.parametrize("together", [True, False])
def test_an_insert_after_a_delete_in_one_commit_is_merged_as_in_java(
    oracle: Oracle, tmp_path: Path, options: dict[str, str], after: tuple[int, ...], together: bool
) -> None:
    """docs/tables.md says so: a commit holds one row of a key, and that is the insert."""
    columns = [("id", "INT NOT NULL"), ("a", "INT"), ("b", "INT")]
    changes: list[tuple[Any, ...]] = [("-D", 1, None, None), ("+I", 1, None, 7)]
    found = []
    for name in ("ours", "javas"):
        path = oracle.create(
            tmp_path / name, "shop.t", columns, primary_keys=["id"], options={"bucket": "1", **options}
        )
        commits = [[("+I", 1, 5, 6)], changes] if together else [[("+I", 1, 5, 6)], *([change] for change in changes)]
        table = penstock.open_table(str(path))
        for number, rows in enumerate(commits, 1):
            if name == "javas":
                oracle.write(path, rows, user="u", identifier=number, compact="none")
                continue
            with table.writer(commit_user="u") as writer:
                values = [pa.array([row[place] for row in rows], pa.int32()) for place in (1, 2, 3)]
                writer.write(pa.table(values, names=["id", "a", "b"]), [row[0] for row in rows])
                writer.commit(number)
        found.append(oracle.read(path))
    assert difference(found[0], found[1]) is None
    assert [tuple(row) for row in found[0].rows] == [after if together else (1, None, 7)]
