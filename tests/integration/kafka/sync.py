"""A pipeline of Paimon's Kafka flags over a real broker, run in this process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from penstock.pipelines.config.model import PipelineSpec
from penstock.table.catalog.catalog import Catalog
from penstock.table.catalog.settings import CatalogSettings
from penstock.table.handle import Table
from penstock.table.schema.type_text import written
from tests.integration.kafka.conftest import Broker
from tests.sync_flags import spec_of_action


class Sync:
    """With `--table` among the flags it is kafka-sync-table, else kafka-sync-database."""

    def __init__(self, broker: Broker, folder: Path, value_format: str = "canal-json") -> None:
        self.broker, self.folder, self.format = broker, folder, value_format
        self.warehouse = CatalogSettings.of(f"{folder}/warehouse", {})

    def spec(self, topic: str, *flags: str, startup: str = "earliest-offset", **conf: str) -> PipelineSpec:
        kafka = {
            ("topic-pattern" if "*" in topic else "topic"): topic,
            "value.format": self.format,
            "scan.startup.mode": startup,
            "properties.bootstrap.servers": self.broker.properties["bootstrap.servers"],
            **{name.replace("__", "-").replace("_", "."): value for name, value in conf.items()},
        }
        words = ["--warehouse", f"{self.folder}/warehouse", "--database", "ods", "--until-caught-up", *flags]
        words += [word for key, value in kafka.items() for word in ("--kafka-conf", f"{key}={value}")]
        return spec_of_action("kafka-sync-table" if "--table" in flags else "kafka-sync-database", words)

    def create(self, name: str, columns: list[tuple[str, str]], keys: list[str], **options: str) -> None:
        catalog = Catalog(f"{self.folder}/warehouse")
        catalog.create_database("ods", ignore_if_exists=True)
        catalog.create_table(f"ods.{name}", columns, keys, options={"bucket": "1", **options})

    def tables(self) -> set[str]:
        return {name.partition(".")[2] for name in self.warehouse.tables("ods")}

    def table(self, name: str) -> Table:
        return Table(self.warehouse.store(f"ods.{name}"))

    def columns(self, name: str) -> list[str]:
        return [f"{field.name} {written(field.type)}" for field in self.table(name).definition.fields]

    def rows(self, name: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self.table(name).scan().to_arrow().to_pylist()
        return sorted(rows, key=lambda row: str(list(row.values())))

    def ids(self, name: str) -> list[int]:
        return sorted(self.table(name).scan().to_arrow().column("id").to_pylist())
