"""What object stores answer differently: deletions beside others, and creates whose answers are lost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from penstock.storage.base import put_if_absent
from penstock.storage.object_store import ObjectStorage
from tests.chaos.proxy import Proxy


def delete_beside(lake: ObjectStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Delete a folder while another process deletes each third of its files."""
    for number in range(30):
        lake.write(f"/beside/t/{number}", b"x")
    listed = ObjectStorage._keys

    def with_another(self: ObjectStorage, path: str) -> Iterator[Sequence[str]]:
        for keys in listed(self, path):
            for key in keys[::3]:
                self.delete(f"/{key}")
            yield keys

    with monkeypatch.context() as patched:
        patched.setattr(ObjectStorage, "_keys", with_another)
        lake.delete_tree("/beside/t")
    assert list(lake.walk("/beside")) == []


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
