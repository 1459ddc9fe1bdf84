"""What the log events of pipelines mean, and what to do about them, for the page of log events."""

from __future__ import annotations

EVENTS: dict[str, dict[str, tuple[str, str]]] = {
    "Runs": {
        "starting_spark": ("Spark is being started, which takes seconds", ""),
        "spark_started": ("Spark has started", ""),
        "start_can_be_faster": ("Spark's classes are not archived on this machine", "run `penstock warm` once"),
        "workers_not_started_ahead": (
            "Python processes of Spark could not be started while nothing needed them; the first batch starts them",
            "",
        ),
        "run_needs_spark": ("a run that began without Spark continues with it; the reason is named", ""),
        "ended": ("the run has ended, with its last batch and the records of the run", ""),
        "signal": ("`penstock signal` was received: stop, pause or resume", ""),
        "retry": (
            "a batch failed for a reason that may pass, and is repeated after a pause",
            "if it goes on, see `reason`",
        ),
        "read_again": (
            "the source or the store failed while a batch was read; nothing was written yet, and it is read again",
            "if it happens often, look at the source and the network",
        ),
        "stopped_at_start": ("a stop ended the run while it waited for a source, a store or Spark", ""),
        "stopped_with_spark": (
            "a stop also ended Spark, in the middle of a batch; the next run repeats that batch",
            "",
        ),
        "position_lost": (
            "the source does not have the next changes any more; as the pipeline asks for it, all tables are emptied "
            "and read again",
            "keep the log longer than the longest stop",
        ),
        "gap_accepted": (
            "changes are missing at the source, in a table or under a former checkpoint, and `--accept-gap` continues "
            "without them",
            "find out what is missing: `penstock verify` compares tables with a database",
        ),
        "first_batch_repeated": (
            "the run before ended in its first batch, which is read again as it was planned, also if settings of the "
            "source have changed",
            "if other topics are wanted, start with a new `--checkpoint`",
        ),
        "tables_adopted": (
            "the checkpoint does not say which tables it filled, and they are accepted as they are",
            "compare them with `penstock verify`",
        ),
        "table_copied_again": ("a table lacks rows that the pipeline had written; it is emptied and copied again", ""),
        "table_not_copied": (
            "a table lacks rows of a source table that was added while rows of new tables are excluded",
            "`--reset TABLE` copies them",
        ),
        "retention_short": (
            "the source may delete records before a table with a long `freshness` has them",
            "keep them longer",
        ),
        "pattern_without_table": (
            "a pattern of the pipeline file matches no table of the source",
            "correct the pattern",
        ),
        "column_not_seen": (
            "a rule names a column that no row seen so far has",
            "correct the name, unless it comes later",
        ),
        "deletes_without_values": (
            "with `deletes: soft`, deletes of these tables contain only the key: deleted rows lose their other values",
            "see `hint`",
        ),
        "rule_fails": (
            "a rule cannot be computed from the columns that its table has now; the next row parks the table",
            "correct the rule",
        ),
        "flink_keys_without_effect": ("keys of a pipeline file of Flink CDC that only concern Flink", ""),
        "source_ddl_not_followed": (
            "changes of whole tables that Flink CDC would apply and this pipeline does not; `hint` names the reason",
            "see `hint`",
        ),
    },
    "Batches": {
        "batch": ("a batch is done: records read, rows written after the changes of one key were merged, seconds", ""),
        "batch_running": ("every ten seconds of a long batch", ""),
        "committed": ("the rows of a batch are in the table, as this snapshot", ""),
        "batch_already_committed": (
            "the table has the batch already, committed before a restart; nothing is added",
            "",
        ),
        "position_not_published": (
            "a stop ended the wait for a source that should note the position of the batch, which is finished",
            "",
        ),
        "batch_committed_by_another_process": (
            "another process of the same pipeline committed the batch first; the files of this one are deleted",
            "make sure that only one process runs the pipeline",
        ),
        "foreign_writer": (
            "another job wrote to a bucket at the same time; the rows are read and merged again",
            "if it goes on, see [several jobs](operations.md#several-jobs-into-one-table)",
        ),
        "rows_of_other_jobs": (
            "a new pipeline writes to a table that has rows of another job; if both read the same source, its rows are "
            "counted twice",
            "choose another table, or empty this one before",
        ),
        "bad_records": (
            "records could not be read and were left out or put into the dead-letter table",
            "`penstock dlq`",
        ),
        "deferred_records_read": ("records were read that tables with a longer `freshness` had left for later", ""),
        "nothing_captured": (
            "all records so far belong to tables that the selection excludes",
            "correct the selection (names are patterns that match the whole name), then read with a new checkpoint",
        ),
        "rows_of_several_tables": (
            "the messages of a pipeline that writes one table name several source tables; rows with the same key "
            "replace each other",
            "`kafka-sync-database` writes a table for each source table; `selection: {including-tables: REGEX}` in a "
            "file chooses source tables",
        ),
        "append_deletes_dropped": (
            "a table without primary key received deletes and old rows of updates, which are dropped",
            "define its key with `--primary-keys`",
        ),
        "updates_without_columns": (
            "updates lack columns, which are null now",
            "set `binlog_row_image` to FULL and read the table again, or use `merge-engine=partial-update`",
        ),
        "deletes_without_effect": (
            "deletes lack the table's `sequence.field`, so its rows stay",
            "let the source log full rows (`hint` names the setting), then read the table again",
        ),
        "changelog_without_inserts": (
            "a quality rule left new rows out, and the changelog has their later updates and deletes",
            "`changelog-producer=lookup` compares with the table instead",
        ),
        "expectations_not_met": ("rows of the batch do not meet [quality rules](transforms.md#quality-rules)", ""),
        "lookup_waits": ("rows miss in a dimension, and are looked up again after a pause, as its options ask for", ""),
        "lookup_missed": ("rows were not found in a dimension after all attempts", ""),
        "lookup_snapshot_expired": (
            "a repeated batch should look up in a snapshot of the dimension that has expired; a newer one is used",
            "keep the dimension's snapshots longer",
        ),
    },
    "Parked tables and tables left out": {
        "table_parked": (
            "a table failed and is parked; the other tables continue",
            "remove the cause, then `penstock run --retry`",
        ),
        "table_is_parked": ("named at each start until it is released", "`penstock run --retry`"),
        "batch_caught_up": ("a parked table received a batch that it had missed", ""),
        "late_rows_passed_over": (
            "the table lacks rows or values of a batch that it received late, or has them changed; `counts` has the"
            " reasons",
            "",
        ),
        "table_released": ("a parked table has all batches, and takes part again", ""),
        "table_left_out": (
            "rows of a source table are in no table; the reason is named",
            "see `hint`; the table can be excluded, or mapped to another name",
        ),
        "table_taken_in": (
            "a source table that was left out has a primary key now; its earlier rows are missing",
            "let the producer send them again",
        ),
        "table_incompatible": (
            "an existing table cannot store its source; as `ignore-incompatible` asks for, it is left out",
            "see `reason`",
        ),
    },
    "Schemas of target tables": {
        "schema_evolved": ("columns were added or widened", ""),
        "comments_changed": ("comments of columns were taken from the source", ""),
        "columns_renamed": ("columns were renamed as at the source", ""),
        "columns_not_renamed": (
            "columns cannot be renamed in the table: they are partition columns, or the new name exists",
            "read the table again with `--reset TABLE` after changing it",
        ),
        "columns_added": (
            "computed or metadata columns were added to a table that is older than they; its rows have null in them "
            "until they change",
            "",
        ),
        "option_kept": (
            "an option of the pipeline differs from the table's, which is kept",
            "change it with `ALTER TABLE`",
        ),
        "types_not_declared": (
            "the messages declare no types: columns are STRING, decimals and times as encoded",
            "see the note",
        ),
        "type_unknown": ("the source declares a type that is not known; its bytes are stored", ""),
        "sequence_is_text": (
            "`sequence.field` is a text, and texts are compared by their characters: 9 is newer than 10",
            "use a computed column such as `ver_no=cast(ver,BIGINT)`",
        ),
        "table_without_key": (
            "a source table without primary key is written to an append table: updates add rows, deletes are dropped",
            "`--include-keyless leave-out` leaves such tables out",
        ),
        "table_emptied": ("the table was emptied, because its source was or because it is read again", ""),
        "rows_marked_deleted": ("as `table_emptied`, with `deletes: soft`: all rows are marked", ""),
        "versions_ended": ("as `table_emptied`, with `deletes: history`: all current versions have ended", ""),
        "rename_columns_not_followed": (
            "the target has rows of other source tables, so its columns are not renamed",
            "`--reset TABLE` reads it again",
        ),
        "added_columns_not_filled": (
            "a column was added with values in older rows, and these are null in the target, which could not replace "
            "rows that are read again",
            "see `hint`",
        ),
        "changed_values_not_read": (
            "a statement changed values of older rows, and the target keeps the former ones",
            "`penstock run --reset TABLE`",
        ),
    },
    "Compaction and maintenance of pipelines": {
        "compacted": ("files of the table were compacted", ""),
        "compaction_lost": (
            "another job changed the files first. Only the compaction is dropped, no rows; it is planned again",
            "",
        ),
        "compaction_failed": ("`compact-database` leaves the table alone until it changes", "see `reason`"),
        "maintained": ("snapshots, tags or partitions have expired as the table's options say", ""),
        "care_failed": ("compaction or maintenance of a table failed; it is tried again after a pause", "see `reason`"),
    },
    "Observing": {
        "serving": ("the address of the metrics and the status page", ""),
        "backlog": ("at the start: what the source has for this run", ""),
        "no_backlog": ("the source did not say how much it has; only this number is missing", ""),
        "copy_planned": ("before the tables of a database are first copied, with the server's estimate of rows", ""),
        "no_estimates": ("the server gave no estimate of rows; the progress has no shares", ""),
        "copying": ("the progress of a first copy", ""),
        "observing_failed": ("a status, metric or span could not be written; rows are not affected", "see `reason`"),
        "request_failed": ("a request to the status page failed", ""),
        "notification_failed": ("the receiver of notifications did not accept one", "see `reason`"),
        "notification_dropped": (
            "the receiver of notifications is slower than the events",
            "send fewer kinds of events",
        ),
        "notification_left_out": ("the same failure was sent a short time ago", ""),
        "failure_not_noted": ("the status of a failed start could not be written or sent", "see `reason`"),
    },
}
