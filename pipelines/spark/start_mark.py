"""A mark that the last run of a command found something, which makes it likely for the next one.

A run that ends when it has caught up asks its source before it starts a JVM. If it probably finds something, the JVM
can start meanwhile. A wrong guess costs a JVM that is ended, or the time in which none was starting.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from penstock.pipelines.spark.java import cache_folder


@dataclass(frozen=True, slots=True)
class StartMark:
    """A file in the cache folder that exists if the last run found something. Without a cache nothing is expected."""

    file: Path

    @classmethod
    def of(cls, words: Sequence[str]) -> StartMark:
        """Return the mark of a command with these words, run in this folder."""
        digest = hashlib.sha256(json.dumps([str(Path.cwd()), *words]).encode()).hexdigest()
        return cls(cache_folder() / "starts" / digest[:16])

    @property
    def expects_something(self) -> bool:
        return self.file.exists()

    def note(self, *, found: bool) -> None:
        with suppress(OSError):  # a full or read-only disk: the next run asks first
            if found:
                self.file.parent.mkdir(parents=True, exist_ok=True)
                self.file.touch()
            else:
                self.file.unlink(missing_ok=True)
