"""Entries that cancel, manifests that become few, partitions that decide which manifests are read."""

from __future__ import annotations

import itertools
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import TableCorrupt
from penstock.table.meta.data_file import EMPTY_ROW, EMPTY_STATS, ColumnStats, DataFile
from penstock.table.meta.entries import FileKind, ManifestEntry, ManifestFile
from penstock.table.meta.manifest import may_contain, partition_stats, read_manifest, read_manifest_list
from penstock.table.meta.manifest_merge import merge_entries, merge_manifests
from penstock.table.meta.snapshot import parse_snapshot
from penstock.table.options.table_options import TableOptions
from penstock.table.schema.schema_files import parse_schema
from penstock.table.values.binary_row import decode_row, encode_row
from penstock.table.values.types import INT, STRING, AtomicType
from tests.golden.cases import case_names, unpacked

ADD, DELETE = FileKind.ADD, FileKind.DELETE


def entry(kind: FileKind, name: str, level: int = 0, partition: bytes = EMPTY_ROW, bucket: int = 0) -> ManifestEntry:
    file = DataFile(name, 1, 1, EMPTY_ROW, EMPTY_ROW, EMPTY_STATS, EMPTY_STATS, 0, 0, 0, level)
    return ManifestEntry(kind, partition, bucket, 1, file)


def test_a_delete_cancels_its_add() -> None:
    assert merge_entries([entry(ADD, "a"), entry(ADD, "b"), entry(DELETE, "a")]) == [entry(ADD, "b")]


def test_a_delete_of_an_older_add_is_kept() -> None:
    assert merge_entries([entry(DELETE, "a"), entry(ADD, "b")]) == [entry(DELETE, "a"), entry(ADD, "b")]


def test_a_file_deleted_and_added_again_keeps_both_entries() -> None:
    both = [entry(DELETE, "a"), entry(ADD, "a")]
    assert merge_entries(both) == both
    assert merge_entries([*both, entry(DELETE, "a")]) == [entry(DELETE, "a")]


def test_an_upgrade_is_another_file() -> None:
    upgraded = [entry(ADD, "a"), entry(DELETE, "a"), entry(ADD, "a", level=5)]
    assert merge_entries(upgraded) == [entry(ADD, "a", level=5)]


def test_adding_an_existing_file_is_corruption() -> None:
    with pytest.raises(TableCorrupt, match=r"already contains[\s\S]*file: a[\s\S]*snapshot: 7"):
        merge_entries([entry(ADD, "a"), entry(ADD, "a")], snapshot=7)


class Manifests:
    """Manifests in a dict, each of a hundred bytes an entry."""

    def __init__(self) -> None:
        self.entries: dict[str, list[ManifestEntry]] = {}
        self.reads: list[str] = []

    def write(self, entries: list[ManifestEntry]) -> list[ManifestFile]:
        name = f"manifest-{len(self.entries)}"
        self.entries[name] = list(entries)
        added = sum(item.kind is ADD for item in entries)
        stats = partition_stats([item.partition for item in entries], [INT])
        buckets = [item.bucket for item in entries]
        size = 100 * len(entries)
        return [ManifestFile(name, size, added, len(entries) - added, stats, 0, min(buckets), max(buckets))]

    def read(self, manifest: ManifestFile) -> list[ManifestEntry]:
        self.reads.append(manifest.name)
        return self.entries[manifest.name]

    def merge(self, manifests: list[ManifestFile], target: int, count: int, full: int) -> list[ManifestFile]:
        options = {
            "manifest.target-file-size": str(target),
            "manifest.merge-min-count": str(count),
            "manifest.full-compaction-threshold-size": str(full),
        }
        return merge_manifests(
            manifests, read=self.read, write=self.write, options=TableOptions(options), partition_types=[INT]
        )


def part(value: int | None) -> bytes:
    return encode_row([value], [INT])


def added(*names: str, partition: int = 1, bucket: int = 0) -> list[ManifestEntry]:
    return [entry(ADD, name, partition=part(partition), bucket=bucket) for name in names]


def taken(*names: str, partition: int = 1, bucket: int = 0) -> list[ManifestEntry]:
    return [entry(DELETE, name, partition=part(partition), bucket=bucket) for name in names]


def test_small_manifests_are_kept_up_to_a_number() -> None:
    store = Manifests()
    small = [store.write(added(name))[0] for name in "abc"]
    assert store.merge(small, target=10_000, count=4, full=10**9) == small
    small += store.write(added("d"))
    (merged,) = store.merge(small, target=10_000, count=4, full=10**9)
    assert store.entries[merged.name] == added("a", "b", "c", "d")


def test_manifests_are_merged_up_to_the_target_size_and_large_ones_are_kept() -> None:
    store = Manifests()
    manifests = [store.write(added(*names))[0] for names in ("abcd", "e", "fg", "h")]
    large, merged, last = store.merge(manifests, target=300, count=30, full=10**9)
    assert (large, last) == (manifests[0], manifests[3])
    assert store.entries[merged.name] == added("e", "f", "g")


def test_manifests_that_cancel_each_other_are_removed() -> None:
    store = Manifests()
    manifests = store.write(added("a")) + store.write(taken("a"))
    assert store.merge(manifests, target=10_000, count=2, full=10**9) == []


def test_minor_merges_keep_deletes_of_older_manifests() -> None:
    store = Manifests()
    old = store.write(added(*"abcdefgh"))
    new = store.write(taken("a")) + store.write(added("i"))
    first, merged = store.merge(old + new, target=700, count=2, full=10**9)
    assert first == old[0]
    assert store.entries[merged.name] == [*taken("a"), *added("i")]


def test_full_merges_apply_deletes_and_do_not_read_other_large_manifests() -> None:
    store = Manifests()
    elsewhere = store.write(added(*"ABCDEFGH", partition=2))
    other_bucket = store.write(added(*"STUVWXYZ", bucket=1))
    untouched = store.write(added(*"12345678"))
    touched = store.write(added(*"abcdefgh"))
    new = store.write(taken("a")) + store.write(added("i"))
    every = [*elsewhere, *other_bucket, *untouched, *touched, *new]
    result = store.merge(every, target=800, count=30, full=200)
    assert result[:3] == [*elsewhere, *other_bucket, *untouched]
    assert store.entries[result[3].name] == added(*"bcdefghi")
    assert not {elsewhere[0].name, other_bucket[0].name} & set(store.reads)


def test_full_merges_keep_the_order_of_postponed_files() -> None:
    store = Manifests()
    older = store.write([*added("a", bucket=-2), *added(*"qrstuvw", partition=2, bucket=-2)])
    newer = store.write(added(*"bcdefghi", bucket=-2))
    assigned = store.write(added(*"ABCDEFGH"))
    gone = store.write(taken(*"qrstuvw", partition=2, bucket=-2))
    result = store.merge([*older, *newer, *assigned, *gone], target=800, count=30, full=200)
    assert result[0] == assigned[0]
    order = [entry.file.name for manifest in result[1:] for entry in store.entries[manifest.name]]
    assert order == list("abcdefghi")


def test_merges_keep_the_live_files_and_the_order_of_postponed_ones() -> None:
    for seed in range(300):
        draw, store = Random(seed), Manifests()
        manifests: list[ManifestFile] = []
        live: list[tuple[str, int, int]] = []
        for number in range(draw.randint(2, 10)):
            entries: list[ManifestEntry] = []
            for place in range(draw.randint(1, 8)):
                if live and draw.random() < 0.3:
                    name, partition, bucket = live.pop(draw.randrange(len(live)))
                    entries += taken(name, partition=partition, bucket=bucket)
                else:
                    name, partition, bucket = f"{number}-{place}", draw.choice((1, 2)), draw.choice((-2, -2, 0, 1))
                    entries += added(name, partition=partition, bucket=bucket)
                    live.append((name, partition, bucket))
            manifests += store.write(entries)
        result = store.merge(
            manifests, target=draw.choice((200, 800)), count=draw.choice((2, 30)), full=draw.choice((100, 400))
        )
        merged = merge_entries([entry for made in result for entry in store.entries[made.name]])
        assert sorted(entry.file.name for entry in merged) == sorted(name for name, _, _ in live), seed
        postponed = [entry.file.name for entry in merged if entry.bucket == -2]
        assert postponed == [name for name, _, bucket in live if bucket == -2], seed


def test_one_manifest_is_not_merged_with_itself() -> None:
    store = Manifests()
    only = store.write(added("a"))
    assert store.merge(only, target=10_000, count=1, full=1) == only


@given(st.lists(st.tuples(st.integers(0, 4), st.booleans(), st.integers(0, 2)), max_size=40))
def test_merging_manifests_keeps_the_files_of_the_table(steps: list[tuple[int, bool, int]]) -> None:
    store = Manifests()
    manifests: list[ManifestFile] = []
    model: dict[int, ManifestEntry] = {}
    for turn, (name, upgrade, cut) in enumerate(steps):
        fresh = entry(ADD, f"{name}", turn if upgrade else 0, part(name % 2), name % 3)
        old = model.pop(name, None)
        delta = [ManifestEntry(DELETE, old.partition, old.bucket, 1, old.file)] if old else []
        if not old or upgrade:
            model[name] = fresh
            delta.append(fresh)
        manifests += store.write(delta)
        manifests = store.merge(manifests, target=200 + 100 * cut, count=3, full=(300, 900, 10**9)[cut])
        held = merge_entries(itertools.chain.from_iterable(store.entries[manifest.name] for manifest in manifests))
        assert sorted(held, key=str) == sorted(model.values(), key=str)


def test_partition_stats_skip_nulls_and_count_them() -> None:
    types = [INT, STRING]
    rows = [(3, "b"), (None, "ü"), (3, None), (3, None), (-1, "b")]
    stats = partition_stats([encode_row(row, types) for row in rows], types)
    assert stats == ColumnStats(encode_row([-1, "b"], types), encode_row([3, "ü"], types), (1, 2))


def test_partition_stats_without_partitions_are_empty() -> None:
    assert partition_stats([EMPTY_ROW] * 3, []) == ColumnStats(EMPTY_ROW, EMPTY_ROW, ())


def test_stats_show_which_partitions_may_be_in_a_manifest() -> None:
    nulls = partition_stats([part(None)], [INT])
    some = partition_stats([part(2), part(5)], [INT])
    assert [may_contain(some, [part(value)], [INT]) for value in (1, 2, 3, 5, 6, None)] == [
        False,
        True,
        True,
        True,
        False,
        False,
    ]
    assert [may_contain(nulls, [part(value)], [INT]) for value in (1, None)] == [False, True]
    assert may_contain(EMPTY_STATS, [part(1)], [INT])


def test_stats_order_floats_as_java_does() -> None:
    double = [AtomicType("DOUBLE")]
    rows = [encode_row([value], double) for value in (0.0, -0.0, float("nan"), 1.0)]
    stats = partition_stats(rows, double)
    assert (stats.min_values, stats.max_values) == (rows[1], rows[2])


@pytest.mark.parametrize("case", case_names())
def test_stats_of_golden_manifests_are_recomputed(case: str) -> None:
    table = unpacked() / case / "table"
    schemas = [parse_schema(path.read_bytes(), path.name) for path in table.glob("schema/schema-*")]
    types = [column.type for column in schemas[0].select(schemas[0].partition_keys)]
    for path in table.glob("manifest/manifest-list-*"):
        for listed in read_manifest_list(path.read_bytes(), path.name):
            entries = read_manifest((table / "manifest" / listed.name).read_bytes(), listed.name)
            stats = partition_stats([item.partition for item in entries], types)
            assert decode_row(stats.min_values, types) == decode_row(listed.partition_stats.min_values, types)
            assert stats == listed.partition_stats or case.startswith("py_")
            assert listed.added_files == sum(item.kind is ADD for item in entries)
    for path in table.glob("snapshot/snapshot-*"):
        snapshot = parse_snapshot(path.read_bytes(), path.name)
        names = [snapshot.base_manifest_list, snapshot.delta_manifest_list]
        lists = [read_manifest_list((table / "manifest" / name).read_bytes(), name) for name in names]
        files = (table / "manifest" / item.name for item in itertools.chain(*lists))
        held = merge_entries(item for file in files for item in read_manifest(file.read_bytes(), file.name))
        assert all(item.kind is ADD for item in held)
        assert sum(item.file.row_count for item in held) == snapshot.total_record_count
