"""A folder in which a program keeps small files between its runs, such as a checkpoint or a part of one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from penstock.errors import CheckpointDamaged
from penstock.references import resolve
from penstock.storage.base import Storage, put_if_absent
from penstock.storage.open import open_storage


@dataclass(frozen=True, slots=True, repr=False)
class StateFolder:
    """A folder of small files, each written as a whole. A folder that does not exist reads as empty.

    Contains only the location and the options of its store, so it pickles. Options may contain references to secrets,
    which are resolved when the store is opened. With a `prefix`, the folder consists only of the files whose names
    begin with it. With `aside`, the folder never changes: files are written to that folder instead, and read there
    first.
    """

    location: str
    options: tuple[tuple[str, str], ...] = ()
    prefix: str = ""
    aside: StateFolder | None = None

    @classmethod
    def of(cls, location: str, options: Mapping[str, str] | None = None) -> StateFolder:
        return cls(location, tuple(sorted((options or {}).items())))

    def __repr__(self) -> str:
        return f"StateFolder({self.location})"  # the options may contain secrets

    def below(self, name: str, prefix: str = "") -> StateFolder:
        """Return a folder in this folder, or its files whose names begin with `prefix`."""
        aside = None if self.aside is None else self.aside.below(name, prefix)
        return StateFolder(f"{self.location.rstrip('/')}/{name}", self.options, prefix, aside)

    def unchanged(self, aside: str) -> StateFolder:
        """Return this folder for a read-only command: files are written to the folder `aside` instead."""
        return StateFolder(self.location, self.options, self.prefix, StateFolder(aside, (), self.prefix))

    def probe(self) -> None:
        """Write and delete a file. Raise OSError if that is not possible."""
        self.write(".probe", b"")
        self.delete(".probe")

    @property
    def exists(self) -> bool:
        store, root = _opened(self)
        return bool(store.list(root)) or (self.aside is not None and self.aside.exists)

    def names(self) -> list[str]:
        """Return the names of the files in order. Hidden files are not included: a crash may leave half a file."""
        store, root = _opened(self)
        names = {entry.name for entry in store.list(root) if not entry.is_dir}
        here = {name for name in names if name.startswith(self.prefix) and not name.startswith(".")}
        return sorted(here if self.aside is None else here.union(self.aside.names()))

    def read(self, name: str) -> bytes | None:
        """Return the content of a file, None if it does not exist."""
        if self.aside is not None and (content := self.aside.read(name)) is not None:
            return content
        store, root = _opened(self)
        try:
            return store.read(f"{root}/{name}")
        # A part of the path may be a file.
        except (FileNotFoundError, NotADirectoryError):
            return None

    def read_json(self, name: str, hint: str, kind: type = dict) -> Any:
        """Return the content of a JSON file, None if it does not exist.

        Raise CheckpointDamaged with the hint if the file is no JSON, or has a value of another kind.
        """
        content = self.read(name)
        if content is None:
            return None
        try:
            found = json.loads(content)
        except ValueError as error:
            raise self.damaged(name, content, hint) from error
        if not isinstance(found, kind):
            raise self.damaged(name, content, hint)
        return found

    def damaged(self, name: str, content: bytes, hint: str) -> CheckpointDamaged:
        """Return the error for a file whose content is not as it was written."""
        return CheckpointDamaged(
            "a file of the checkpoint is damaged: a full disk or a power loss may have cut it",
            file=f"{self.location}/{name}",
            bytes=len(content),
            hint=hint,
        )

    def write(self, name: str, content: bytes) -> None:
        """Write a file, replacing an older one. Readers see the whole file or the older one."""
        if self.aside is not None:
            self.aside.write(name, content)
            return
        store, root = _opened(self)
        store.write(f"{root}/{name}", content)

    def create(self, name: str, content: bytes) -> bool:
        """Write a file that does not exist. Return False if another process has written it with other content."""
        if self.aside is not None:
            there = self.read(name)
            return there == content if there is not None else self.aside.create(name, content)
        store, root = _opened(self)
        return put_if_absent(store, f"{root}/{name}", content)

    def delete(self, name: str) -> bool:
        """Delete a file. Return False if it did not exist."""
        if self.aside is not None:  # a file of the folder itself stays, and stays visible
            return self.aside.delete(name) or self.read(name) is not None
        store, root = _opened(self)
        # Deleting a missing file is not an error in any store, so its existence is checked first.
        if not store.exists(f"{root}/{name}"):
            return False
        store.delete(f"{root}/{name}")
        return True


@lru_cache(maxsize=64)
def _opened(folder: StateFolder) -> tuple[Storage, str]:
    store, root = open_storage(folder.location, {name: resolve(value) for name, value in folder.options})
    return store, root.rstrip("/")
