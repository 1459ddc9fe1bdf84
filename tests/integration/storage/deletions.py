"""A deletion of a folder beside another one, which some object stores answer with an error."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from penstock.storage.object_store import ObjectStorage


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
