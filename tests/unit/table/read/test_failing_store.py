"""A store that fails for a moment while a table is read or committed to: an error that is retried, never damage."""

from __future__ import annotations

import errno
import io
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.errors import StoreError, TableCorrupt
from penstock.pipelines.ledger.parked_tables import is_of_its_table
from penstock.storage.base import Storage, store_error
from penstock.storage.environment import seeded
from penstock.table.handle import Table
from penstock.table.meta.store import TableStore
from tests.unit.table.tables import content, new_table, rows

PASSING = {
    "503": StoreError("the store failed: 503 Slow Down"),
    "plain": OSError("503"),
    "timeout": TimeoutError("no answer"),
    "cut": ConnectionResetError(errno.ECONNRESET, "cut"),
    "disk": OSError(errno.EIO, "a disk says no"),
}


class FailingFile(io.BytesIO):
    def __init__(self, data: bytes, reads: int, failure: OSError) -> None:
        super().__init__(data)
        self._left, self._failure = reads, failure

    def read(self, size: int | None = -1) -> bytes:
        self._left -= 1
        if self._left < 0:
            raise self._failure
        return super().read(size)


class Failing:
    """Data files fail after some reads; without `reads` they cannot be opened."""

    def __init__(self, inner: Storage, failure: OSError, reads: int | None) -> None:
        self._inner, self._failure, self._reads = inner, failure, reads

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def open_input(self, path: str) -> Any:
        if self._reads is None:
            raise self._failure
        return pa.PythonFile(FailingFile(self._inner.read(path), self._reads, self._failure), "r")


def failing(table: Table, failure: OSError, reads: int | None) -> Table:
    store = Failing(table.store.storage, failure, reads)
    return Table(TableStore.open(store, table.store.paths.root, ambient=seeded(3)))  # type: ignore[arg-type]


def filled(folder: Path, file_format: str = "parquet") -> Table:
    table = new_table(folder, options={"bucket": "1", "file.format": file_format})
    for name in "ab":
        with table.writer() as writer:
            writer.write(rows(table, *((key, name, None) for key in range(500))))
            writer.commit()
    return table.refresh()


@pytest.mark.parametrize("reads", [None, 0])  # small files are read at once
@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
@pytest.mark.parametrize("failure", [PASSING[name] for name in ("503", "timeout", "disk")])
def test_a_failure_while_a_data_file_is_read_is_retryable(
    tmp_path: Path, file_format: str, reads: int | None, failure: OSError
) -> None:
    broken = failing(filled(tmp_path, file_format), failure, reads)
    for verb in (lambda: broken.scan().to_arrow(), broken.compact):
        with pytest.raises(StoreError) as caught:
            verb()
        assert caught.value.retryable
        assert caught.value.exit_code == 12
        assert not is_of_its_table(caught.value)
        assert "data-" in str(caught.value.facts["file"])


@pytest.mark.parametrize("failure", PASSING.values(), ids=PASSING.keys())
def test_any_failure_to_open_a_data_file_is_retryable(tmp_path: Path, failure: OSError) -> None:
    with pytest.raises(StoreError):
        failing(filled(tmp_path), failure, None).scan().to_arrow()


def test_missing_rights_are_not_retried(tmp_path: Path) -> None:
    with pytest.raises(PermissionError):
        failing(filled(tmp_path), PermissionError(errno.EACCES, "no"), None).scan().to_arrow()
    read_only = OSError(errno.EROFS, "read-only")
    assert store_error(read_only, "x") is read_only


def test_a_missing_and_a_damaged_file_are_damage(tmp_path: Path) -> None:
    table = filled(tmp_path)
    path = next(tmp_path.rglob("data-*"))
    data = path.read_bytes()
    path.write_bytes(b"x" * len(data))
    with pytest.raises(TableCorrupt, match="cannot be read"):
        table.scan().to_arrow()
    path.unlink()
    with pytest.raises(TableCorrupt, match="missing"):
        table.scan().to_arrow()


@pytest.mark.parametrize("verb", ["read", "list", "write", "create"])
@pytest.mark.parametrize("failure", [PASSING[name] for name in ("plain", "cut", "disk")])
def test_a_commit_that_failed_in_the_store_can_be_retried(tmp_path: Path, verb: str, failure: OSError) -> None:
    table = filled(tmp_path)
    writer = table.writer(commit_user="job")
    writer.write(rows(table, (1, "c", None)))
    messages = writer.prepare(1)

    class Away:
        def __getattr__(self, name: str) -> Any:
            return self.fail if name in {verb, f"{verb}_together"} else getattr(table.store.storage, name)

        def fail(self, path: str, *rest: object) -> Any:
            if "/schema" not in path:
                raise failure
            return getattr(table.store.storage, verb)(path, *rest)

    (tmp_path / "warehouse/shop.db/orders/snapshot/LATEST").unlink()  # so that it lists, too
    sound, writer.store = writer.store, TableStore.open(Away(), table.store.paths.root, ambient=seeded(3))  # type: ignore[arg-type]
    with pytest.raises(StoreError) as caught:
        writer.commit_messages(messages, 1)
    assert caught.value.facts["table"] == "shop.orders"
    writer.store = sound
    writer.commit_messages(messages, 1)
    assert len(content(table.refresh())) == 500
