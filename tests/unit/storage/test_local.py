"""Local files: whole or not there, one maker a name."""

from __future__ import annotations

import errno
import io
import os
import resource
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from penstock.errors import ConfigError
from penstock.storage.conditional_create import StoreUnsafe, probe
from penstock.storage.local import LocalStorage
from penstock.storage.open import open_storage
from tests.unit.storage.contract import StorageContract


class TestContract(StorageContract):
    @pytest.fixture(autouse=True)
    def _give(self, tmp_path: Path) -> None:
        self.storage, self.root = LocalStorage(), str(tmp_path)


class TestContractWithoutSync(StorageContract):
    @pytest.fixture(autouse=True)
    def _give(self, tmp_path: Path) -> None:
        self.storage, self.root = LocalStorage(sync=False), str(tmp_path)


def test_one_of_many_concurrent_creates_wins_and_leaves_no_temporary_files(tmp_path: Path) -> None:
    storage = LocalStorage()
    with ThreadPoolExecutor(8) as pool:
        won = list(pool.map(lambda i: storage.create(f"{tmp_path}/s/snapshot-1", str(i).encode()), range(32)))
    assert won.count(True) == 1
    assert storage.read(f"{tmp_path}/s/snapshot-1") == str(won.index(True)).encode()
    assert [path.name for path in (tmp_path / "s").iterdir()] == ["snapshot-1"]


@pytest.mark.parametrize("sync", [True, False])
@pytest.mark.parametrize("verb", ["create", "write", "write_together", "write_hint", "open_output", "mkdirs", "file"])
def test_a_name_that_is_too_long_is_an_error_with_its_name(tmp_path: Path, verb: str, sync: bool) -> None:
    storage, path = LocalStorage(sync), f"{tmp_path}/t/{'x' * 300}"
    verbs: dict[str, Callable[[], object]] = {
        "create": lambda: storage.create(path, b"one"),
        "write": lambda: storage.write(path, b"one"),
        "write_together": lambda: storage.write_together({path: b"one"}),
        "write_hint": lambda: storage.write_hint(path, b"one"),
        "open_output": lambda: storage.open_output(path),
        "mkdirs": lambda: storage.mkdirs(path),
        "file": lambda: storage.write(f"{path}/f", b"one"),
    }
    with pytest.raises(ConfigError, match="a name is too long for the file system") as caught:
        verbs[verb]()
    assert (caught.value.facts["bytes"], isinstance(caught.value, OSError)) == (300, True)
    storage.delete(path)


def test_a_file_system_without_links_creates_files_exclusively(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
    with pytest.raises(StoreUnsafe, match="only if it does not exist"):
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
    with pytest.raises(ConfigError, match="choices are file, s3"):
        open_storage("ftp://host/x", {})


@contextmanager
def room_for(size: int) -> Iterator[None]:
    """Every file may have this many bytes: as on a full disk, write(2) takes what fits and then fails."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def put(storage: LocalStorage, path: str, data: bytes) -> None:
    with storage.open_output(path) as file:
        file.write(data)


PUTS: list[Callable[[LocalStorage, str, bytes], object]] = [LocalStorage.create, LocalStorage.write, put]


@pytest.mark.parametrize("sync", [True, False])
@pytest.mark.parametrize("way", PUTS)
@pytest.mark.parametrize("size", [4_097, 131_072, 1_000_001])
def test_a_full_disk_is_an_error(
    tmp_path: Path, way: Callable[[LocalStorage, str, bytes], object], size: int, sync: bool
) -> None:
    with room_for(4_096), pytest.raises(OSError, match="too large") as error:
        way(LocalStorage(sync), f"{tmp_path}/f", os.urandom(size))
    # Arrow's own file, which is used without syncing, says nothing about it.
    assert error.value.filename == f"{tmp_path}/f" or (way is put and not sync)


@pytest.mark.parametrize("most", [1, 1_000, 131_072])
def test_every_byte_is_written_by_partial_writes(tmp_path: Path, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    class Sluggish:
        def __init__(self, file: io.FileIO) -> None:
            self._file = file

        def __getattr__(self, name: str) -> object:
            return getattr(self._file, name)

        def __enter__(self) -> object:
            return self._file.__enter__()

        def __exit__(self, *error: object) -> None:
            self._file.close()

        def write(self, data: memoryview) -> int:
            return self._file.write(data[:most])

    plain = Path.open
    monkeypatch.setattr(Path, "open", lambda path, *args, **named: Sluggish(plain(path, *args, **named)))
    data = os.urandom(20_000)
    put(LocalStorage(), f"{tmp_path}/f", data)
    monkeypatch.undo()
    assert LocalStorage().read(f"{tmp_path}/f") == data


def test_a_file_truncated_during_the_write_cannot_be_closed(tmp_path: Path) -> None:
    file = LocalStorage().open_output(f"{tmp_path}/f")
    file.write(os.urandom(1_000_000))
    file.flush()
    os.truncate(tmp_path / "f", 10)
    with pytest.raises(OSError, match="1000000 bytes were written but the file has 10"):
        file.close()


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the paths of fsync calls in order."""
    paths: list[str] = []
    plain = os.fsync

    def fsync(descriptor: int) -> None:
        paths.append(str(Path(f"/proc/self/fd/{descriptor}").readlink()))
        plain(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    return paths


@pytest.mark.parametrize("way", PUTS)
def test_a_new_file_is_synced_with_its_new_folders(
    tmp_path: Path, synced: list[str], way: Callable[[LocalStorage, str, bytes], object]
) -> None:
    path = f"{tmp_path}/dt=1/h=2/bucket-0/f"
    way(LocalStorage(), path, b"data")
    folders = [f"{tmp_path}/dt=1/h=2", f"{tmp_path}/dt=1", str(tmp_path)]
    assert set(synced) >= set(folders)
    *_, data, folder = synced
    assert data.startswith(f"{tmp_path}/dt=1/h=2/bucket-0/")  # the file, or the one that is renamed to it
    assert folder == f"{tmp_path}/dt=1/h=2/bucket-0"  # last: the name of a file that is whole
    synced.clear()
    way(LocalStorage(), f"{path}2", b"data")
    assert len(synced) == 2


@pytest.mark.parametrize("way", PUTS)
def test_nothing_is_synced_with_the_option_off(
    tmp_path: Path, synced: list[str], way: Callable[[LocalStorage, str, bytes], object]
) -> None:
    way(LocalStorage(sync=False), f"{tmp_path}/a/f", b"data")
    LocalStorage(sync=False).mkdirs(f"{tmp_path}/b/c")
    assert synced == []


def test_files_written_together_sync_their_folder_once_and_last(tmp_path: Path, synced: list[str]) -> None:
    LocalStorage().mkdirs(f"{tmp_path}/a")
    synced.clear()
    files = {f"{tmp_path}/a/{name}": name.encode() for name in ("one", "two", "three")}
    LocalStorage().write_together(files)
    assert {path: Path(path).read_bytes() for path in files} == files
    *contents, folder = synced
    assert len(contents) == 3
    assert all(path.startswith(f"{tmp_path}/a/") for path in contents)
    assert folder == f"{tmp_path}/a"


def test_a_hint_is_replaced_without_a_sync(tmp_path: Path, synced: list[str]) -> None:
    for text in (b"9", b"10"):
        LocalStorage().write_hint(f"{tmp_path}/LATEST", text)
        assert (tmp_path / "LATEST").read_bytes() == text
    assert synced == []


def test_created_and_renamed_folders_are_synced(tmp_path: Path, synced: list[str]) -> None:
    LocalStorage().mkdirs(f"{tmp_path}/a/b")
    assert synced == [str(tmp_path), f"{tmp_path}/a"]
    synced.clear()
    LocalStorage().rename_tree(f"{tmp_path}/a/b", f"{tmp_path}/c")
    assert set(synced) == {str(tmp_path), f"{tmp_path}/a"}


def test_a_folder_that_cannot_be_deleted_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "t" / "manifest").mkdir(parents=True)
    (tmp_path / "t" / "manifest" / "manifest-list-1").touch()

    def refused(name: str, **_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", name)

    monkeypatch.setattr(os, "unlink", refused)
    with pytest.raises(PermissionError) as caught:
        LocalStorage().delete_tree(str(tmp_path / "t"))
    # From Python 3.13 on, the folder below it that has the file.
    assert Path(caught.value.filename) in {tmp_path / "t", tmp_path / "t" / "manifest"}
