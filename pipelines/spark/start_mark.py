"""A mark that the last run of a command needed Spark, which makes it likely for the next one.

A run asks its source before it starts a JVM. If it probably needs one, the JVM can start meanwhile. A wrong guess costs
a JVM that is ended, or the time in which none was starting.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from penstock.errors import ConfigError
from penstock.pipelines.spark.java import cache_folder


@dataclass(frozen=True, slots=True)
class StartMark:
    """A file in the cache folder that exists if the last run needed Spark. Without a cache nothing is expected."""

    file: Path

    @classmethod
    def of(cls, words: Sequence[str]) -> StartMark:
        """Return the mark of a command with these words, run in this folder."""
        digest = hashlib.sha256(json.dumps([_folder(), *words]).encode()).hexdigest()
        return cls(cache_folder() / "starts" / digest[:16])

    @property
    def expects_spark(self) -> bool:
        return self.file.exists()

    def note(self, *, needed: bool) -> None:
        with suppress(OSError):  # a full or read-only disk: the next run asks first
            if needed:
                self.file.parent.mkdir(parents=True, exist_ok=True)
                self.file.touch()
            else:
                self.file.unlink(missing_ok=True)


def _folder() -> str:
    """Return the working directory. ConfigError if it was deleted: Java does not start there either."""
    try:
        return str(Path.cwd())
    except FileNotFoundError:
        raise ConfigError(
            "the working directory of this process was deleted",
            directory=os.environ.get("PWD", "unknown"),
            hint="change to a directory that exists, and start again; if the directory was created again,  cd  to it",
        ) from None
