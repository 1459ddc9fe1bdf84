"""What the log events of tables, catalogs and SQL mean, and what to do about them, for the page of log events."""

from __future__ import annotations

EVENTS: dict[str, dict[str, tuple[str, str]]] = {
    "Commits and files": {
        "commit_uncertain": (
            "the store did not say whether the snapshot was written; the next attempt finds out, and adds no row twice",
            "",
        ),
        "rows_renumbered": ("another job committed to the bucket first; the rows get greater sequence numbers", ""),
        "rows_not_committed": ("a writer was closed before its rows were committed; they are deleted", "call `commit`"),
        "rows_of_older_commit_dropped": (
            "rows came with an identifier below that of the user's last commit. They were dropped as rows that the"
            " table already has",
            "number commits upwards; choose a commit user for each job, and a new one for a job that begins again",
        ),
        "files_left_as_orphans": (
            "whether files of a repeated commit are in the table is not known any more; they are kept",
            "`penstock remove-orphan-files`",
        ),
        "staged_rows_left_as_orphans": (
            "staged files of a Spark job could not be deleted",
            "`penstock remove-orphan-files`",
        ),
        "files_not_deleted": ("files that nothing refers to could not be deleted", "`penstock remove-orphan-files`"),
        "delete_refused": (
            "a file name leads out of the table's folder; nothing is deleted there",
            "find who wrote it",
        ),
        "no_such_partition": ("a partition to drop does not exist", "correct the name"),
        "postponed_rows_not_seen": (
            "a statement does not see rows that wait for their bucket",
            "compact the table first",
        ),
        "snapshot_times_decrease": (
            "the newest snapshot is more than a day ahead of the clock, so the next one is older than it",
            "correct the clock",
        ),
        "keys_indexed": ("the index of keys of a table with dynamic buckets was built", ""),
        "keys_evicted": (
            "an index of keys was deleted from the local disk to free space; it is built again when needed",
            "",
        ),
        "keys_in_two_partitions": (
            "keys of a table with moving keys are in several partitions, written by another program",
            "delete the older rows of these keys",
        ),
    },
    "Maintenance, tags and branches": {
        "maintenance_failed": (
            "a step of maintenance failed; the commit is done, and a later one tries again",
            "see `reason`",
        ),
        "automatic_tags_ahead": ("a wrong clock made tags that no count or time removes", "delete them"),
        "rolled_back": ("a rollback also removed what `note` names", ""),
        "fast_forwarded": ("a fast-forward also removed what `note` names", ""),
    },
    "Catalogs": {
        "warehouse_missing": ("the folder does not exist yet; the first database creates it", "compare the path"),
        "database_elsewhere": ("the metastore has changed the location of a new database", "create it with a location"),
        "lock_not_released": ("a lock could not be released; the commit is done, and the lock expires", ""),
        "expired_lock_removed": ("a lock of a process that ended without releasing it was removed", ""),
        "partitions_not_in_metastore": ("partitions were not added; the next commit compares all", "see `reason`"),
        "tags_not_in_metastore": ("tags were not added; the next tag adds them", "see `reason`"),
    },
    "Iceberg metadata": {
        "iceberg_metadata_failed": (
            "the metadata was not published; the next commit tries again",
            "see [the table](iceberg.md)",
        ),
        "iceberg_metadata_remade": ("the former metadata cannot be continued, and was written as a whole", ""),
        "iceberg_files_kept": (
            "unused files of the metadata are not deleted, as one could not be read",
            "see `reason`",
        ),
        "iceberg_entry_kept": (
            "the entry of a dropped or renamed table could not be dropped",
            "drop it in the catalog, without its files",
        ),
        "iceberg_entry_exists": ("another writer created the entry at the same time", ""),
        "iceberg_entry_changed": ("another writer changed the entry first; it is tried again", ""),
        "iceberg_entry_gone": ("the entry to drop does not exist any more", ""),
    },
    "SQL, Spark and streams": {
        "parked_table_in_view": (
            "a table in the result of `catalog.at()` is parked: it is older than the others and lacks batches",
            "`penstock run FILE --retry` after its cause is corrected",
        ),
        "job_place_expired": (
            "a streaming INSERT finds no commit of its own in a target whose first snapshots have expired. If the job"
            " was stopped for more than a week, it has lost its place and begins where a new job does",
            "nothing for a new job; otherwise stop it, empty the target, and begin again",
        ),
        "argument_without_effect": ("an argument of a procedure that has no effect here", ""),
        "merge_without_spark": ("Spark before 4.3 cannot run the merge: DuckDB does, with its SQL", ""),
        "another_python": (
            "Spark runs tasks with a Python that may lack Penstock",
            "set `PYSPARK_PYTHON` before the session starts",
        ),
        "names_not_checked": (
            "the session cannot refuse statements that change an entry of Spark's own catalog and no table",
            "use the catalog of Penstock",
        ),
        "option_of_missing_table": ("an option in the session names a table that does not exist", "correct the name"),
        "overwrite_not_followed": ("a streaming read passes over an overwrite", "`streaming-read-overwrite` reads it"),
        "rows_of_others_replaced": (
            "an overwrite by path replaced rows that other jobs committed after its query began",
            "if the query reads this table, roll back, and overwrite it by its name in the catalog",
        ),
        "waiting_partitions_passed_over": (
            "a dynamic overwrite of a table with its own rows does not read partitions whose rows all wait for a "
            "compaction, and leaves them as they are",
            "if it should change them too, `CALL sys.compact` and run it again",
        ),
        "table_not_described": (
            "a table of the catalog is left out of `sys.tables` and its relatives, as it cannot be read",
            "see `reason`",
        ),
        "truncate_ignored": ("a stream of changes cannot contain TRUNCATE", ""),
        "bad_records_skipped": ("a stream of changes left records out that cannot be read", ""),
        "values_without_rows": (
            "a statement set values of older rows, and no change contains them",
            "begin with a new checkpoint to read them",
        ),
    },
    "Options and environment": {
        "options_without_effect": ("options of a table, a read or a job that have no effect here", "remove them"),
        "lookup_option_without_effect": ("an option of Flink's lookup hint that has no effect here", ""),
        "catalog_option_without_effect": ("an option of the catalog that has no effect here", "see `instead`"),
        "store_option_without_effect": (
            "an option of a store that is not known",
            "write options of the client as `object-store.NAME`",
        ),
        "folder_of_another_user": (
            "the folder of caches belongs to another user, and is not used",
            "remove it, or set `TMPDIR` to a folder of your own",
        ),
        "extension_not_imported": ("an installed package with an extension cannot be imported", "see `reason`"),
    },
}
