"""Commands on tables, by name: the module that answers, and what it does. Imports nothing: --help pays nothing."""

from __future__ import annotations

_LOOKING = "penstock.pipelines.commands.show"
_QUERYING = "penstock.pipelines.commands.sql"
_COMPACTING = "penstock.pipelines.commands.compact"
_REWRITING = "penstock.pipelines.commands.rewrite"
_MAINTAINING = "penstock.pipelines.commands.maintain"
_HEALING = "penstock.pipelines.commands.repair"
_REFUSING = "penstock.pipelines.commands.unsupported"

TABLE_COMMANDS = {
    "tables": (_LOOKING, "list the tables of a warehouse"),
    "show": (_LOOKING, "show a table: columns, options, snapshots, files"),
    "sql": (_QUERYING, "query tables with SQL, including older states and system tables"),
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
    "merge-into": (_REWRITING, "update, insert and delete rows with those of another table"),
    "rescale": (_REWRITING, "rewrite a table or partition with another number of buckets"),
    "clone": (_REWRITING, "copy tables to another place, with their present rows"),
    "copy-files": (_REWRITING, "copy tables to another place, with the files of their latest snapshots"),
    "drop-partition": (_MAINTAINING, "delete all rows of partitions"),
    "expire-changelogs": (_MAINTAINING, "expire changelogs whose snapshots have expired: one bounded round"),
    "mark-partition-done": (_MAINTAINING, "mark partitions as complete with a file or a request"),
    "compact-manifest": (_HEALING, "merge the manifests of a table"),
    "remove-unexisting-files": (_HEALING, "remove missing data files from a table"),
    "remove-unexisting-manifests": (_HEALING, "remove missing manifests from a table"),
}
# Paimon's actions that have no meaning here; each says why.
REFUSED = dict.fromkeys(
    (
        "repair",
        "migrate-table",
        "migrate-database",
        "migrate-file",
        "migrate-iceberg-table",
        "query-service",
        "rewrite-file-index",
        "merge-branch",
        "compact-chain-table",
        "data-evolution-merge-into",
        "reassign-row-id",
        "mongodb-sync-table",
        "mongodb-sync-database",
        "pulsar-sync-table",
        "pulsar-sync-database",
    ),
    (_REFUSING, "not supported: explains why"),
)
