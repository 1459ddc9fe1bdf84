"""A pipeline of Paimon's Pulsar flags over a real broker, run in this process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from penstock.pipelines.config.model import PipelineSpec
from penstock.table.catalog.settings import CatalogSettings
from penstock.table.handle import Table
from penstock.table.schema.type_text import written
from tests.integration.pulsar.conftest import Broker
from tests.sync_flags import spec_of_action


class Sync:
    """With `--table` among the flags it is pulsar-sync-table, else pulsar-sync-database."""

    def __init__(self, broker: Broker, folder: Path, value_format: str = "canal-json") -> None:
        self.broker, self.folder, self.format = broker, folder, value_format
        self.warehouse = CatalogSettings.of(f"{folder}/warehouse", {})

    def flags(self, topic: str, *flags: str, **conf: str) -> list[str]:
        """Return all flags; in `conf` two underscores are a dot."""
        pulsar = {
            ("topic-pattern" if "*" in topic else "topic"): topic,
            "value.format": self.format,
            "pulsar.client.serviceUrl": self.broker.url,
            "pulsar.admin.adminUrl": self.broker.admin_url,
            "pulsar.consumer.subscriptionName": "lake",
            **{name.replace("__", "."): value for name, value in conf.items()},
        }
        words = ["--warehouse", f"{self.folder}/warehouse", "--database", "ods", "--until-caught-up", *flags]
        return words + [word for key, value in pulsar.items() if value for word in ("--pulsar-conf", f"{key}={value}")]

    def spec(self, topic: str, *flags: str, **conf: str) -> PipelineSpec:
        action = "pulsar-sync-table" if "--table" in flags else "pulsar-sync-database"
        return spec_of_action(action, self.flags(topic, *flags, **conf))

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
        return sorted(int(number) for number in self.table(name).scan().to_arrow().column("id").to_pylist())
