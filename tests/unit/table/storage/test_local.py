"""Local files: whole or not there, one maker a name."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from penstock.errors import ConfigError
from penstock.table.storage.local import LocalStorage
from penstock.table.storage.open import StoreUnsafe, open_storage, probe
from tests.unit.table.storage.contract import StorageContract


class TestContract(StorageContract):
    @pytest.fixture(autouse=True)
    def _give(self, tmp_path: Path) -> None:
        self.storage, self.root = LocalStorage(), str(tmp_path)


class TestContractWithoutSync(StorageContract):
    @pytest.fixture(autouse=True)
    def _give(self, tmp_path: Path) -> None:
        self.storage, self.root = LocalStorage(sync=False), str(tmp_path)


def test_of_many_makers_of_one_name_one_wins_and_nothing_is_left_aside(tmp_path: Path) -> None:
    storage = LocalStorage()
    with ThreadPoolExecutor(8) as pool:
        won = list(pool.map(lambda i: storage.create(f"{tmp_path}/s/snapshot-1", str(i).encode()), range(32)))
    assert won.count(True) == 1
    assert storage.read(f"{tmp_path}/s/snapshot-1") == str(won.index(True)).encode()
    assert [path.name for path in (tmp_path / "s").iterdir()] == ["snapshot-1"]


def test_a_file_system_without_links_makes_files_exclusively(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_links(source: object, target: object) -> None:
        raise PermissionError(1, "no links here")

    monkeypatch.setattr("os.link", no_links)
    storage = LocalStorage()
    assert storage.create(f"{tmp_path}/f", b"one")
    assert not storage.create(f"{tmp_path}/f", b"two")
    assert [path.name for path in tmp_path.iterdir()] == ["f"]


def test_a_store_that_replaces_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def replaces(self: LocalStorage, path: str, data: bytes) -> bool:
        self.write(path, data)
        return True

    monkeypatch.setattr(LocalStorage, "create", replaces)
    with pytest.raises(StoreUnsafe, match="only where none is"):
        probe(LocalStorage(), str(tmp_path))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("/data/wh", "/data/wh"),
        ("/data/a#b?c", "/data/a#b?c"),
        ("file:///data/wh/", "/data/wh"),
        ("file:/data/wh", "/data/wh"),
        ("file:///data/a#b%20c", "/data/a#b%20c"),
    ],
)
def test_local_paths_and_urls(url: str, path: str) -> None:
    assert open_storage(url, {}) == (LocalStorage(), path)


def test_sync_is_an_option() -> None:
    assert open_storage("/x", {"local.sync": "false"})[0] == LocalStorage(sync=False)
    with pytest.raises(ConfigError, match="true or false"):
        open_storage("/x", {"local.sync": "no"})


def test_a_relative_path_starts_here() -> None:
    assert open_storage("wh", {})[1] == str(Path("wh").absolute())


def test_an_unknown_scheme_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="known are file, s3"):
        open_storage("ftp://host/x", {})
