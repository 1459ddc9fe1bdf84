"""Paimon's actions that cannot be here, each refused with its reason."""

from __future__ import annotations

from typing import NoReturn

from penstock.errors import ConfigError

_HIVE = (
    "it converts Hive tables to Paimon tables, and Penstock does not read tables of Hive",
    'read the Hive table with Spark and write it with  df.write.format("penstock")',
)
_MONGODB = (
    "Penstock cannot read MongoDB change streams",
    "publish the changes to Kafka with Debezium, and read the topics with  penstock kafka-sync-table "
    "--kafka-conf value.format=debezium-bson",
)
_PULSAR = (
    "Penstock cannot read Pulsar topics",
    "enable Pulsar's Kafka protocol handler (KoP) and use  penstock kafka-sync-table ; or copy the topics to Kafka",
)
REASONS = {
    "mongodb-sync-table": _MONGODB,
    "mongodb-sync-database": _MONGODB,
    "pulsar-sync-table": _PULSAR,
    "pulsar-sync-database": _PULSAR,
    "repair": (
        "it adds the folders of a warehouse to a metastore, which Penstock does not support: create the tables there",
        None,
    ),
    "migrate-table": _HIVE,
    "migrate-database": _HIVE,
    "migrate-file": _HIVE,
    "migrate-iceberg-table": _HIVE,
    "query-service": (
        "it serves lookups from a running Flink job",
        "use table.scan(where=...), which reads only the files that may contain a key",
    ),
    "rewrite-file-index": (
        "Penstock does not write file indexes: scans skip files by their statistics",
        "use  compact --order-strategy zorder  so that statistics skip more files",
    ),
    "merge-branch": ("Paimon 1.3 has no such action", "use  fast-forward  to replace main with a branch"),
    "compact-chain-table": ("chain tables belong to a later version of the table format", None),
    "data-evolution-merge-into": (
        "tables with data-evolution.enabled are not supported",
        "use  merge-into  on a table with a primary key",
    ),
    "reassign-row-id": ("row ids need tables with data evolution, which are not supported", None),
}


def command(name: str, words: list[str]) -> NoReturn:
    reason, hint = REASONS[name]
    raise ConfigError(f"{name} is not supported: {reason}", hint=hint)
