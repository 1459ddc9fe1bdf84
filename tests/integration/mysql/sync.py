"""Pipelines from a server under test into tables, in this process, and what the tables and the server then hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.ingest.mysql.config import MySqlConfig
from penstock.pipelines.api.verify import TableVerdict, Verification
from penstock.pipelines.config.model import PipelineSpec
from penstock.pipelines.driver.batch_driver import BatchDriver, OnBatch
from penstock.pipelines.job import build
from penstock.pipelines.job.source_request import connector, request_of
from penstock.pipelines.ledger.checkpoint_folder import CheckpointFolder
from penstock.table.catalog.settings import CatalogSettings
from penstock.table.handle import Table
from tests.here import note_as_spark_does, run
from tests.integration.mysql.playground import DATABASE, Playground
from tests.sync_flags import spec_of_action


@dataclass
class Sync:
    """One pipeline: `table` for table sync, none for database sync. `conf` are options of --mysql-conf."""

    server: Playground
    folder: Path
    table: str | None = None
    conf: Sequence[str] = ()
    flags: Sequence[str] = ()

    @property
    def words(self) -> list[str]:
        conf = [
            "hostname=127.0.0.1",
            f"port={self.server.port}",
            "username=cdc",
            "password=cdc",
            "jdbc.properties.useSSL=false",
            "jdbc.properties.allowPublicKeyRetrieval=true",
            *([] if any(item.startswith("database-name=") for item in self.conf) else [f"database-name={DATABASE}"]),
            *self.conf,
        ]
        return [
            *("--warehouse", f"{self.folder}/warehouse", "--database", "ods", "--until-caught-up"),
            *(["--table", self.table] if self.table else []),
            *(word for item in conf for word in ("--mysql_conf", item)),
            *self.flags,
        ]

    @property
    def command(self) -> str:
        return "mysql-sync-table" if self.table else "mysql-sync-database"

    @property
    def spec(self) -> PipelineSpec:
        return spec_of_action(self.command, self.words)

    def run(self, on_batch: OnBatch | None = None) -> list[BatchDriver]:
        spec = self.spec
        try:
            return run(spec, on_batch=on_batch)
        finally:
            note_as_spark_does(Path(spec.checkpoint))

    def verified(self, spec: PipelineSpec | None = None) -> list[TableVerdict]:
        """How the tables stand against the server: those of this pipeline, or of another description of it."""
        spec = spec or self.spec
        assert isinstance(spec.source, MySqlConfig)
        mapping = build.mapping_of(spec, CatalogSettings.of(spec.sink.catalog.warehouse, {}))
        source = connector(spec).comparable(spec.source, request_of(spec))
        assert source is not None
        reached = CheckpointFolder(spec.checkpoint).batches.progress().offsets
        left_out = spec.sink.ignore_incompatible
        found = Verification(spec.pipeline.name, source, mapping, reached, leaves_out_incompatible=left_out)
        return list(found.verdicts())

    def tables(self) -> list[str]:
        return [name.partition(".")[2] for name in CatalogSettings.of(f"{self.folder}/warehouse", {}).tables("ods")]

    def target(self, name: str | None = None) -> Table:
        return Table(CatalogSettings.of(f"{self.folder}/warehouse", {}).store(f"ods.{name or self.table}"))

    def rows(self, name: str | None = None, order: str = "id") -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.target(name).scan().to_arrow().to_pylist()
        return sorted(found, key=lambda row: (row[order] is None, row[order]))

    def ids(self, name: str | None = None) -> list[Any]:
        return [row["id"] for row in self.rows(name)]
