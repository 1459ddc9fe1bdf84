"""The behaviour of every storage, as tests to inherit: a subclass has `storage` and an empty folder `root`."""

from __future__ import annotations

import pickle
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.storage.base import Storage
from penstock.storage.conditional_create import probe

ODD_NAMES = ["p=a%2Fb c", "日本", "a#b?c*d", "x=[1]", "p=~|&$@!,;+<>", "%25", "a%2525"]


class StorageContract:
    storage: Storage
    root: str

    def names(self, path: str) -> set[tuple[str, bool]]:
        return {(entry.name, entry.is_dir) for entry in self.storage.list(path)}

    def test_create_writes_a_file_once(self) -> None:
        path = f"{self.root}/new/folder/snapshot-1"
        assert self.storage.create(path, b"one")
        assert not self.storage.create(path, b"two")
        assert self.storage.read(path) == b"one"
        assert self.names(f"{self.root}/new/folder") == {("snapshot-1", False)}

    def test_write_creates_parents_and_replaces(self) -> None:
        path = f"{self.root}/deep/er/LATEST"
        self.storage.write(path, b"1")
        self.storage.write(path, b"22")
        assert self.storage.read(path) == b"22"
        assert self.storage.size(path) == 2

    def test_an_empty_file_exists(self) -> None:
        self.storage.write(f"{self.root}/empty", b"")
        assert self.storage.read(f"{self.root}/empty") == b""
        assert self.storage.size(f"{self.root}/empty") == 0

    def test_ranges_of_a_file_are_read(self) -> None:
        self.storage.write(f"{self.root}/f", b"0123456789")
        assert self.storage.read_range(f"{self.root}/f", 3, 4) == b"3456"
        assert self.storage.read_range(f"{self.root}/f", 3, 0) == b""

    def test_a_missing_file_is_named(self) -> None:
        for ask in (self.storage.read, self.storage.size, self.storage.open_input):
            with pytest.raises(FileNotFoundError):
                ask(f"{self.root}/nothing")
        with pytest.raises(FileNotFoundError):
            self.storage.read_range(f"{self.root}/nothing", 0, 1)
        assert not self.storage.exists(f"{self.root}/nothing")
        assert self.storage.list(f"{self.root}/nothing") == []

    def test_walk_lists_the_files_of_all_folders_below(self) -> None:
        for name in ("a", "t/b", "t/deep/er/c"):
            self.storage.write(f"{self.root}/walked/{name}", name.encode())
        self.storage.mkdirs(f"{self.root}/walked/empty")
        found = {entry.name: (entry.size, entry.is_dir) for entry in self.storage.walk(f"{self.root}/walked")}
        assert found == {"a": (1, False), "t/b": (3, False), "t/deep/er/c": (11, False)}
        assert list(self.storage.walk(f"{self.root}/nothing")) == []

    def test_listings_show_files_with_sizes_and_folders(self) -> None:
        self.storage.write(f"{self.root}/t/schema/schema-0", b"xyz")
        self.storage.write(f"{self.root}/t/data", b"x")
        found = {entry.name: entry for entry in self.storage.list(f"{self.root}/t")}
        assert (found["data"].size, found["data"].is_dir) == (1, False)
        assert found["data"].modified > 1_600_000_000_000
        assert found["schema"].is_dir
        assert self.storage.exists(f"{self.root}/t/schema")
        assert self.storage.exists(f"{self.root}/t/data")

    def test_many_files_are_all_listed(self) -> None:
        for i in range(12):
            self.storage.write(f"{self.root}/many/f{i}", b"")
        assert len(self.storage.list(f"{self.root}/many")) == 12

    def test_an_empty_folder_exists_until_it_is_deleted(self) -> None:
        folder = f"{self.root}/shop.db"
        self.storage.mkdirs(folder)
        self.storage.mkdirs(folder)
        assert self.storage.exists(folder)
        assert self.storage.list(folder) == []
        assert ("shop.db", True) in self.names(self.root)
        self.storage.delete(folder)
        assert not self.storage.exists(folder)

    def test_delete_removes_files_and_keeps_full_folders(self) -> None:
        path = f"{self.root}/d/f"
        self.storage.write(path, b"x")
        self.storage.delete(f"{self.root}/d")
        assert self.storage.exists(path)
        self.storage.delete(path)
        self.storage.delete(path)
        assert not self.storage.exists(path)

    def test_delete_tree_removes_everything_below(self) -> None:
        for name in ("a", "b/c", "b/d/e"):
            self.storage.write(f"{self.root}/tree/{name}", b"x")
        self.storage.write(f"{self.root}/tree2", b"stays")
        self.storage.delete_tree(f"{self.root}/tree")
        self.storage.delete_tree(f"{self.root}/tree")
        assert not self.storage.exists(f"{self.root}/tree")
        assert self.storage.exists(f"{self.root}/tree2")

    def test_a_folder_is_renamed_to_a_free_name(self) -> None:
        self.storage.write(f"{self.root}/old/schema/schema-0", b"x")
        self.storage.rename_tree(f"{self.root}/old", f"{self.root}/db/new")
        assert self.storage.read(f"{self.root}/db/new/schema/schema-0") == b"x"
        assert not self.storage.exists(f"{self.root}/old")
        self.storage.write(f"{self.root}/old/f", b"y")
        with pytest.raises(FileExistsError):
            self.storage.rename_tree(f"{self.root}/old", f"{self.root}/db/new")

    @pytest.mark.parametrize("name", ODD_NAMES)
    def test_odd_names_are_kept(self, name: str) -> None:
        self.storage.write(f"{self.root}/odd/{name}/f", b"x")
        assert self.names(f"{self.root}/odd") == {(name, True)}
        assert self.storage.read(f"{self.root}/odd/{name}/f") == b"x"
        assert self.names(f"{self.root}/odd/{name}") == {("f", False)}

    def test_parquet_is_written_and_read_in_place(self) -> None:
        table = pa.table({"id": range(100_000), "v": ["x" * (i % 50) for i in range(100_000)]})
        path = f"{self.root}/bucket-0/data.parquet"
        with self.storage.open_output(path) as out:
            pq.write_table(table, out, row_group_size=20_000)
            assert out.tell() > 1000
        file = pq.ParquetFile(self.storage.open_input(path))
        assert file.num_row_groups == 5
        assert file.read_row_group(3, columns=["id"]).column("id")[0].as_py() == 60_000
        assert pq.read_table(self.storage.open_input(path)) == table
        assert self.storage.size(path) == self.storage.open_input(path).size()

    def test_output_is_complete_after_close_and_its_position_is_reported(self) -> None:
        with self.storage.open_output(f"{self.root}/o/f") as out:
            out.write(b"abc")
            assert out.tell() == 3
            out.write(b"de")
        assert self.storage.read(f"{self.root}/o/f") == b"abcde"

    def test_storages_are_pickled(self) -> None:
        self.storage.write(f"{self.root}/f", b"x")
        there: Any = pickle.loads(pickle.dumps(self.storage))
        assert there == self.storage
        assert there.read(f"{self.root}/f") == b"x"

    def test_the_probe_reports_a_safe_store_and_removes_its_files(self) -> None:
        self.storage.write(f"{self.root}/p/f", b"x")
        probe(self.storage, f"{self.root}/p")
        assert self.names(f"{self.root}/p") == {("f", False)}
