"""Lookups by key: in kept files, in data files themselves, over levels, and the folder that keeps them."""

from __future__ import annotations

import os
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.table.compaction import lookup as lookup_room
from penstock.table.compaction.lookup import Lookup
from penstock.table.compaction.lookup_store import LookupStore
from penstock.table.compaction.plan import CompactionSpec
from penstock.table.merge.sorted_runs import Levels
from penstock.table.meta.data_file import DataFile
from tests.unit.table.compaction.memory_bucket import MemoryFiles, MemoryWriter
from tests.unit.table.merge.tables import rows_table, schema_of

KEYS: dict[str, tuple[dict[str, str], Any]] = {
    "integer": ({"k": "BIGINT NOT NULL"}, lambda n: (n * 3 - 50,)),
    "text": ({"k": "STRING NOT NULL"}, lambda n: ("a" * (n % 4) + str(n),)),
    "text of one length": ({"k": "STRING NOT NULL"}, lambda n: (f"{n:05}",)),
    "long text": ({"k": "STRING NOT NULL"}, lambda n: (f"customer-{n:06}-of-some-shop",)),
    "long text, heads alike": ({"k": "STRING NOT NULL"}, lambda n: (f"{'ab'[n % 2]}-of-one-kind-{n // 3}-{n}",)),
    "text and number": ({"k": "STRING NOT NULL", "l": "INT NOT NULL"}, lambda n: (str(n // 3), n)),
    "bytes": ({"k": "BYTES NOT NULL"}, lambda n: (b"\0" * (n % 3) + str(n).encode() + b"\0" * (n % 2),)),
    "decimal": ({"k": "DECIMAL(30, 2) NOT NULL"}, lambda n: (Decimal(n) * 10**20,)),
    "double": ({"k": "DOUBLE NOT NULL"}, lambda n: (n / 7 - 3,)),
}


class Files:
    """Levels of files with the keys of chosen numbers; value column `v` tells number and level."""

    def __init__(self, name: str, contents: dict[int, list[list[int]]]) -> None:
        columns, self._key_of = KEYS[name]
        self.schema = schema_of({**columns, "v": "STRING"}, tuple(columns))
        self.spec = CompactionSpec.of(self.schema)
        self.files = MemoryFiles(self.spec)
        self._names = iter(range(1000))
        found: list[DataFile] = []
        for level, files in contents.items():
            for numbers in files:
                found += self._write(level, numbers)
        self.levels = Levels.of(found, 6)

    def key(self, number: int) -> dict[str, Any]:
        return dict(zip(self.spec.merge.keys, self._key_of(number), strict=True))

    def _write(self, level: int, numbers: list[int]) -> list[DataFile]:
        rows = sorted((tuple(self.key(n).values()), n) for n in numbers)
        records = [(n, 0, {**self.key(n), "v": f"{n} on {level}"}) for _, n in rows]
        writer = MemoryWriter(self.files, level, "data", self._names, 10_000)
        writer.write(rows_table(self.spec.merge, records))
        return writer.finish()

    def probes(self, numbers: list[int]) -> tuple[list[int], list[pa.Array]]:
        """In key order."""
        numbers = sorted(numbers, key=lambda n: tuple(self.key(n).values()))
        rows = rows_table(self.spec.merge, [(0, 0, self.key(n)) for n in numbers])
        return numbers, [rows.column(name).combine_chunks() for name in self.spec.merge.keys]


@pytest.mark.parametrize("kept", ["kept", "read", "no store"])
@pytest.mark.parametrize("name", KEYS)
def test_a_key_is_found_on_its_lowest_level(
    name: str, kept: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kept == "kept":
        monkeypatch.setattr(lookup_room, "FEW_KEYS", 0)
    random = Random(name)
    top = sorted(random.sample(range(300), 150), key=lambda n: tuple(Files(name, {}).key(n).values()))
    middle = random.sample(range(300), 40)
    files = Files(name, {5: [top[:70], top[70:]], 3: [middle], 1: [random.sample(range(300), 5)]})
    store = None if kept == "no store" else LookupStore(tmp_path)
    numbers, probes = files.probes(random.sample(range(300), 120))
    hits = Lookup(files.spec.merge, files.files, store).find(files.levels, 2, probes, vectors={}, with_rows=True)
    expected = {n: 3 if n in middle else 5 for n in numbers if n in {*top, *middle}}
    assert [numbers[probe] for probe in hits.probes] == [n for n in numbers if n in expected]
    assert hits.rows is not None
    assert hits.rows.column("v").to_pylist() == [f"{n} on {expected[n]}" for n in numbers if n in expected]
    for probe, file, position in zip(hits.probes, hits.file_of, hits.positions, strict=True):
        stored = files.files.tables[hits.files[file]].column("v")[int(position)].as_py()
        assert stored.split()[0] == str(numbers[probe])


def test_probes_longer_than_any_key_of_the_file_are_not_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookup_room, "FEW_KEYS", 0)
    files = Files("text", {5: [[1, 2, 3]]})
    probes = [pa.array(["1", "a1", "a1\0", "aa2", "aaa" + "3" * 100])]
    hits = Lookup(files.spec.merge, files.files, LookupStore(tmp_path)).find(
        files.levels, 0, probes, vectors={}, with_rows=False
    )
    assert hits.probes.tolist() == [1, 3]
    assert hits.rows is None


def test_deleted_rows_are_skipped_for_the_next_level() -> None:
    files = Files("integer", {4: [[1, 2]], 5: [[1, 2, 3]]})
    [upper] = files.levels.upper[3]
    _, probes = files.probes([1, 2])
    lookup = Lookup(files.spec.merge, files.files)
    hits = lookup.find(files.levels, 0, probes, vectors={upper.name: np.array([0])}, with_rows=True)
    assert hits.rows is not None
    assert hits.rows.column("v").to_pylist() == ["1 on 5", "2 on 4"]


def test_a_file_is_kept_at_the_second_small_lookup(tmp_path: Path) -> None:
    files = Files("integer", {5: [list(range(100))]})
    for _ in range(5):
        lookup = Lookup(files.spec.merge, files.files, LookupStore(tmp_path))  # each time another writer
        assert len(lookup.find(files.levels, 0, files.probes([7, 8])[1], vectors={}, with_rows=True).probes) == 2
    assert len(files.files.reads) == 2


def test_files_without_requested_keys_are_not_read() -> None:
    files = Files("integer", {5: [[1, 2, 3], [10, 11, 12]]})
    Lookup(files.spec.merge, files.files).find(files.levels, 0, files.probes([11])[1], vectors={}, with_rows=True)
    assert len(files.files.reads) == 1


def test_lookup_files_of_another_process_are_found(tmp_path: Path) -> None:
    files = Files("text", {5: [list(range(50))]})
    [file] = files.levels.all_files
    keys, types = files.spec.merge.keys, files.spec.merge.key_types()
    LookupStore(tmp_path).put("f", files.files.read(file), keys, types)
    stored = LookupStore(tmp_path).get("f")
    assert stored is not None
    numbers, probes = files.probes([3, 44, 77])
    which, places = stored.find(probes)
    assert [numbers[i] for i in which] == [n for n in numbers if n != 77]
    assert stored.rows(places).column("v").to_pylist() == [f"{n} on 5" for n in numbers if n != 77]


def test_the_least_recently_used_file_is_evicted_when_the_folder_is_full(tmp_path: Path) -> None:
    files = Files("integer", {5: [list(range(50))]})
    [file] = files.levels.all_files
    keys, types = files.spec.merge.keys, files.spec.merge.key_types()
    LookupStore(tmp_path).put("a", files.files.read(file), keys, types)
    size = sum(path.stat().st_size for path in tmp_path.iterdir())
    store = LookupStore(tmp_path, max_bytes=int(2.5 * size))
    store.put("b", files.files.read(file), keys, types)
    for path in tmp_path.glob("a.*"):
        os.utime(path, (1, 1))
    for path in tmp_path.glob("b.*"):
        os.utime(path, (2, 2))
    assert LookupStore(tmp_path).get("a") is not None  # used: b is the older one now
    store.put("c", files.files.read(file), keys, types)
    assert sorted({path.stem for path in tmp_path.iterdir()}) == ["a", "c"]


def test_a_mapped_file_survives_its_eviction(tmp_path: Path) -> None:
    files = Files("integer", {5: [list(range(50))]})
    store = LookupStore(tmp_path)
    stored = store.put(
        "a", files.files.read(files.levels.all_files[0]), files.spec.merge.keys, files.spec.merge.key_types()
    )
    store.drop(["a"])
    assert store.get("a") is None
    which, places = stored.find(files.probes([5])[1])
    assert stored.rows(places).column("v").to_pylist() == ["5 on 5"]
    assert which.tolist() == [0]


def test_incomplete_files_are_not_found_and_are_removed_later(tmp_path: Path) -> None:
    files = Files("integer", {5: [list(range(50))]})
    file = files.levels.all_files[0]
    store = LookupStore(tmp_path)

    def dies() -> Any:
        yield from list(files.files.read(file))[:1]
        raise KeyboardInterrupt

    keys, types = files.spec.merge.keys, files.spec.merge.key_types()
    with pytest.raises(KeyboardInterrupt):
        store.put("a", dies(), keys, types)
    assert store.get("a") is None
    assert list(tmp_path.iterdir()) == []
    abandoned = tmp_path / ".0123.arrow"
    abandoned.write_bytes(b"half")
    os.utime(abandoned, (1, 1))
    store.put("a", files.files.read(file), keys, types)
    assert not abandoned.exists()


@pytest.mark.parametrize("ending", ["arrow", "keys"])
def test_a_truncated_lookup_file_is_ignored(tmp_path: Path, ending: str) -> None:
    files = Files("integer", {5: [list(range(50))]})
    keys, types = files.spec.merge.keys, files.spec.merge.key_types()
    LookupStore(tmp_path).put("a", files.files.read(files.levels.all_files[0]), keys, types)
    torn = tmp_path / f"a.{ending}"
    torn.write_bytes(torn.read_bytes()[:100])
    assert LookupStore(tmp_path).get("a") is None
    assert list(tmp_path.iterdir()) == []
