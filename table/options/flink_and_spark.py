"""Options of Flink's and Spark's own readers and writers."""

from __future__ import annotations

from dataclasses import replace

from penstock.table.options.declaration import Scope, Stops, TableOption, acts, refused, reported
from penstock.table.options.kinds import COUNT, DURATION, FLAG, NUMBER, POSITIVE, SIZE, TEXT, WHOLE, one_of

_SPARK_READS = "Spark divides a read by source.split.target-size"
_SOURCE = "Spark reads the table, not a Flink source"
_SINK = "Spark tasks write; --parallelism of a pipeline sets their number"
_COMMITTER = "the driver commits"
_COORDINATOR = "each task reads the manifests it needs"
_CHECKPOINTS = "there are no Flink checkpoints"
_UID = "there are no Flink operators"
_SAMPLE = "rows are clustered only by  penstock compact --order-strategy"
_TRIGGER = "read.stream.maxRowsPerTrigger bounds a batch"
_WIDEN = "alter the table before the write: ALTER TABLE, alter_table, or a pipeline that follows its source"


def _all(note: str, *options: TableOption[object]) -> tuple[TableOption[object], ...]:
    return tuple(replace(option, note=note) for option in options)


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

_FLINK = (
    *_all(
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
    *_all(
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
    *_all(
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
    *_all(
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
    *_all(
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
    *_all(
        _CHECKPOINTS,
        reported("source.checkpoint-align.enabled", FLAG, "false", "Makes a checkpoint for each snapshot.", ""),
        reported("source.checkpoint-align.timeout", DURATION, "30 s", "How long a checkpoint waits for one.", ""),
        reported("sink.savepoint.auto-tag", FLAG, "false", "Makes a tag for each savepoint.", ""),
    ),
    *_all(
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
    *_all(
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
    *_all(
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

READ_CHANGELOG = acts("read.changelog", FLAG, "false", "Shows row kinds in a column rowkind.")
READ_STREAM_MAX_ROWS_PER_TRIGGER = acts(
    "read.stream.maxRowsPerTrigger", POSITIVE, None, "The number of rows after which a batch of a stream ends."
)

_SPARK = (
    READ_CHANGELOG,
    READ_STREAM_MAX_ROWS_PER_TRIGGER,
    *_all(
        _TRIGGER,
        reported("read.stream.maxFilesPerTrigger", POSITIVE, None, "The maximum number of files of a batch.", ""),
        reported("read.stream.maxBytesPerTrigger", POSITIVE, None, "The maximum number of bytes of a batch.", ""),
        reported("read.stream.minRowsPerTrigger", POSITIVE, None, "The number of rows that a batch waits for.", ""),
        reported("read.stream.maxTriggerDelayMs", COUNT, None, "The maximum time that a batch waits.", ""),
    ),
    refused(
        "read.allow.fullScan",
        FLAG,
        "true",
        "Refuses reads without a condition on the partition.",
        "remove it: reads without a condition are allowed",
        stops=Stops.SETTING,
        later=True,
    ),
    reported(
        "source.split.target-size-with-column-pruning",
        FLAG,
        "false",
        "Counts only the columns that are read.",
        _SPARK_READS,
        later=True,
    ),
    reported(
        "legacy-timestamp-mapping.enabled",
        FLAG,
        "false",
        "Shows TIMESTAMP columns as Spark's TIMESTAMP.",
        "TIMESTAMP is TIMESTAMP_NTZ",
        later=True,
    ),
    refused(
        "write.merge-schema",
        FLAG,
        "false",
        "Adds columns of the rows that the table does not have.",
        f"remove it, and {_WIDEN}",
    ),
    refused(
        "write.merge-schema.explicit-cast",
        FLAG,
        "false",
        "Allows casts that can lose digits.",
        "remove it, and cast the columns in the query",
    ),
    refused(
        "write.merge-schema.type-widening",
        FLAG,
        "false",
        "Widens columns so that the rows fit.",
        f"remove it, and {_WIDEN}",
        later=True,
    ),
    reported(
        "write.use-v2-write",
        FLAG,
        "false",
        "Writes through Spark's DataSource V2 interface.",
        "rows are always written by tasks",
    ),
    reported(
        "write.hive-style-dynamic-partition.enabled",
        FLAG,
        "false",
        "Reads rows in Hive's order of columns.",
        "rows must be in the order of the table's columns",
        later=True,
    ),
    reported(
        "requiredSparkConfsCheck.enabled",
        FLAG,
        "true",
        "Checks Spark's settings.",
        "no such settings are required",
        harmless=("false",),
    ),
)

OPTIONS: tuple[TableOption[object], ...] = (
    *(replace(option, scope=Scope.FLINK) for option in _FLINK),
    *(replace(option, scope=Scope.SPARK) for option in _SPARK),
)
