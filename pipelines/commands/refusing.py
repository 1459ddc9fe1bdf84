"""Paimon's actions that cannot be here, each refused with its reason."""

from __future__ import annotations

from typing import NoReturn

from penstock.errors import ConfigError

_HIVE = (
    "it turns tables of Hive's metastore into Paimon's, and no metastore is read here",
    'read the old table with Spark, and write it with  df.write.format("penstock")',
)
REASONS = {
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
