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
    "tables": (_LOOKING, "the tables of a warehouse"),
    "show": (_LOOKING, "a table: columns, options, snapshots, files"),
    "sql": (_QUERYING, "rows of the warehouse by SQL, the past and system tables too"),
    "compact": (_COMPACTING, "compact a table, or partitions of it"),
    "compact-database": (_COMPACTING, "compact all tables of databases"),
    "expire-snapshots": (_MAINTAINING, "let old snapshots go, and the files only they held: one bounded round"),
    "create-tag": (_MAINTAINING, "keep a snapshot by name"),
    "create-tag-from-timestamp": (_MAINTAINING, "keep the first snapshot made at or after a time"),
    "create-tag-from-watermark": (_MAINTAINING, "keep the first snapshot whose watermark has come that far"),
    "replace-tag": (_MAINTAINING, "put a tag onto another snapshot"),
    "rename-tag": (_MAINTAINING, "give a tag another name"),
    "delete-tag": (_MAINTAINING, "give tags up, and the files only they held"),
    "expire-tags": (_MAINTAINING, "give up the tags whose time is over"),
    "create-branch": (_MAINTAINING, "begin a branch, from a tag or empty"),
    "delete-branch": (_MAINTAINING, "delete branches"),
    "fast-forward": (_MAINTAINING, "make main what a branch is"),
    "rollback-to": (_MAINTAINING, "go back to a snapshot or tag; what came after it is gone"),
    "rollback-to-timestamp": (_MAINTAINING, "go back to the last snapshot at a time"),
    "reset-consumer": (_MAINTAINING, "let a reader go on elsewhere, or forget it"),
    "clear-consumers": (_MAINTAINING, "forget readers"),
    "expire-partitions": (_MAINTAINING, "drop the partitions that have had their time"),
    "remove-orphan-files": (_MAINTAINING, "delete files that nothing leads to; look first with --dry-run"),
    "delete": (_REWRITING, "delete the rows a condition holds for"),
    "merge-into": (_REWRITING, "update, insert and delete rows by those of another table"),
    "rescale": (_REWRITING, "write a table or partition anew with another number of buckets"),
    "clone": (_REWRITING, "make tables again elsewhere, with the rows they have now"),
    "copy-files": (_REWRITING, "make tables again elsewhere, of the files their newest snapshots have"),
    "drop-partition": (_MAINTAINING, "take away all rows of partitions"),
    "expire-changelogs": (_MAINTAINING, "let changelogs go that outlived their snapshots: one bounded round"),
    "mark-partition-done": (_MAINTAINING, "tell by a file or a request that partitions are complete"),
    "compact-manifest": (_HEALING, "write the manifests of a table together"),
    "remove-unexisting-files": (_HEALING, "take data files out of a table that are not there any more"),
    "remove-unexisting-manifests": (_HEALING, "go on without manifests that are not there any more"),
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
        "postgres-sync-table",
        "postgres-sync-database",
        "mongodb-sync-table",
        "mongodb-sync-database",
        "pulsar-sync-table",
        "pulsar-sync-database",
    ),
    (_REFUSING, "not here: says why"),
)
