"""Options of writers: buffers, sorting, spilling, and ids of rows."""

from __future__ import annotations

from penstock.table.options.declaration import Scope, Stops, TableOption, acts, refused, reported
from penstock.table.options.kinds import COUNT, FLAG, POSITIVE, SHARE, SIZE, TEXT, WHOLE, one_of

_MEMORY = "write-buffer-size bounds the memory of a writer"
_SORT = "a writer sorts its whole buffer"
_RUNS = "a merge keeps one batch of each sorted run in memory"
_EVOLUTION = "tables with data-evolution.enabled are not supported"

WRITE_BUFFER_SIZE = acts("write-buffer-size", SIZE, "256 mb", "The maximum size of the rows that a writer buffers.")
WRITE_BUFFER_SPILLABLE = acts("write-buffer-spillable", FLAG, "true", "Allows writing a full buffer to local disk.")
WRITE_BUFFER_SPILL_MAX_DISK_SIZE = acts(
    "write-buffer-spill.max-disk-size", SIZE, None, "The maximum local disk space of a writer."
)
SPILL_COMPRESSION = acts("spill-compression", TEXT, "zstd", "The compression of rows on local disk.")
SPILL_COMPRESSION_ZSTD_LEVEL = acts("spill-compression.zstd-level", WHOLE, "1", "The zstd level of spill-compression.")
ROW_TRACKING_ENABLED = acts(
    "row-tracking.enabled",
    FLAG,
    "false",
    "Adds an id to each row of an append table; compaction is left to Flink's or Spark's Paimon.",
)

OPTIONS: tuple[TableOption[object], ...] = (
    WRITE_BUFFER_SIZE,
    WRITE_BUFFER_SPILLABLE,
    WRITE_BUFFER_SPILL_MAX_DISK_SIZE,
    SPILL_COMPRESSION,
    SPILL_COMPRESSION_ZSTD_LEVEL,
    reported("write-buffer-for-append", FLAG, "false", "Buffers rows of append tables.", _MEMORY),
    reported(
        "write-max-writers-to-spill", POSITIVE, "10", "Buffers rows of append tables with many partitions.", _MEMORY
    ),
    reported(
        "local-merge-buffer-size",
        SIZE,
        None,
        "Merges rows of one key before they are shuffled.",
        "rows are merged after they are shuffled",
    ),
    reported("page-size", SIZE, "64 kb", "The size of a page of memory.", _MEMORY),
    reported("cache-page-size", SIZE, "64 kb", "The size of a page of a cache.", "no such cache is used"),
    reported(
        "sort-engine",
        one_of("loser-tree", "min-heap"),
        "loser-tree",
        "The algorithm that merges sorted runs.",
        "runs are merged by columns, not row by row",
        harmless=("min-heap",),
    ),
    reported(
        "sort-spill-threshold", POSITIVE, None, "Merges sorted runs on disk when there are more than this.", _RUNS
    ),
    reported("sort-spill-buffer-size", SIZE, "64 mb", "The maximum memory of such a sort.", _SORT),
    reported(
        "local-sort.max-num-file-handles",
        POSITIVE,
        "128",
        "The maximum number of files that are merged at once.",
        _RUNS,
    ),
    ROW_TRACKING_ENABLED,
    reported(
        "row-tracking.partition-group-on-commit",
        FLAG,
        "true",
        "Assigns consecutive ids to the rows of one partition.",
        "rows get their ids in the order of their files",
        harmless=("false",),
        later=True,
    ),
    refused(
        # Refused also for reads: a file of such a table may lack columns of its rows, which are in other files.
        "data-evolution.enabled",
        FLAG,
        "false",
        "Allows files with only some columns of their rows.",
        "remove it: every file contains all columns of its rows",
        stops=Stops.READING,
    ),
    refused(
        "data-evolution.compaction.rewrite-row-ids",
        FLAG,
        "false",
        "Rewrites row ids in a compaction; Paimon refuses it too.",
        "remove it",
        later=True,
    ),
    reported(
        "data-evolution.merge-into.file-pruning",
        FLAG,
        "true",
        "Reads fewer files in MERGE INTO.",
        _EVOLUTION,
        harmless=("false",),
        later=True,
    ),
    reported(
        "data-evolution.merge-into.source-persist",
        FLAG,
        "false",
        "Keeps the source of MERGE INTO.",
        _EVOLUTION,
        later=True,
    ),
    reported(
        "data-evolution.reassign.skip-contiguous-row-count",
        COUNT,
        "1000000000",
        "Skips rows whose ids are consecutive already.",
        _EVOLUTION,
        later=True,
    ),
    reported(
        "data-evolution.row-id-conflict-rewrite.max-size",
        SIZE,
        "256 mb",
        "The maximum size of files rewritten after a conflict.",
        _EVOLUTION,
        later=True,
    ),
    reported(
        "data-evolution.row-sidecar.enabled", FLAG, "false", "Keeps rows beside the columns.", _EVOLUTION, later=True
    ),
    reported(
        "data-evolution.row-sidecar.max-selected-rows",
        COUNT,
        "4096",
        "When the rows beside the columns are read.",
        _EVOLUTION,
        later=True,
    ),
    reported(
        "data-evolution.row-sidecar.max-selection-ratio",
        SHARE,
        "0.05",
        "When the rows beside the columns are read.",
        _EVOLUTION,
        later=True,
    ),
    reported(
        "write.data-evolution.update-conflict-retry.max-attempts",
        COUNT,
        "20",
        "How often Spark's UPDATE is retried.",
        _EVOLUTION,
        scope=Scope.SPARK,
        later=True,
    ),
    reported(
        "write.data-evolution.update-conflict-retry.wait-ms",
        COUNT,
        "10",
        "The wait between two attempts.",
        _EVOLUTION,
        scope=Scope.SPARK,
        later=True,
    ),
    refused(
        "chain-table.enabled",
        FLAG,
        "false",
        "Joins the partitions of two branches into one table.",
        "remove it, and read the branches",
        stops=Stops.READING,
        later=True,
    ),
    reported(
        "chain-table.chain-partition-keys",
        TEXT,
        None,
        "Names the partition columns that are joined.",
        "tables with chain-table.enabled are not supported",
        later=True,
    ),
    reported(
        "chain-table.split.key-range-enabled",
        FLAG,
        "true",
        "Divides a read by keys.",
        "tables with chain-table.enabled are not supported",
        harmless=("false",),
        later=True,
    ),
    reported(
        "chain-table.streaming.merge-snapshot",
        FLAG,
        "false",
        "Merges the branches for a stream.",
        "tables with chain-table.enabled are not supported",
        later=True,
    ),
    refused(
        "scan.fallback-snapshot-branch",
        TEXT,
        None,
        "Names the branch of snapshots of a chain table.",
        "remove it, and read the branch",
        scope=Scope.READ,
        stops=Stops.READING,
        later=True,
    ),
    refused(
        "scan.fallback-delta-branch",
        TEXT,
        None,
        "Names the branch of changes of a chain table.",
        "remove it, and read the branch",
        scope=Scope.READ,
        stops=Stops.READING,
        later=True,
    ),
)
