"""Options of compaction."""

from __future__ import annotations

from penstock.table.options.declaration import Scope, Stops, TableOption, acts, refused, reported
from penstock.table.options.kinds import COUNT, DURATION, FLAG, POSITIVE, SHARE, SIZE, TEXT, WHOLE, one_of

_HOUR = WHOLE.within(least=-1, most=23)
_CLUSTERING = "rows are clustered only by  penstock compact --order-strategy"
_SORTED = "the table is sorted by one process"

WRITE_ONLY = acts(
    "write-only",
    FLAG,
    "false",
    "Leaves compaction and expiry to another job.",
    old_keys=("write.compaction-skip",),
)
NUM_SORTED_RUN_COMPACTION_TRIGGER = acts(
    "num-sorted-run.compaction-trigger", POSITIVE, "5", "Compacts a bucket with more sorted runs than this."
)
NUM_SORTED_RUN_STOP_TRIGGER = acts(
    "num-sorted-run.stop-trigger", POSITIVE, None, "Makes writers wait for compaction at so many sorted runs."
)
NUM_LEVELS = acts(
    "num-levels",
    WHOLE.within(least=2),
    None,
    "Is the number of levels of a bucket; default: the compaction trigger + 1.",
)
COMPACTION_MAX_SIZE_AMPLIFICATION_PERCENT = acts(
    "compaction.max-size-amplification-percent",
    COUNT,
    "200",
    "Compacts fully when newer runs are larger than this share of the oldest.",
)
COMPACTION_SIZE_RATIO = acts(
    "compaction.size-ratio", COUNT, "1", "Takes the next run along when it is at most so many percent larger."
)
COMPACTION_OPTIMIZATION_INTERVAL = acts(
    "compaction.optimization-interval", DURATION, None, "Compacts fully at least this often."
)
COMPACTION_TOTAL_SIZE_THRESHOLD = acts(
    "compaction.total-size-threshold", SIZE, None, "Compacts a bucket smaller than this fully each time."
)
COMPACTION_INCREMENTAL_SIZE_THRESHOLD = acts(
    "compaction.incremental-size-threshold",
    SIZE,
    None,
    "Compacts fully when the newer runs are larger than this.",
    later=True,
)
COMPACTION_FORCE_UP_LEVEL_0 = acts(
    "compaction.force-up-level-0", FLAG, "false", "Takes all files of level 0 along in each compaction."
)
COMPACTION_FORCE_REWRITE_ALL_FILES = acts(
    "compaction.force-rewrite-all-files", FLAG, "false", "Writes all files anew in a full compaction."
)
COMPACTION_OFFPEAK_START_HOUR = acts(
    "compaction.offpeak.start.hour", _HOUR, "-1", "Is the hour at which the quiet time of a day begins."
)
COMPACTION_OFFPEAK_END_HOUR = acts(
    "compaction.offpeak.end.hour", _HOUR, "-1", "Is the hour at which the quiet time ends."
)
COMPACTION_OFFPEAK_RATIO = acts("compaction.offpeak-ratio", COUNT, "0", "Is compaction.size-ratio in the quiet time.")
COMPACTION_MIN_FILE_NUM = acts(
    "compaction.min.file-num",
    POSITIVE,
    "5",
    "Is the number of small files that starts compaction of append tables.",
)
COMPACTION_DELETE_RATIO_THRESHOLD = acts(
    "compaction.delete-ratio-threshold",
    SHARE,
    "0.2",
    "Writes a file of an append table anew when so large a share of its rows is deleted.",
)
COMMIT_FORCE_COMPACT = acts("commit.force-compact", FLAG, "false", "Compacts before each commit.")
FORCE_LOOKUP = acts("force-lookup", FLAG, "false", "Merges level 0 by looking keys up in the levels above.")
LOOKUP_WAIT = acts(
    "lookup-wait",
    FLAG,
    "true",
    "Lets a commit wait for the compaction that its changelog needs.",
    old_keys=("changelog-producer.lookup-wait",),
)
LOOKUP_COMPACT = acts(
    "lookup-compact", one_of("RADICAL", "GENTLE"), "RADICAL", "Says how eagerly such a compaction runs."
)
LOOKUP_COMPACT_MAX_INTERVAL = acts(
    "lookup-compact.max-interval", POSITIVE, None, "Compacts gently at least every so many commits."
)
ZORDER_VAR_LENGTH_CONTRIBUTION = acts(
    "zorder.var-length-contribution", POSITIVE, "8", "Is the number of bytes of a text that count in a z-order."
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
        "Bounds the files of one compaction of an append table; Paimon dropped it in 1.0.",
        "source.split.target-size and the size of files decide",
    ),
    COMPACTION_DELETE_RATIO_THRESHOLD,
    reported(
        "compaction.file-num-limit",
        POSITIVE,
        "100000",
        "Bounds the files that one compaction of an append table looks at.",
        "all files are looked at",
        later=True,
    ),
    reported(
        "compaction.small-file-ratio",
        SHARE,
        "0.7",
        "Says which files of an append table are small, by target-file-size.",
        "the share is 0.7 always",
        later=True,
    ),
    reported(
        "compaction.skip-expired-partitions",
        FLAG,
        "false",
        "Leaves partitions out that are about to expire.",
        "they are compacted like the others",
        later=True,
    ),
    reported(
        "compaction.bucket-distribution-strategy",
        one_of("linear", "size-aware-batch"),
        "linear",
        "Says how Flink's compaction job spreads buckets over tasks.",
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
        "leave it out and sort the table:  penstock compact --order-strategy zorder --order-by COLUMNS",
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
        "Says how rows are clustered.",
        _CLUSTERING,
        old_keys=("sink.clustering.strategy",),
    ),
    reported(
        "clustering.history-partition.idle-to-full-sort",
        DURATION,
        None,
        "Sorts a partition fully when it had no rows for this time.",
        _CLUSTERING,
    ),
    reported("clustering.history-partition.limit", POSITIVE, "5", "Bounds the partitions sorted at once.", _CLUSTERING),
    reported(
        "clustering.incremental.mode",
        one_of("global-sort", "local-sort"),
        "global-sort",
        "Says whether files are sorted together or each by itself.",
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
        "pk-clustering-override",
        FLAG,
        "false",
        "Sorts files of a keyed table by clustering.columns instead of by key.",
        "leave it out: files of keyed tables are sorted by key",
        stops=Stops.READING,
        later=True,
    ),
    reported(
        "sort-compaction.range-strategy",
        one_of("SIZE", "QUANTITY"),
        "QUANTITY",
        "Says how sorting spreads rows over tasks.",
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
        "leave it out and run  penstock compact  after the batch",
        later=True,
    ),
    reported(
        "visibility-callback.check-interval",
        DURATION,
        "10 s",
        "Is how often that wait looks.",
        "commits wait for no other job",
        later=True,
    ),
    reported(
        "visibility-callback.timeout",
        DURATION,
        "30 min",
        "Ends that wait.",
        "commits wait for no other job",
        later=True,
    ),
    reported(
        "overwrite-upgrade",
        FLAG,
        "true",
        "Moves files of an overwrite up to the highest level without writing them anew.",
        "files of an overwrite stay in level 0 until they are compacted",
        harmless=("false",),
        later=True,
    ),
)
