"""Options of Flink's own readers and writers."""

from __future__ import annotations

from dataclasses import replace

from penstock.table.options.declaration import Scope, TableOption, acts, reported, with_note
from penstock.table.options.kinds import COUNT, DURATION, FLAG, NUMBER, POSITIVE, SIZE, TEXT, WHOLE, one_of

_SOURCE = "Spark reads the table, not a Flink source"
_SINK = "Spark tasks write; --parallelism of a pipeline sets their number"
_COMMITTER = "the driver commits"
_COORDINATOR = "each task reads the manifests it needs"
_CHECKPOINTS = "there are no Flink checkpoints"
_UID = "there are no Flink operators"
_SAMPLE = "rows are clustered only by  penstock compact --order-strategy"
SCAN_WATERMARK_IDLE_TIMEOUT = acts(
    "scan.watermark.idle-timeout",
    DURATION,
    None,
    "The time after which an idle partition of the source no longer delays the watermark.",
)
CDC_SKIP_CORRUPT_RECORD = acts(
    "cdc.skip-corrupt-record", FLAG, "false", "Skips records that cannot be read, as on-error: skip does."
)
CDC_LOG_CORRUPT_RECORD = acts("cdc.log-corrupt-record", FLAG, "true", "Logs records that cannot be read.")
_COLUMN = "schema.<place>."
COLUMN_NAME = acts(
    f"{_COLUMN}name", TEXT, None, "The name of a column that Flink computes, at this place among all columns, from 0."
)
COLUMN_EXPRESSION = acts(f"{_COLUMN}expr", TEXT, None, "The expression by which Flink computes the column.")
COLUMN_TYPE = acts(f"{_COLUMN}data-type", TEXT, None, "The type of a column that Flink computes.")
COLUMN_COMMENT = acts(f"{_COLUMN}comment", TEXT, None, "The comment of a column that Flink computes.")
COLUMN_METADATA = acts(f"{_COLUMN}metadata", TEXT, None, "The name of the metadata that Flink shows as this column.")
COLUMN_VIRTUAL = acts(
    f"{_COLUMN}virtual", FLAG, "false", "Whether Flink leaves this metadata column out when it writes."
)
WATERMARK_COLUMN = acts("schema.watermark.0.rowtime", TEXT, None, "The column of Flink's watermark.")
WATERMARK_EXPRESSION = acts("schema.watermark.0.strategy.expr", TEXT, None, "The expression of Flink's watermark.")
WATERMARK_TYPE = acts("schema.watermark.0.strategy.data-type", TEXT, None, "The type of Flink's watermark.")

# The notes are empty where with_note sets one note for several options.
_FLINK = (
    COLUMN_NAME,
    COLUMN_EXPRESSION,
    COLUMN_TYPE,
    COLUMN_COMMENT,
    COLUMN_METADATA,
    COLUMN_VIRTUAL,
    WATERMARK_COLUMN,
    WATERMARK_EXPRESSION,
    WATERMARK_TYPE,
    *with_note(
        _SOURCE,
        reported("scan.parallelism", POSITIVE, None, "The number of tasks that read.", ""),
        reported("scan.infer-parallelism", FLAG, "true", "Derives the number of read tasks from the table.", ""),
        reported(
            "scan.infer-parallelism.max", POSITIVE, "1024", "The maximum of the derived number of read tasks.", ""
        ),
        reported(
            "scan.split-enumerator.batch-size", POSITIVE, "10", "The number of splits that are assigned at once.", ""
        ),
        reported(
            "scan.split-enumerator.mode", one_of("fair", "preemptive"), "fair", "How splits are assigned to tasks.", ""
        ),
        reported("scan.dedicated-split-generation", FLAG, "false", "Plans a read in a task.", ""),
        reported("scan.max-splits-per-task", POSITIVE, "10", "The maximum number of splits that wait for a task.", ""),
        reported("scan.max-snapshot.count", WHOLE, "-1", "Bounds the snapshots of one checkpoint.", ""),
        reported("scan.push-down", FLAG, "true", "Pushes filters down to the reader.", ""),
        reported("scan.bounded", FLAG, None, "Ends a stream at the newest snapshot.", ""),
        reported(
            "scan.remove-normalize",
            FLAG,
            "false",
            "Does not add missing before images to a stream.",
            "",
            old_keys=("log.scan.remove-normalize",),
        ),
        reported(
            "read.shuffle-bucket-with-partition",
            FLAG,
            "true",
            "Distributes splits by partition and bucket.",
            "",
            harmless=("false",),
            old_keys=("streaming-read.shuffle-bucket-with-partition",),
        ),
        reported("batch-scan-mode", one_of("none", "compact"), "none", "How Flink's own jobs plan a batch read.", ""),
        reported(
            "stream-scan-mode",
            one_of("none", "compact-bucket-table", "file-monitor"),
            "none",
            "How Flink's own jobs plan a streaming read.",
            "",
        ),
        reported(
            "scan.watermark.emit.strategy",
            one_of("on-event", "on-periodic"),
            "on-event",
            "When a stream emits a watermark.",
            "",
        ),
    ),
    SCAN_WATERMARK_IDLE_TIMEOUT,
    *with_note(
        "a batch reads all partitions to their end, and its watermark is the lowest of them",
        reported(
            "scan.watermark.alignment.group", TEXT, None, "The group of sources whose watermarks are aligned.", ""
        ),
        reported(
            "scan.watermark.alignment.max-drift", DURATION, None, "How far a source may be ahead of the others.", ""
        ),
        reported(
            "scan.watermark.alignment.update-interval", DURATION, "1 s", "How often the alignment is checked.", ""
        ),
    ),
    *with_note(
        _SINK,
        reported("sink.parallelism", POSITIVE, None, "The number of tasks that write.", ""),
        reported("unaware-bucket.compaction.parallelism", POSITIVE, None, "The number of tasks that compact.", ""),
        reported(
            "unaware-bucket.no-shuffle", FLAG, "false", "Writes rows in the tasks that read them.", "", later=True
        ),
        reported("sink.use-managed-memory-allocator", FLAG, "false", "Buffers rows in Flink's memory.", ""),
        reported("sink.managed.writer-buffer-memory", SIZE, "256 mb", "The share of the writer.", ""),
        reported("sink.cross-partition.managed-memory", SIZE, "256 mb", "The share of the key index.", ""),
        reported("sink.writer-cpu", NUMBER, "1.0", "The CPU of a writer.", ""),
        reported("sink.writer-memory", SIZE, None, "The memory of a writer.", ""),
        reported("sink.writer-refresh-detectors", TEXT, None, "Options that a running writer reloads.", ""),
        reported(
            "sink.key-only-deletes.enabled", FLAG, "false", "Accepts deletes that contain only the key.", "", later=True
        ),
    ),
    *with_note(
        _COMMITTER,
        reported("sink.committer-cpu", NUMBER, "1.0", "The CPU of the committer.", ""),
        reported("sink.committer-memory", SIZE, None, "The memory of the committer.", ""),
        reported(
            "sink.committer-operator-chaining",
            FLAG,
            "true",
            "Commits in the task that writes.",
            "",
            harmless=("false",),
        ),
        reported("sink.coordinator-commit.enabled", FLAG, "false", "Commits in Flink's job manager.", "", later=True),
    ),
    *with_note(
        _COORDINATOR,
        reported("sink.writer-coordinator.enabled", FLAG, "false", "Reads manifests in Flink's job manager.", ""),
        reported(
            "sink.writer-coordinator.cache-memory",
            SIZE,
            "2 gb",
            "The size of the manifest cache of the job manager.",
            "",
        ),
        reported("sink.writer-coordinator.page-size", SIZE, "32 kb", "The size of a request.", ""),
        reported(
            "sink.writer-coordinator.cache-expire-after-access",
            DURATION,
            None,
            "The time after which unused manifests leave the cache.",
            "",
            later=True,
        ),
        reported(
            "sink.writer-coordinator.cache-soft-values",
            FLAG,
            "true",
            "Lets the cache be freed when memory is short.",
            "",
            harmless=("false",),
            later=True,
        ),
        reported("sink.writer-coordinator.prefetch-manifests", FLAG, "false", "Reads manifests ahead.", "", later=True),
    ),
    *with_note(
        _CHECKPOINTS,
        reported("source.checkpoint-align.enabled", FLAG, "false", "Makes a checkpoint for each snapshot.", ""),
        reported("source.checkpoint-align.timeout", DURATION, "30 s", "How long a checkpoint waits for one.", ""),
        reported("sink.savepoint.auto-tag", FLAG, "false", "Makes a tag for each savepoint.", ""),
    ),
    *with_note(
        _UID,
        reported("sink.operator-uid.suffix", TEXT, None, "Ends the ids of writing operators.", ""),
        reported("source.operator-uid.suffix", TEXT, None, "Ends the ids of reading operators.", ""),
        reported(
            "filesystem.job-level-settings.enabled",
            FLAG,
            "true",
            "Passes settings of the job to the store.",
            "",
            harmless=("false",),
        ),
    ),
    *with_note(
        _SAMPLE,
        reported("sink.clustering.sample-factor", POSITIVE, "100", "Sizes the sample of clustering.", ""),
        reported(
            "sink.clustering.sort-in-cluster",
            FLAG,
            "true",
            "Sorts the rows of each task.",
            "",
        ),
    ),
    CDC_SKIP_CORRUPT_RECORD,
    CDC_LOG_CORRUPT_RECORD,
    *with_note(
        "a schema change is retried like a commit: commit.max-retries, commit.timeout",
        reported(
            "cdc.schema-change-retry-max-num",
            COUNT,
            "100",
            "How often a job checks whether a schema change was applied.",
            "",
        ),
        reported("cdc.schema-change-retry-interval", DURATION, "500 ms", "The wait between two checks.", ""),
    ),
)

OPTIONS: tuple[TableOption[object], ...] = tuple(replace(option, scope=Scope.FLINK) for option in _FLINK)
