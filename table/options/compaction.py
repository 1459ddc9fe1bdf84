"""Options of compaction."""

from __future__ import annotations

from penstock.table.options.declaration import Scope, Stops, TableOption, acts, refused, reported
from penstock.table.options.kinds import COUNT, DURATION, FLAG, POSITIVE, SHARE, SIZE, TEXT, WHOLE, one_of

# -1 means that there is no off-peak time.
_HOUR = WHOLE.within(least=-1, most=23)
_CLUSTERING = "rows are clustered only by  penstock compact --order-strategy"
_SORTED = "the table is sorted by one process"

WRITE_ONLY = acts(
    "write-only",
    FLAG,
    "false",
    "Writers neither compact nor expire; another job does.",
    old_keys=("write.compaction-skip",),
)
NUM_SORTED_RUN_COMPACTION_TRIGGER = acts(
    "num-sorted-run.compaction-trigger", POSITIVE, "5", "The number of sorted runs above which a bucket is compacted."
)
# The default, the compaction trigger + 3, depends on another option. The defaults of num-levels and
# lookup-compact.max-interval do too. The code that reads these options computes them.
NUM_SORTED_RUN_STOP_TRIGGER = acts(
    "num-sorted-run.stop-trigger", POSITIVE, None, "The number of sorted runs at which writers wait for compaction."
)
NUM_LEVELS = acts(
    "num-levels",
    # Level 0 and at least one level for the results of compaction.
    WHOLE.within(least=2),
    None,
    "The number of levels of a bucket; default: the compaction trigger + 1.",
)
COMPACTION_MAX_SIZE_AMPLIFICATION_PERCENT = acts(
    "compaction.max-size-amplification-percent",
    COUNT,
    "200",
    "The size of the newer runs, in percent of the oldest run, above which a bucket is compacted fully.",
)
COMPACTION_SIZE_RATIO = acts(
    "compaction.size-ratio",
    COUNT,
    "1",
    "By how many percent the next run may be larger to be included in a compaction.",
)
COMPACTION_OPTIMIZATION_INTERVAL = acts(
    "compaction.optimization-interval", DURATION, None, "The maximum time between two full compactions."
)
COMPACTION_TOTAL_SIZE_THRESHOLD = acts(
    "compaction.total-size-threshold", SIZE, None, "The size below which a bucket is always compacted fully."
)
COMPACTION_INCREMENTAL_SIZE_THRESHOLD = acts(
    "compaction.incremental-size-threshold",
    SIZE,
    None,
    "The size of the newer runs above which a bucket is compacted fully.",
    later=True,
)
COMPACTION_FORCE_UP_LEVEL_0 = acts(
    "compaction.force-up-level-0", FLAG, "false", "Includes all files of level 0 in each compaction."
)
COMPACTION_FORCE_REWRITE_ALL_FILES = acts(
    "compaction.force-rewrite-all-files", FLAG, "false", "Rewrites all files in a full compaction."
)
COMPACTION_OFFPEAK_START_HOUR = acts(
    "compaction.offpeak.start.hour", _HOUR, "-1", "The hour at which the off-peak time starts."
)
COMPACTION_OFFPEAK_END_HOUR = acts(
    "compaction.offpeak.end.hour", _HOUR, "-1", "The hour at which the off-peak time ends."
)
COMPACTION_OFFPEAK_RATIO = acts(
    "compaction.offpeak-ratio", COUNT, "0", "Added to compaction.size-ratio in the off-peak time."
)
COMPACTION_MIN_FILE_NUM = acts(
    "compaction.min.file-num",
    POSITIVE,
    "5",
    "The number of small files that starts compaction of append tables.",
)
COMPACTION_DELETE_RATIO_THRESHOLD = acts(
    "compaction.delete-ratio-threshold",
    SHARE,
    "0.2",
    "The share of deleted rows above which a file of an append table is rewritten.",
)
COMMIT_FORCE_COMPACT = acts("commit.force-compact", FLAG, "false", "Compacts before each commit.")
FORCE_LOOKUP = acts(
    "force-lookup",
    FLAG,
    "false",
    "Merges level 0 by lookup of its keys in the levels above. With changelog-producer = full-compaction it is refused "
    "unless the row that arrived last replaces all others.",
)
LOOKUP_WAIT = acts(
    "lookup-wait",
    FLAG,
    "true",
    "Lets a commit wait for the compaction that its changelog needs.",
    old_keys=("changelog-producer.lookup-wait",),
)
LOOKUP_COMPACT = acts(
    "lookup-compact", one_of("RADICAL", "GENTLE"), "RADICAL", "How soon level 0 is compacted for a lookup."
)
LOOKUP_COMPACT_MAX_INTERVAL = acts(
    "lookup-compact.max-interval", POSITIVE, None, "The maximum number of commits between two GENTLE compactions."
)
ZORDER_VAR_LENGTH_CONTRIBUTION = acts(
    "zorder.var-length-contribution", POSITIVE, "8", "The number of bytes of a text that are used in a z-order."
)

OPTIONS: tuple[TableOption[object], ...] = (
    WRITE_ONLY,
    NUM_SORTED_RUN_COMPACTION_TRIGGER,
    NUM_SORTED_RUN_STOP_TRIGGER,
    NUM_LEVELS,
    COMPACTION_MAX_SIZE_AMPLIFICATION_PERCENT,
    COMPACTION_SIZE_RATIO,
    COMPACTION_OPTIMIZATION_INTERVAL,
    COMPACTION_TOTAL_SIZE_THRESHOLD,
    COMPACTION_INCREMENTAL_SIZE_THRESHOLD,
    COMPACTION_FORCE_UP_LEVEL_0,
    COMPACTION_FORCE_REWRITE_ALL_FILES,
    COMPACTION_OFFPEAK_START_HOUR,
    COMPACTION_OFFPEAK_END_HOUR,
    COMPACTION_OFFPEAK_RATIO,
    COMPACTION_MIN_FILE_NUM,
    reported(
        "compaction.max.file-num",
        POSITIVE,
        None,
        "The maximum number of files of one compaction of an append table; removed in Paimon 1.0.",
        "source.split.target-size and the size of files decide",
    ),
    COMPACTION_DELETE_RATIO_THRESHOLD,
    reported(
        "compaction.file-num-limit",
        POSITIVE,
        "100000",
        "The maximum number of files that one compaction of an append table considers.",
        "all files are considered",
        later=True,
    ),
    reported(
        "compaction.small-file-ratio",
        SHARE,
        "0.7",
        "Which files of an append table are small, by target-file-size.",
        "the share is always 0.7",
        later=True,
    ),
    reported(
        "compaction.skip-expired-partitions",
        FLAG,
        "false",
        "Skips partitions that are about to expire.",
        "they are compacted like the others",
        later=True,
    ),
    reported(
        "compaction.bucket-distribution-strategy",
        one_of("linear", "size-aware-batch"),
        "linear",
        "How Flink's compaction job spreads buckets over tasks.",
        "one process compacts bucket after bucket",
        scope=Scope.FLINK,
        later=True,
    ),
    COMMIT_FORCE_COMPACT,
    FORCE_LOOKUP,
    LOOKUP_WAIT,
    LOOKUP_COMPACT,
    LOOKUP_COMPACT_MAX_INTERVAL,
    refused(
        "clustering.incremental",
        FLAG,
        "false",
        "Sorts new files of an append table when it is compacted.",
        "remove it and sort the table:  penstock compact --order-strategy zorder --order-by COLUMNS",
    ),
    reported(
        "clustering.columns",
        TEXT,
        None,
        "Names the columns by which rows are clustered.",
        _CLUSTERING,
        old_keys=("sink.clustering.by-columns",),
    ),
    reported(
        "clustering.strategy",
        one_of("auto", "order", "zorder", "hilbert"),
        "auto",
        "How rows are clustered.",
        _CLUSTERING,
        old_keys=("sink.clustering.strategy",),
    ),
    reported(
        "clustering.history-partition.idle-to-full-sort",
        DURATION,
        None,
        "The time without new rows after which a partition is sorted fully.",
        _CLUSTERING,
    ),
    reported("clustering.history-partition.limit", POSITIVE, "5", "Bounds the partitions sorted at once.", _CLUSTERING),
    reported(
        "clustering.incremental.mode",
        one_of("global-sort", "local-sort"),
        "global-sort",
        "Whether files are sorted together or each by itself.",
        _CLUSTERING,
        later=True,
    ),
    reported(
        "clustering.incremental.optimize-write",
        FLAG,
        "false",
        "Clusters rows before they are written.",
        _CLUSTERING,
        later=True,
    ),
    refused(
        # Refused also for reads: merges rely on files that are sorted by key.
        "pk-clustering-override",
        FLAG,
        "false",
        "Sorts files of a keyed table by clustering.columns instead of by key.",
        "remove it: files of keyed tables are sorted by key",
        stops=Stops.READING,
        later=True,
    ),
    reported(
        "sort-compaction.range-strategy",
        one_of("SIZE", "QUANTITY"),
        "QUANTITY",
        "How sorting spreads rows over tasks.",
        _SORTED,
    ),
    reported(
        "sort-compaction.local-sample.magnification", POSITIVE, "1000", "Sizes the sample that spreads them.", _SORTED
    ),
    ZORDER_VAR_LENGTH_CONTRIBUTION,
    refused(
        "visibility-callback.enabled",
        FLAG,
        "false",
        "Lets a batch commit wait until its rows are compacted.",
        "remove it and run  penstock compact  after the batch",
        later=True,
    ),
    reported(
        "visibility-callback.check-interval",
        DURATION,
        "10 s",
        "How often the wait checks for the compaction.",
        "commits wait for no other job",
        later=True,
    ),
    reported(
        "visibility-callback.timeout",
        DURATION,
        "30 min",
        "The maximum duration of the wait.",
        "commits wait for no other job",
        later=True,
    ),
    reported(
        "overwrite-upgrade",
        FLAG,
        "true",
        "Moves files of an overwrite to the highest level without rewriting them.",
        "files of an overwrite stay in level 0 until they are compacted",
        harmless=("false",),
        later=True,
    ),
)
