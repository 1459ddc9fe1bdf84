"""The implementations that perform the steps of a story on one table in turn, and read it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import pyarrow as pa

from penstock.storage.local import LocalStorage
from penstock.table.handle import Table
from penstock.table.meta.store import TableStore
from tests.golden.relations import Relation
from tests.golden.rows import arrow_rows
from tests.interop.oracle.client import Oracle
from tests.interop.pypaimon.client import Pypaimon
from tests.interop.pypaimon_rust.client import PypaimonRust
from tests.simulation.story import Step, Story
from tests.simulation.tellers import Javas, Ours
from tests.stories.older_penstock import OlderPenstock

Rows: TypeAlias = Relation | pa.Table
# Steps of one process on the main branch. Others are left out, because not all peers have them.
BY_PENSTOCK = frozenset({"write", "compact", "expire", "tag", "delete_tag", "rollback", "alter", "truncate"})
BY_JAVA = BY_PENSTOCK | {"drop_partition"}


class Peer(Protocol):
    """An implementation that performs steps on a table, and reads it."""

    @property
    def name(self) -> str: ...

    def can(self, step: Step, story: Story) -> bool: ...

    def perform(self, step: Step, number: int) -> None: ...

    def read(self) -> Rows: ...


@dataclass(frozen=True)
class OurPeer:
    path: Path
    name: str = "penstock"

    def open(self, branch: str | None = None) -> TableStore:
        return TableStore.open(LocalStorage(sync=False), str(self.path), branch)

    def can(self, step: Step, story: Story) -> bool:
        return step["op"] in BY_JAVA

    def perform(self, step: Step, number: int) -> None:
        Ours(self.open, self.name).tell(step, number)

    def read(self) -> Rows:
        rows: pa.Table = Table(self.open()).scan().to_arrow()
        return rows


@dataclass(frozen=True)
class JavaPeer:
    path: Path
    oracle: Oracle
    name: str = "java"

    def can(self, step: Step, story: Story) -> bool:
        if story.options.get("bucket") == "-2" and step["op"] == "compact":
            return False  # the postponed rows are assigned by a job of Flink
        return step["op"] in BY_JAVA

    def perform(self, step: Step, number: int) -> None:
        Javas(self.oracle, self.path, self.name).tell(step, number)

    def read(self) -> Rows:
        return self.oracle.read(self.path)


@dataclass(frozen=True)
class OlderPeer:
    """An older version of Penstock, which can do what this one can, as far as stories of peers go."""

    path: Path
    older: OlderPenstock
    name: str = "older-penstock"

    def can(self, step: Step, story: Story) -> bool:
        return step["op"] in BY_JAVA

    def perform(self, step: Step, number: int) -> None:
        self.older.perform(self.path, step, number)

    def read(self) -> Rows:
        return self.older.read(self.path)


def adds_rows(step: Step, story: Story) -> bool:
    """Return whether a step only adds rows that a simple writer can place: rows with a key only in fixed buckets."""
    fixed = story.options["bucket"] not in {"-1", "-2"} or not story.primary_keys
    adds = step["op"] == "write" and all(row[0] == "+I" for row in step["rows"]) and "overwrite" not in step
    return adds and fixed


@dataclass(frozen=True)
class PypaimonPeer:
    path: Path
    pypaimon: Pypaimon
    columns: Callable[[], Sequence[tuple[str, Any]]]
    name: str = "pypaimon"

    def can(self, step: Step, story: Story) -> bool:
        return adds_rows(step, story)

    def perform(self, step: Step, number: int) -> None:
        self.pypaimon.write(self.path, arrow_rows([row[1:] for row in step["rows"]], self.columns()))

    def read(self) -> Rows:
        return self.pypaimon.read(self.path)


@dataclass(frozen=True)
class RustPeer:
    path: Path
    rust: PypaimonRust
    columns: Callable[[], Sequence[tuple[str, Any]]]
    name: str = "pypaimon-rust"

    def can(self, step: Step, story: Story) -> bool:
        return adds_rows(step, story)

    def perform(self, step: Step, number: int) -> None:
        self.rust.write(self.path, arrow_rows([row[1:] for row in step["rows"]], self.columns()))

    def read(self) -> Rows:
        rows = self.rust.read(self.path)
        # Without a batch of rows it does not tell the columns.
        return rows if rows.column_names else arrow_rows([], self.columns())
