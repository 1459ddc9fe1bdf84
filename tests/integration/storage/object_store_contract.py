"""What every object store must do beyond the contract of storages, as tests to inherit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from penstock.storage.base import put_if_absent
from penstock.storage.object_store import ObjectStorage
from penstock.storage.object_store_errors import StoreRefused
from tests.chaos.proxy import Proxy
from tests.unit.storage.contract import StorageContract

CALLS: dict[str, Callable[[ObjectStorage], object]] = {
    "read": lambda store: store.read("/w"),
    "exists": lambda store: store.exists("/w"),
    "list": lambda store: store.list("/w"),
    "walk": lambda store: list(store.walk("/w")),
    "create": lambda store: store.create("/w", b"x"),
    "write": lambda store: store.write("/w", b"x"),
    "delete_tree": lambda store: store.delete_tree("/w"),
    "output": lambda store: store.open_output("/w").close(),
}


class ObjectStoreContract(StorageContract):
    """`storage` is one of a real server or an emulator; `elsewhere` is the same with a bucket that does not exist."""

    storage: ObjectStorage
    elsewhere: ObjectStorage
    missing: tuple[str, str]
    """The answer of the server for a missing bucket, and a part of our hint."""

    def test_one_of_many_concurrent_creates_wins(self) -> None:
        for turn in range(10):
            path = f"{self.root}/race/snapshot-{turn}"
            with ThreadPoolExecutor(8) as pool:
                won = list(pool.map(lambda i, path=path: self.storage.create(path, str(i).encode()), range(16)))  # type: ignore[misc]
            assert won.count(True) == 1
            assert self.storage.read(path) == str(won.index(True)).encode()

    def test_a_large_upload_has_several_parts_and_appears_when_it_is_closed(self) -> None:
        path = f"{self.root}/large/f"
        with self.storage.open_output(path) as out:
            for _ in range(12):
                out.write(b"x" * (1 << 20))
            assert not self.storage.exists(path)
        assert self.storage.size(path) == 12 << 20
        assert self.storage.read_range(path, (12 << 20) - 3, 3) == b"xxx"

    def test_a_folder_of_which_another_process_deletes_files_is_deleted(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Another process deletes each third file between the list and the deletion."""
        for number in range(30):
            self.storage.write(f"{self.root}/beside/t/{number}", b"x")
        listed = ObjectStorage._keys

        def with_another(storage: ObjectStorage, path: str) -> Iterator[Sequence[str]]:
            for keys in listed(storage, path):
                for key in keys[::3]:
                    storage.delete(f"/{key}")
                yield keys

        with monkeypatch.context() as patched:
            patched.setattr(ObjectStorage, "_keys", with_another)
            self.storage.delete_tree(f"{self.root}/beside/t")
        assert list(self.storage.walk(f"{self.root}/beside")) == []

    @pytest.mark.parametrize("call", CALLS)
    def test_a_missing_bucket_is_named(self, call: str) -> None:
        """The answer to `size` is that of a missing object: one to HEAD has no text."""
        answer, hint = self.missing
        with pytest.raises(StoreRefused, match=answer) as refused:
            CALLS[call](self.elsewhere)
        assert hint in (refused.value.hint or "")


def create_without_answers(lake: ObjectStorage, proxy: Proxy) -> None:
    """Create files whose answers are cut off: at once, and within the head of the answer."""
    assert lake.create("/cut/first", b"x")  # the probe has its own files
    for cut in (0, 20):
        path = f"/cut/snapshot-{cut}"
        proxy.cuts.append(cut)
        proxy.cut_open()  # the client makes a new connection
        assert put_if_absent(lake, path, b"ours")
        assert not put_if_absent(lake, path, b"theirs")
        assert lake.read(path) == b"ours"
    assert proxy.cut == 2
