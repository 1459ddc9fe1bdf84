"""The golden tables: table folders that Java Paimon 1.3.1 (or pypaimon) wrote, with what Java reads from them.

`tables.tar.xz` holds a folder a case: `table/` is the table, `expected.json` what Java says of it. Rows stand once in
a pool there (`row_types`); every relation points into it. `ddl` and `steps` are the operations that made the table, in
the words of the Java oracle.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import json
import lzma
import os
import shutil
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.golden.relations import Change, Relation, unordered_columns

HERE = Path(__file__).resolve().parent
ARCHIVE = HERE / "tables.tar.xz"
ROOT = HERE.parents[1]


@functools.cache
def unpacked() -> Path:
    """The folder of all cases, unpacked once for each archive and shared by every process."""
    digest = hashlib.sha256(ARCHIVE.read_bytes()).hexdigest()[:12]
    home = ROOT / ".cache" / f"golden-{digest}"
    home.parent.mkdir(exist_ok=True)
    with (home.parent / "golden.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not home.exists():
            fresh = home.with_name(f"{home.name}.{os.getpid()}")
            shutil.rmtree(fresh, ignore_errors=True)
            with lzma.open(ARCHIVE) as packed, tarfile.open(fileobj=packed) as tables:
                tables.extractall(fresh, filter="data")
            fresh.rename(home)
    return home


@functools.cache
def case_names() -> list[str]:
    return sorted(path.parent.name for path in unpacked().glob("*/expected.json"))


@dataclass(frozen=True, slots=True)
class Incremental:
    """Changes after snapshot `start` up to and with `end`."""

    start: int
    end: int
    mode: str
    rows: Relation


class Case:
    """One golden table: `table` is its folder, never to be written to; `copy_to` gives one that may be."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.table = unpacked() / name / "table"
        self.expected: dict[str, Any] = json.loads((unpacked() / name / "expected.json").read_text(encoding="utf-8"))
        self._unordered = unordered_columns(self.expected["options"])

    def __repr__(self) -> str:
        return f"<golden table {self.name}: {self.expected['about']}>"

    def copy_to(self, folder: Path) -> Path:
        return Path(shutil.copytree(self.table, folder / self.name))

    @property
    def latest(self) -> Relation:
        return self._relation(self.expected["latest"])

    @property
    def snapshots(self) -> dict[int, Relation]:
        nodes = self.expected["by_snapshot"]
        return {int(name): self._relation(nodes[node.get("same_as", name)]) for name, node in nodes.items()}

    @property
    def tags(self) -> dict[str, Relation]:
        return {name: self._relation(node) for name, node in self.expected["by_tag"].items()}

    @property
    def branches(self) -> dict[str, Relation]:
        return {name: self._relation(node) for name, node in self.expected["by_branch"].items()}

    @property
    def incrementals(self) -> list[Incremental]:
        nodes = self.expected.get("incremental", [])
        return [Incremental(node["from"], node["to"], node["mode"], self._relation(node)) for node in nodes]

    @property
    def stream(self) -> list[Change] | None:
        """Each snapshot's changes, from the earliest snapshot (included) on; None where the table has no snapshot."""
        node = self.expected.get("stream")
        if node is None:
            return None
        pool = self.expected["row_types"][node["row_type"]]
        return [Change(part["snapshot"], self._unfold(pool, part)) for part in node["changes"]]

    def _relation(self, node: Mapping[str, Any]) -> Relation:
        if "java_error" in node:
            return Relation((), (), [], refusal=node["java_error"])
        return self._unfold(self.expected["row_types"][node["row_type"]], node)

    def _unfold(self, pool: Mapping[str, Any], node: Mapping[str, Any]) -> Relation:
        return Relation(
            columns=tuple(pool["columns"]),
            types=tuple(pool["types"]),
            rows=[pool["rows"][place] for place in node["rows"]],
            kinds=node.get("kinds"),
            buckets=node.get("buckets"),
            unordered=self._unordered,
        )
