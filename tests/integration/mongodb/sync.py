"""Pipelines from a MongoDB server into tables, in this process, and what the tables then hold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pymongo import MongoClient
from pymongo.database import Database

from penstock.pipelines.config.model import PipelineSpec
from penstock.pipelines.driver.batch_driver import BatchDriver, OnBatch
from penstock.table.catalog.settings import CatalogSettings
from penstock.table.handle import Table
from tests.here import note_as_spark_does, run
from tests.sync_flags import spec_of_action

DATABASE = "play"


@dataclass(frozen=True)
class MongoPlayground:
    """A server under test."""

    hosts: str
    client: MongoClient[dict[str, Any]]

    @classmethod
    @contextmanager
    def at(cls, uri: str) -> Iterator[MongoPlayground]:
        with MongoClient[dict[str, Any]](uri) as client:
            yield cls(urlsplit(uri).netloc, client)

    @property
    def db(self) -> Database[dict[str, Any]]:
        return self.client[DATABASE]

    def start_over(self) -> None:
        """Make the database empty, and drop others that tests made."""
        for name in self.client.list_database_names():
            if name.startswith(DATABASE):
                self.client.drop_database(name)


@dataclass
class MongoSync:
    """One pipeline: `table` for table sync, none for database sync. `conf` are options of --mongodb-conf."""

    server: MongoPlayground
    folder: Path
    table: str | None = None
    conf: Sequence[str] = ()
    flags: Sequence[str] = ()
    database: str = DATABASE

    @property
    def words(self) -> list[str]:
        """The flags of the command."""
        conf = [
            f"hosts={self.server.hosts}",
            f"database={self.database}",
            *([f"collection={self.table}"] if self.table else []),
            *self.conf,
        ]
        return [
            *("--warehouse", f"{self.folder}/warehouse", "--database", "ods", "--until-caught-up"),
            *("--checkpoint", f"{self.folder}/checkpoint"),
            *(["--table", self.table] if self.table else []),
            *(word for item in conf for word in ("--mongodb-conf", item)),
            *self.flags,
        ]

    @property
    def spec(self) -> PipelineSpec:
        return spec_of_action("mongodb-sync-table" if self.table else "mongodb-sync-database", self.words)

    def run(self, on_batch: OnBatch | None = None) -> list[BatchDriver]:
        spec = self.spec
        try:
            return run(spec, on_batch=on_batch)
        finally:
            note_as_spark_does(Path(spec.checkpoint))

    def target(self, name: str | None = None) -> Table:
        return Table(CatalogSettings.of(f"{self.folder}/warehouse", {}).store(f"ods.{name or self.table}"))

    def tables(self) -> list[str]:
        return sorted(
            name.partition(".")[2] for name in CatalogSettings.of(f"{self.folder}/warehouse", {}).tables("ods")
        )

    def rows(self, name: str | None = None) -> dict[Any, dict[str, Any]]:
        return {row["_id"]: row for row in self.target(name).scan().to_arrow().to_pylist()}
