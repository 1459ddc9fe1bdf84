"""The lying store: it must lie exactly as told, and tell the truth otherwise."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.storage.base import Storage
from tests.simulation.store import Died, Disk, Fault, SimStore, StoreFailure, at, sometimes

EMPTY = FileNotFoundError


@pytest.fixture
def disk() -> Disk:
    disk = Disk()
    SimStore(disk).write("/t/old", b"old")
    return disk


def names(store: SimStore, folder: str = "/t") -> set[str]:
    return {entry.name for entry in store.list(folder)}


def test_simulated_store_answers_every_call_of_a_storage() -> None:
    calls = {name for name in vars(Storage) if not name.startswith("_")}
    assert calls <= set(dir(SimStore))


def test_create_accepts_a_name_once(disk: Disk) -> None:
    store = SimStore(disk)
    assert store.create("/t/snapshot-1", b"a")
    assert not store.create("/t/snapshot-1", b"b")
    assert store.read("/t/snapshot-1") == b"a"
    assert store.read_range("/t/old", 1, 2) == b"ld"


def test_missing_file_is_file_not_found_and_missing_folder_is_empty(disk: Disk) -> None:
    with pytest.raises(EMPTY):
        SimStore(disk).read("/t/none")
    assert SimStore(disk).list("/nowhere") == []


def test_a_failure_before_writes_nothing_and_after_writes_everything(disk: Disk) -> None:
    for fault, left in [(Fault.BEFORE, False), (Fault.AFTER, True)]:
        with pytest.raises(StoreFailure):
            SimStore(disk, at(1, fault)).create(f"/t/{fault.name}", b"x")
        assert SimStore(disk).exists(f"/t/{fault.name}") is left


def test_only_hints_and_new_files_of_writers_are_torn(disk: Disk) -> None:
    older = SimStore(disk).read("/t/old")
    for operation in ("write", "create"):
        path = "/t/old" if operation == "write" else "/t/new"
        with pytest.raises(StoreFailure):
            getattr(SimStore(disk, at(1, Fault.TORN)), operation)(path, b"0123456789")
        assert any(name.startswith(f".{path[3:]}.") for name in names(SimStore(disk)))
    assert SimStore(disk).read("/t/old") == older
    assert not SimStore(disk).exists("/t/new")
    with pytest.raises(StoreFailure):
        SimStore(disk, at(1, Fault.TORN)).write("/t/LATEST", b"0123456789")
    with pytest.raises(StoreFailure), SimStore(disk, at(2, Fault.TORN)).open_output("/t/data") as written:
        written.write(b"0123456789")
    for name in ("LATEST", "data"):
        assert b"0123456789".startswith(SimStore(disk).read(f"/t/{name}"))
        assert SimStore(disk).size(f"/t/{name}") < 10


def test_stale_listing_misses_the_last_change_and_only_that_once(disk: Disk) -> None:
    store = SimStore(disk, at(3, Fault.STALE), seed=1)
    store.create("/t/new", b"")
    store.delete("/t/old")
    assert "old" in names(store)
    assert names(store) == {"new"}


def test_a_killed_process_writes_nothing_more_and_its_files_are_kept(disk: Disk) -> None:
    store = SimStore(disk, at(1, Fault.DIES_AFTER))
    with pytest.raises(Died):
        store.write("/t/a", b"1")
    with pytest.raises(Died):
        store.write("/t/b", b"2")
    assert names(SimStore(disk)) == {"old", "a"}


def test_slow_operation_moves_the_clock(disk: Disk) -> None:
    before = disk.clock()
    SimStore(disk, at(1, Fault.SLOW)).read("/t/old")
    assert disk.clock() - before == 60_000


def test_the_same_seed_results_in_the_same_history() -> None:
    def story(seed: int) -> list[str]:
        store = SimStore(Disk(), sometimes(0.3, seed, (Fault.BEFORE, Fault.SLOW)), seed)
        for number in range(30):
            try:
                store.write(f"/t/{number}", b"x")
            except StoreFailure:
                continue
        return [*map(str, store.log), *(entry.name for entry in SimStore(store.disk, seed=seed).list("/t"))]

    assert story(7) == story(7)
    assert story(7) != story(8)


def test_a_parquet_file_appears_when_it_is_closed(disk: Disk) -> None:
    store, rows = SimStore(disk), pa.table({"a": [1, 2, 3]})
    with store.open_output("/t/d.parquet") as file:
        with pq.ParquetWriter(file, rows.schema) as writer:
            writer.write_table(rows)
        assert file.tell() > 0
        assert not store.exists("/t/d.parquet")
    assert pq.read_table(store.open_input("/t/d.parquet")).equals(rows)


def test_failed_close_is_reported_to_the_writer(disk: Disk) -> None:
    store = SimStore(disk, at(2, Fault.BEFORE))
    file = store.open_output("/t/d")
    file.write(b"abc")
    with pytest.raises(StoreFailure):
        file.close()
    assert not SimStore(disk).exists("/t/d")


def test_a_tree_is_moved_and_deleted_completely(disk: Disk) -> None:
    store = SimStore(disk)
    store.write("/t/deep/x", b"1")
    store.rename_tree("/t", "/u")
    assert store.read("/u/deep/x") == b"1"
    assert not store.exists("/t")
    with pytest.raises(FileExistsError):
        store.rename_tree("/u/deep", "/u")
    store.delete_tree("/u")
    assert list(store.files()) == []


def test_only_an_empty_folder_is_deleted(disk: Disk) -> None:
    store = SimStore(disk)
    store.delete("/t")
    assert store.exists("/t")
    store.delete("/t/old")
    store.delete("/t")
    assert not store.exists("/t")
