"""Buckets that are given out: by ours and by Java's assigners in turn, and with another number of them."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pyarrow.compute as pc
import pytest

import penstock
from penstock.errors import ConfigError
from penstock.table.buckets.layout import Layout
from penstock.table.buckets.route import key_hashes
from penstock.table.dynamic_buckets.assigner import decode_hashes
from penstock.table.handle import Table
from penstock.table.meta.entries import HASH_INDEX
from penstock.table.meta.live import index_entries
from tests.golden.relations import Relation, difference
from tests.golden.rows import arrow_changes
from tests.here import run
from tests.interop.oracle.client import JavaRefused, Oracle
from tests.invariants import check_invariants
from tests.shop import Shop, insert

DYNAMIC = {"bucket": "-1", "dynamic-bucket.target-row-num": "5"}
COLUMNS = [("id", "BIGINT NOT NULL"), ("p", "INT NOT NULL"), ("v", "INT")]


def homes(relation: Relation) -> dict[tuple[Any, ...], int]:
    """The bucket of each key. A key that a bucket change gave two homes would show twice."""
    assert relation.buckets is not None
    keys = [tuple(row[:2]) for row in relation.rows]
    assert len(set(keys)) == len(keys)
    return dict(zip(keys, relation.buckets, strict=True))


def hashes_of(table: Table) -> dict[tuple[bytes, int], list[int]]:
    snapshot = table.latest_snapshot
    assert snapshot is not None
    found = {}
    for entry in index_entries(table.store, snapshot):
        assert entry.index_type == HASH_INDEX
        data = table.store.storage.read(table.store.paths.index_file(entry.name, "", entry.bucket))
        found[entry.partition, entry.bucket] = decode_hashes(data, entry.row_count, entry.name).tolist()
    return found


@pytest.mark.parametrize("partitioned", [False, True])
def test_our_writers_and_those_of_java_write_one_table_in_turn(
    oracle: Oracle, tmp_path: Path, partitioned: bool
) -> None:
    """Each time old keys come again, and new ones: every key keeps the bucket it got first, whoever gave it."""
    shop, random = Shop(tmp_path), Random(4)
    sink: dict[str, Any] = {"table-options": DYNAMIC}
    if partitioned:
        sink |= {"partition-keys": ["q1"], "primary-keys": ["id", "q1"]}
    model: dict[int, tuple[int, int]] = {}
    before: dict[Any, int] = {}
    for number, writers in enumerate([2, 3, 2]):
        ours = {key: (key % 2, 10 * number) for key in random.sample(range(30 * (number + 1)), 20)}
        shop.put(f"{number}.json", *(insert("orders", {"id": key, "q1": p, "q2": v}) for key, (p, v) in ours.items()))
        run(shop.spec(sink=sink), writers=writers)
        path = Path(shop.table("orders").path)
        javas = {key: (key % 2, 10 * number + 1) for key in random.sample(range(30 * (number + 1)), 20)}
        oracle.write(path, [["+I", key, p, v] for key, (p, v) in javas.items()], user="java", assigners=3)
        model |= ours | javas
        found = oracle.read(path, buckets=True)
        assert {row[0]: (row[1], row[2]) for row in found.rows} == model
        after = homes(found)
        assert {key: after[key] for key in before} == before
        before = after
        assert difference(found, shop.table("orders").scan().to_arrow()) is None
    indexed = hashes_of(shop.table("orders"))
    every = [(partition, hash_) for (partition, _), hashes in indexed.items() for hash_ in hashes]
    assert len(every) == len(set(every))  # no hash in two buckets of a partition
    assert len(every) == len(model)
    check_invariants(shop.table("orders"), oracle=oracle)


def test_new_keys_fill_buckets_up_to_the_target_and_the_maximum(oracle: Oracle, tmp_path: Path) -> None:
    options = {**DYNAMIC, "dynamic-bucket.max-buckets": "3"}
    path = oracle.create(tmp_path, "b.t", COLUMNS, primary_keys=["id"], options=options)
    table = penstock.open_table(str(path))
    for begin in range(0, 40, 8):
        with table.writer() as writer:
            writer.write(*arrow_changes([["+I", key, 0, begin] for key in range(begin, begin + 8)], COLUMNS))
            writer.commit()
        sizes = sorted(len(hashes) for hashes in hashes_of(table).values())
        assert len(sizes) <= 3
        assert begin + 8 > 15 or all(size <= 5 for size in sizes)
    oracle.write(path, [["+I", key, 0, 99] for key in range(0, 60, 3)])
    assert set(homes(oracle.read(path, buckets=True)).values()) == {0, 1, 2}
    assert len(oracle.read(path).rows) == len(set(range(40)) | set(range(0, 60, 3)))


REFUSAL = (
    r"Try to write partition \{p=0\} with a new bucket num 3, but the previous bucket num is 2. Please switch to batch"
)


def fixed(oracle: Oracle, folder: Path) -> tuple[Path, Table]:
    path = oracle.create(
        folder, "b.t", COLUMNS, primary_keys=["id", "p"], partition_keys=["p"], options={"bucket": "2"}
    )
    oracle.write(path, [["+I", key, key % 2, key] for key in range(20)])
    oracle.alter(path, [{"kind": "set", "key": "bucket", "value": "3"}])
    return path, penstock.open_table(str(path))


def test_an_altered_number_of_buckets_is_refused_as_in_paimon_until_an_overwrite(
    oracle: Oracle, tmp_path: Path
) -> None:
    path, table = fixed(oracle, tmp_path)
    with pytest.raises(JavaRefused, match=REFUSAL):
        oracle.write(path, [["+I", 1, 0, 1]])
    data, kinds = arrow_changes([["+I", 100, 0, 1]], COLUMNS)
    with table.writer() as writer, pytest.raises(ConfigError, match=REFUSAL):
        writer.write(data, kinds)
    everything = table.scan().to_arrow()
    with table.overwrite() as overwrite:
        overwrite.write(everything)
        overwrite.commit()
    with table.writer() as writer:
        writer.write(data, kinds)
        writer.commit()
    oracle.write(path, [["+I", 101, 1, 1]])
    assert len(oracle.read(path).rows) == 22
    assert set(homes(oracle.read(path, buckets=True)).values()) == {0, 1, 2}
    check_invariants(table, oracle=oracle)


def test_each_partition_keeps_its_number_of_buckets_until_it_is_overwritten(oracle: Oracle, tmp_path: Path) -> None:
    path, table = fixed(oracle, tmp_path)
    rows = table.scan().to_arrow()
    with table.overwrite(partition={"p": 1}) as overwrite:
        overwrite.write(rows.filter([key % 2 == 1 for key in rows.column("id").to_pylist()]))
        overwrite.commit()
    assert difference(oracle.read(path), rows) is None
    oracle.write(path, [["+I", 101, 1, 1], ["+I", 7, 5, 1]])  # 5 is new, and has three as well
    with pytest.raises(JavaRefused, match=REFUSAL):
        oracle.write(path, [["+I", 100, 0, 1]])
    with table.writer() as writer, pytest.raises(ConfigError, match=REFUSAL):
        writer.write(*arrow_changes([["+I", 100, 0, 1]], COLUMNS))
    with table.writer() as writer:
        writer.write(*arrow_changes([["+I", 103, 1, 1], ["+I", 8, 5, 1]], COLUMNS))
        writer.commit()
    assert len(oracle.read(path).rows) == 24
    # Filters on the key prune each partition's buckets by that partition's own number.
    for key in (0, 1, 7, 101, 103):
        found = table.scan(where=pc.field("id") == key).to_arrow()
        assert found.num_rows == (2 if key == 7 else 1)


def test_hashes_in_the_index_equal_those_of_java(oracle: Oracle, tmp_path: Path) -> None:
    path = oracle.create(tmp_path, "b.t", COLUMNS, primary_keys=["id"], options=DYNAMIC)
    oracle.write(path, [["+I", key, 0, 0] for key in range(12)], assigners=3)
    table = penstock.open_table(str(path))
    batch = table.scan().to_arrow().combine_chunks().to_batches()[0]
    ours = key_hashes(Layout.of(table.definition), batch, ("id",))
    assert sorted(hash_ for hashes in hashes_of(table).values() for hash_ in hashes) == sorted(ours.tolist())


def test_an_overwrite_that_would_repeat_a_key_is_refused_as_in_java(oracle: Oracle, tmp_path: Path) -> None:
    columns = [("id", "INT NOT NULL"), ("p", "STRING NOT NULL"), ("v", "INT")]
    # Where it is dynamic, Java lets the delete of the key be all that is left of the partition where it lay.
    options = {"bucket": "-1", "dynamic-partition-overwrite": "false"}

    def made(name: str) -> Path:
        path = oracle.create(tmp_path, f"b.{name}", columns, primary_keys=["id"], partition_keys=["p"], options=options)
        oracle.write(path, [["+I", 1, "a", 1], ["+I", 2, "b", 2]])
        return path

    ours, java = made("ours"), made("java")
    moves = [["+I", 1, "b", 3]]
    with pytest.raises(JavaRefused, match="does not belong to this partition"):
        oracle.write(java, moves, overwrite={"p": "b"})
    table = penstock.open_table(str(ours))
    with table.overwrite(partition={"p": "b"}) as writer:
        writer.write(*arrow_changes(moves, columns))
        with pytest.raises(ConfigError, match="is in a partition that is not overwritten"):
            writer.commit()
    fits = [["+I", 2, "b", 4], ["+I", 3, "b", 5]]
    oracle.write(java, fits, overwrite={"p": "b"})
    with table.overwrite(partition={"p": "b"}) as writer:
        writer.write(*arrow_changes(fits, columns))
    assert difference(oracle.read(java), table.scan().to_arrow()) is None
    assert difference(oracle.read(java), oracle.read(ours)) is None


MOVING: dict[str, Any] = {"primary_keys": ["id"], "partition_keys": ["p"]}


def test_a_dynamic_overwrite_that_java_accepts_loses_other_keys(oracle: Oracle, tmp_path: Path) -> None:
    """Key 1 lies in partition 1, and so its delete, and with it that partition, belongs to what Java overwrites."""
    ours, java = (
        oracle.create(tmp_path, f"b.{name}", COLUMNS, options={"bucket": "-1"}, **MOVING) for name in ("ours", "java")
    )
    for path in (ours, java):
        oracle.write(path, [["+I", 1, 1, 1], ["+I", 2, 1, 2], ["+I", 3, 2, 3]])
    moved = [["+I", 1, 3, 10]]
    oracle.write(java, moved, overwrite={})
    assert sorted(oracle.read(java).rows) == [[1, 3, 10], [3, 2, 3]]  # key 2 is gone
    with (
        pytest.raises(ConfigError, match="is in a partition that is not overwritten"),
        penstock.open_table(str(ours)).overwrite() as writer,
    ):
        writer.write(*arrow_changes(moved, COLUMNS))
    assert sorted(oracle.read(ours).rows) == [[1, 1, 1], [2, 1, 2], [3, 2, 3]]


def test_java_repeats_a_moved_key_if_deletes_are_ignored(oracle: Oracle, tmp_path: Path) -> None:
    options = {"bucket": "-1", "ignore-delete": "true"}
    path = oracle.create(tmp_path, "b.t", COLUMNS, options=options, **MOVING)
    oracle.write(path, [["+I", 1, 1, 1]])
    with (
        pytest.raises(ConfigError, match="the table ignores deletes"),
        penstock.open_table(str(path)).writer() as writer,
    ):
        writer.write(*arrow_changes([["+I", 1, 2, 2]], COLUMNS))
    oracle.write(path, [["+I", 1, 2, 2]])
    assert sorted(oracle.read(path).rows) == [[1, 1, 1], [1, 2, 2]]
    with pytest.raises(JavaRefused, match="your data contains duplicates"):
        oracle.write(path, [["+I", 1, 3, 3]])
