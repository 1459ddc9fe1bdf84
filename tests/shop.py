"""A small shop: its canal messages as files in an inbox, and the tables that a pipeline makes of them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.pipelines.config.load import parsed
from penstock.pipelines.config.model import PipelineSpec
from penstock.table.catalog.settings import CatalogSettings
from penstock.table.handle import Table
from penstock.table.meta.data_file import DataFile
from penstock.table.meta.live import live_entries


@dataclass(frozen=True)
class Shop:
    folder: Path

    @property
    def inbox(self) -> Path:
        return self.folder / "in"

    @property
    def warehouse(self) -> CatalogSettings:
        return CatalogSettings.of(f"{self.folder}/warehouse", {})

    def put(self, name: str, *messages: str) -> None:
        self.inbox.mkdir(parents=True, exist_ok=True)
        (self.inbox / f".{name}").write_text("\n".join(messages) + "\n")
        (self.inbox / f".{name}").rename(self.inbox / name)

    def spec(self, *, name: str = "shop", checkpoint: str = "checkpoint", **sections: Any) -> PipelineSpec:
        self.inbox.mkdir(parents=True, exist_ok=True)
        pipeline = {"name": name, "checkpoint": f"{self.folder}/{checkpoint}", "until": "caught-up"}
        sink = {
            "catalog": {"warehouse": f"{self.folder}/warehouse"},
            "database": "ods",
            "table-options": {"bucket": "2"},
        }
        source = {"type": "files", "path": str(self.inbox), "value.format": "canal-json"}
        return parsed(
            {
                "source": source | sections.pop("source", {}),
                "pipeline": pipeline | sections.pop("pipeline", {}),
                "sink": sink | sections.pop("sink", {}),
                **sections,
            }
        )

    def table(self, name: str) -> Table:
        return Table(self.warehouse.store(f"ods.{name}"))

    def live(self, name: str) -> list[DataFile]:
        store = self.table(name).store
        latest = store.snapshots.latest()
        return [entry.file for entry in live_entries(store, latest)] if latest else []

    def buckets(self, name: str) -> set[tuple[bytes, int]]:
        store = self.table(name).store
        latest = store.snapshots.latest()
        return {(entry.partition, entry.bucket) for entry in live_entries(store, latest)} if latest else set()

    def files(self, name: str) -> set[str]:
        return {path.name for path in Path(self.table(name).path).rglob("bucket-*/data-*")}

    def snapshots(self, name: str) -> int:
        return len(list(self.table(name).store.snapshots.newest_first()))

    def rows(self, name: str) -> list[dict[str, Any]]:
        return sorted(self.table(name).scan().to_arrow().to_pylist(), key=lambda row: row["id"])

    def ids(self, name: str) -> list[int]:
        return [row["id"] for row in self.rows(name)]


def change(
    kind: str, table: str, *rows: Mapping[str, object], old: Sequence[Mapping[str, object]] | None = None
) -> str:
    """A canal message; columns named q... are ints, id is the key."""
    names = list(rows[0])
    types = {name: "bigint" if name == "id" else "int" if name.startswith("q") else "varchar(20)" for name in names}
    data = [{name: None if value is None else str(value) for name, value in row.items()} for row in rows]
    return json.dumps(
        {
            "type": kind,
            "database": "shop",
            "table": table,
            "isDdl": False,
            "pkNames": ["id"],
            "mysqlType": types,
            "data": data,
            "old": old,
            "es": 1_700_000_000_000,
            "ts": 1_700_000_000_001,
        }
    )


def insert(table: str, *rows: Mapping[str, object]) -> str:
    return change("INSERT", table, *rows)
