"""Commands on tables by name, with the module that runs each, and the actions of Paimon that are refused.

The command line loads this at every start, so it imports no command.
"""

from __future__ import annotations

from penstock.errors import ConfigError

_HOME = "penstock.pipelines.commands"
_LOOKING = "penstock.pipelines.commands.show"
_QUERYING = "penstock.pipelines.commands.sql"
_COMPACTING = "penstock.pipelines.commands.compact"
_REWRITING = "penstock.pipelines.commands.rewrite"
_MAINTAINING = "penstock.pipelines.commands.maintain"
_HEALING = "penstock.pipelines.commands.repair"

TABLE_COMMANDS = {
    "tables": (_LOOKING, "list the tables of a warehouse"),
    "show": (_LOOKING, "show a table: columns, options, snapshots, files"),
    "sql": (_QUERYING, "query tables with SQL, including older states and system tables"),
    "analyze": (f"{_HOME}.analyze", "store statistics of a table's columns, for the planners of queries"),
    "compact": (_COMPACTING, "compact a table, or some of its partitions"),
    "compact-database": (_COMPACTING, "compact all tables of one or more databases"),
    "expire-snapshots": (
        _MAINTAINING,
        "expire old snapshots and delete the files that only they use: one bounded round",
    ),
    "create-tag": (_MAINTAINING, "create a tag of a snapshot"),
    "create-tag-from-timestamp": (_MAINTAINING, "create a tag of the first snapshot created at or after a time"),
    "create-tag-from-watermark": (_MAINTAINING, "create a tag of the first snapshot whose watermark reached a time"),
    "replace-tag": (_MAINTAINING, "move a tag to another snapshot"),
    "rename-tag": (_MAINTAINING, "rename a tag"),
    "delete-tag": (_MAINTAINING, "delete tags and the files that only they use"),
    "expire-tags": (_MAINTAINING, "delete tags whose retention time is over"),
    "create-branch": (_MAINTAINING, "create a branch, from a tag or empty"),
    "delete-branch": (_MAINTAINING, "delete branches"),
    "fast-forward": (_MAINTAINING, "replace main with a branch"),
    "rollback-to": (_MAINTAINING, "roll back to a snapshot or tag and delete later snapshots"),
    "rollback-to-timestamp": (_MAINTAINING, "roll back to the last snapshot at a time"),
    "reset-consumer": (_MAINTAINING, "move a consumer to another snapshot, or delete it"),
    "clear-consumers": (_MAINTAINING, "delete consumers"),
    "expire-partitions": (_MAINTAINING, "drop partitions older than their retention time"),
    "remove-orphan-files": (_MAINTAINING, "delete files that nothing refers to; list them first with --dry-run"),
    "delete": (_REWRITING, "delete the rows that match a condition"),
    "merge-into": (f"{_HOME}.merge_into", "update, insert and delete rows with those of another table"),
    "rescale": (_REWRITING, "rewrite a table or partition with another number of buckets"),
    "clone": (_REWRITING, "copy tables to another database or warehouse, with their present rows"),
    "copy-files": (_REWRITING, "copy tables to another database or warehouse, with files of the latest snapshots"),
    "drop-partition": (_MAINTAINING, "delete all rows of partitions"),
    "expire-changelogs": (_MAINTAINING, "expire changelogs whose snapshots have expired: one bounded round"),
    "mark-partition-done": (_MAINTAINING, "mark partitions as complete with a file or a request"),
    "repair": (_HEALING, "make the entries of a Hive metastore follow the tables of the warehouse"),
    "publish-iceberg": (_HEALING, "write the Iceberg metadata of a table now, for example after setting its option"),
    "compact-manifest": (_HEALING, "merge the manifests of a table"),
    "remove-unexisting-files": (_HEALING, "remove missing data files from a table"),
    "remove-unexisting-manifests": (_HEALING, "remove missing manifests from a table"),
}
_HIVE = (
    "it converts Hive tables to Paimon tables, and Penstock does not read tables of Hive",
    'read the Hive table with Spark and write it with  df.write.format("penstock")',
)
_SQL_SERVER = (
    "Penstock does not read the log of SQL Server",
    "let Debezium write its changes to Kafka, and read them with  kafka-sync-database  and value.format=debezium-json",
)
# Paimon's actions that have no counterpart here: the reason, and what to use instead.
REFUSED = {
    "migrate-table": _HIVE,
    "migrate-database": _HIVE,
    "migrate-file": _HIVE,
    "migrate-iceberg-table": (
        "it converts Iceberg tables to Paimon tables, and Penstock does not read tables of Iceberg",
        'read the Iceberg table with Spark and write it with  df.write.format("penstock")',
    ),
    "query-service": (
        "it serves lookups from a running Flink job",
        "use table.scan(where=...), which reads only the files that may contain a key",
    ),
    "rewrite-file-index": (
        "Penstock does not write file indexes: scans skip files by their statistics",
        "use  compact --order-strategy zorder  so that statistics skip more files",
    ),
    "sqlserver-sync-table": _SQL_SERVER,
    "sqlserver-sync-database": _SQL_SERVER,
    "merge-branch": (
        "it was added in Paimon 2, and Penstock has the actions of Paimon 1",
        "use  fast-forward  to replace main with a branch",
    ),
    "compact-chain-table": ("chain tables belong to a later version of the table format", None),
    "data-evolution-merge-into": (
        "tables with data-evolution.enabled are not supported",
        "use  merge-into  on a table with a primary key",
    ),
    "reassign-row-id": ("row ids need tables with data evolution, which are not supported", None),
}


def refusal(name: str) -> ConfigError:
    """Return the error for one of the refused actions, with its reason."""
    reason, hint = REFUSED[name]
    return ConfigError(f"{name} is not supported: {reason}", hint=hint)
