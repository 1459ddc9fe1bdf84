"""Paimon's actions that cannot be here, each refused with its reason."""

from __future__ import annotations

from typing import NoReturn

from penstock.errors import ConfigError

_HIVE = (
    "it turns tables of Hive's metastore into Paimon's, and no metastore is read here",
    'read the old table with Spark, and write it with  df.write.format("penstock")',
)
_POSTGRES = (
    "PostgreSQL's own log is not read here",
    "let Debezium write it to Kafka:  penstock kafka-sync-table --kafka-conf value.format=debezium-json"
    "  (or debezium-avro) reads its topics, schema changes included",
)
_MONGODB = (
    "MongoDB's change streams are not read here",
    "let Debezium write them to Kafka:  penstock kafka-sync-table --kafka-conf value.format=debezium-bson"
    "  reads its topics",
)
_PULSAR = (
    "topics of Pulsar are not read here",
    "Pulsar speaks Kafka's protocol with its extension KoP:  penstock kafka-sync-table  reads it then; or copy the"
    " topics to Kafka",
)
REASONS = {
    "postgres-sync-table": _POSTGRES,
    "postgres-sync-database": _POSTGRES,
    "mongodb-sync-table": _MONGODB,
    "mongodb-sync-database": _MONGODB,
    "pulsar-sync-table": _PULSAR,
    "pulsar-sync-database": _PULSAR,
    "repair": ("it fills a metastore, and a warehouse of files has none: its folders are the catalog", None),
    "migrate-table": _HIVE,
    "migrate-database": _HIVE,
    "migrate-file": _HIVE,
    "migrate-iceberg-table": _HIVE,
    "query-service": (
        "it serves look-ups from a running Flink job",
        "table.scan(where=...) reads only the files a key can lie in",
    ),
    "rewrite-file-index": (
        "file indexes are neither written nor needed: scans leave files out by their statistics",
        "compact --order-strategy zorder  makes the statistics narrow",
    ),
    "merge-branch": ("Paimon 1.3 has no such action", "fast-forward  makes main what a branch is"),
    "compact-chain-table": ("chain tables are of a later table format", None),
    "data-evolution-merge-into": (
        "tables with data-evolution.enabled are not supported",
        "merge-into  on a keyed table",
    ),
    "reassign-row-id": ("row ids are assigned by tables with data evolution, which are not supported", None),
}


def command(name: str, words: list[str]) -> NoReturn:
    reason, hint = REASONS[name]
    raise ConfigError(f"{name} is not here: {reason}", hint=hint)
