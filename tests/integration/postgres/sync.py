"""Pipelines from a PostgreSQL server into tables, in this process, and what the tables then hold."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.pipelines.api.verify import TableVerdict, Verification
from penstock.pipelines.config.model import PipelineSpec
from penstock.pipelines.driver.batch_driver import BatchDriver, OnBatch
from penstock.pipelines.job import build
from penstock.pipelines.job.source_request import connector, request_of
from penstock.pipelines.ledger.checkpoint_folder import CheckpointFolder
from penstock.table.catalog.settings import CatalogSettings
from penstock.table.handle import Table
from tests.here import note_as_spark_does, run
from tests.sync_flags import spec_of_action
from tests.waiting import until

DATABASE, SLOT = "play", "play_slot"


@dataclass(frozen=True)
class PgPlayground:
    """A server under test; statements run as its superuser."""

    port: int

    def run(self, *statements: str, database: str = DATABASE) -> str:
        """Run each statement by itself and return what the last one prints."""
        words = [word for statement in statements for word in ("-c", statement)]
        address = ["-h", "127.0.0.1", "-p", str(self.port), "-U", "postgres", "-d", database]
        done = subprocess.run(
            ["psql", "-XqAt", "-v", "ON_ERROR_STOP=1", *address, *words], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def start_over(self) -> None:
        """Make an empty database, without slots."""
        end = "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE active"
        until(lambda: not self.run(end, database="postgres"), "the ends of the sessions that hold slots")
        self.run(
            "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots",
            f"DROP DATABASE IF EXISTS {DATABASE} WITH (FORCE)",
            f"CREATE DATABASE {DATABASE} OWNER cdc",
            database="postgres",
        )
        self.run("ALTER SCHEMA public OWNER TO cdc", "ALTER DEFAULT PRIVILEGES GRANT ALL ON TABLES TO cdc")

    def create(self, table: str, columns: str) -> None:
        """Create a table that the pipeline's user owns, so that it may be published."""
        self.run(f"CREATE TABLE {table} ({columns})", f"ALTER TABLE {table} OWNER TO cdc")


@dataclass
class PgSync:
    """One pipeline: `table` for table sync, none for database sync. `conf` are options of --postgres-conf."""

    server: PgPlayground
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
            f"database-name={DATABASE}",
            "schema-name=public",
            f"slot.name={SLOT}",
            *self.conf,
        ]
        return [
            *("--warehouse", f"{self.folder}/warehouse", "--database", "ods", "--until-caught-up"),
            *("--checkpoint", f"{self.folder}/checkpoint"),
            *(["--table", self.table] if self.table else []),
            *(word for item in conf for word in ("--postgres-conf", item)),
            *self.flags,
        ]

    @property
    def command(self) -> str:
        return "postgres-sync-table" if self.table else "postgres-sync-database"

    @property
    def spec(self) -> PipelineSpec:
        return spec_of_action(self.command, self.words)

    def run(self, on_batch: OnBatch | None = None) -> list[BatchDriver]:
        try:
            return run(self.spec, on_batch=on_batch)
        finally:
            note_as_spark_does(self.folder / "checkpoint")

    def verified(self, spec: PipelineSpec | None = None) -> dict[str, TableVerdict]:
        """Return how the tables compare with the server, by name: those of this pipeline, or of another description."""
        spec = spec or self.spec
        source = connector(spec).comparable(spec.source, request_of(spec))
        assert source is not None
        mapping = build.mapping_of(spec, CatalogSettings.of(spec.sink.catalog.warehouse, {}))
        reached = CheckpointFolder(spec.checkpoint).batches.progress().offsets
        found = Verification(spec.pipeline.name, source, mapping, reached).verdicts()
        return {verdict.table.partition(".")[2]: verdict for verdict in found}

    def target(self, name: str | None = None) -> Table:
        return Table(CatalogSettings.of(f"{self.folder}/warehouse", {}).store(f"ods.{name or self.table}"))

    def tables(self) -> list[str]:
        return [name.partition(".")[2] for name in CatalogSettings.of(f"{self.folder}/warehouse", {}).tables("ods")]

    def rows(self, name: str | None = None) -> dict[Any, dict[str, Any]]:
        return {row["id"]: row for row in self.target(name).scan().to_arrow().to_pylist()}
