"""Creating a new file when the reply of the store is lost, wrong or late, and the errors of failures."""

from __future__ import annotations

import errno
from collections.abc import Callable

import pytest

from penstock.errors import StoreError
from penstock.storage.base import put_if_absent, store_error
from penstock.storage.conditional_create import StoreUnsafe, probe
from tests.unit.storage.memory_store import MemoryStore

PATH = "/t/snapshot/snapshot-1"
Reply = Callable[[bool], bool]


class Replies(MemoryStore):
    """Answers a create by what `reply` makes of the right answer, once."""

    def __init__(self, reply: Reply, *, lands: bool = True) -> None:
        super().__init__()
        self._reply: Reply | None = reply
        self._lands = lands

    def create(self, path: str, data: bytes) -> bool:
        reply, self._reply = self._reply, None
        if reply is None:
            return super().create(path, data)
        return reply(super().create(path, data) if self._lands else True)


def raises(error: OSError) -> Reply:
    def reply(created: bool) -> bool:
        raise error

    return reply


LOST = {
    "the request was repeated and refused": lambda created: False,
    "the connection was cut": raises(ConnectionResetError("cut")),
    "HDFS renamed twice, and found no source": raises(FileNotFoundError("no such file")),
    "a link was made twice": raises(FileExistsError("exists")),
}


@pytest.mark.parametrize("reply", LOST.values(), ids=LOST.keys())
def test_our_file_is_recognised_after_any_reply(reply: Reply) -> None:
    store = Replies(reply)
    assert put_if_absent(store, PATH, b"ours")
    assert store.files == {PATH: b"ours"}


def test_the_file_of_another_writer_is_not_ours() -> None:
    store = MemoryStore({PATH: b"theirs"})
    assert not put_if_absent(store, PATH, b"ours")
    assert store.files == {PATH: b"theirs"}


def test_a_request_that_may_still_arrive_leaves_the_outcome_open() -> None:
    with pytest.raises(TimeoutError):
        put_if_absent(Replies(raises(TimeoutError("no answer")), lands=False), PATH, b"ours")


def test_a_refusal_that_cannot_be_checked_leaves_the_outcome_open() -> None:
    class Unreadable(MemoryStore):
        def read(self, path: str) -> bytes:
            raise OSError("503")

        def create(self, path: str, data: bytes) -> bool:
            return False

    with pytest.raises(OSError, match="503"):
        put_if_absent(Unreadable(), PATH, b"ours")


@pytest.mark.parametrize("reply", LOST.values(), ids=LOST.keys())
def test_a_lost_reply_does_not_make_a_store_unsafe(reply: Reply) -> None:
    probe(Replies(reply), "/t")


def test_a_store_that_never_refuses_is_unsafe() -> None:
    class Replacing(MemoryStore):
        def create(self, path: str, data: bytes) -> bool:
            self.write(path, data)
            return True

    with pytest.raises(StoreUnsafe):
        probe(Replacing(), "/t")


def test_a_probe_that_cannot_create_reports_that_and_not_its_failed_delete() -> None:
    class Refusing(MemoryStore):
        def create(self, path: str, data: bytes) -> bool:
            raise PermissionError("cannot create")

        def delete(self, path: str) -> None:
            raise PermissionError("cannot delete")

    with pytest.raises(PermissionError, match="cannot create"):
        probe(Refusing(), "/t")


@pytest.mark.parametrize(("number", "hint"), [(errno.ENOSPC, "the disk is full"), (errno.EIO, "")])
def test_an_error_of_a_full_disk_has_a_hint(number: int, hint: str) -> None:
    error = store_error(OSError(number, "no", "/lake/a"), "the store failed during a commit")
    assert isinstance(error, StoreError)
    assert (error.hint or "").startswith(hint)
    assert bool(error.hint) == bool(hint)
