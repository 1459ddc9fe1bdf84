"""Options of reads: which rows, as of when, and how streams begin and end."""

from __future__ import annotations

from dataclasses import replace

from penstock.table.options.declaration import Scope, Stops, TableOption, acts, refused, reported
from penstock.table.options.kinds import DURATION, FLAG, POSITIVE, SIZE, TEXT, WHOLE, one_of

_MODES = (
    "default",
    "latest-full",
    "full",
    "latest",
    "compacted-full",
    "from-timestamp",
    "from-snapshot",
    "from-snapshot-full",
    "from-file-creation-time",
    "incremental",
)
_BRANCHES = "read the branch itself: its name follows $branch_ in the table's name"
_CORRUPT = "remove it: a read fails at a file it cannot read.  penstock remove-unexisting-files  repairs a table"


SCAN_MODE = acts("scan.mode", one_of(*_MODES), "default", "The rows that a read starts with.", old_keys=("log.scan",))
SCAN_SNAPSHOT_ID = acts("scan.snapshot-id", WHOLE, None, "Reads the table as of a snapshot, or begins a stream there.")
SCAN_TAG_NAME = acts("scan.tag-name", TEXT, None, "Reads the table as of a tag.")
SCAN_VERSION = acts("scan.version", TEXT, None, "Reads the table as of a tag or a snapshot of this name.")
SCAN_TIMESTAMP = acts("scan.timestamp", TEXT, None, "Reads the table as of a time: 2026-01-31 12:00:00.")
SCAN_TIMESTAMP_MILLIS = acts(
    "scan.timestamp-millis",
    WHOLE,
    None,
    "Reads the table as of a time in epoch milliseconds.",
    old_keys=("log.scan.timestamp-millis",),
)
SCAN_WATERMARK = acts("scan.watermark", WHOLE, None, "Reads the first snapshot whose watermark is at least this.")
SCAN_FILE_CREATION_TIME_MILLIS = acts(
    "scan.file-creation-time-millis", WHOLE, None, "Reads only files created after a time."
)
SCAN_FALLBACK_BRANCH = acts(
    "scan.fallback-branch", TEXT, None, "Reads partitions that the table does not have from a branch."
)
INCREMENTAL_BETWEEN = acts("incremental-between", TEXT, None, "Reads the changes between two snapshots or tags: 3,7.")
INCREMENTAL_BETWEEN_TIMESTAMP = acts(
    "incremental-between-timestamp", TEXT, None, "Reads the changes between two times."
)
INCREMENTAL_BETWEEN_SCAN_MODE = acts(
    "incremental-between-scan-mode",
    one_of("auto", "delta", "changelog", "diff"),
    "auto",
    "The files from which changes are read.",
)
INCREMENTAL_TO_AUTO_TAG = acts(
    "incremental-to-auto-tag", TEXT, None, "Reads the changes from the automatic tag before a tag up to that tag."
)
# A read with one of these options returns changes.
RANGE_KEYS = frozenset({INCREMENTAL_BETWEEN.key, INCREMENTAL_BETWEEN_TIMESTAMP.key, INCREMENTAL_TO_AUTO_TAG.key})
# A read with one of these options returns the state of one point in time.
POINT_KEYS = frozenset(
    {
        *(SCAN_SNAPSHOT_ID.key, SCAN_TAG_NAME.key, SCAN_WATERMARK.key, SCAN_VERSION.key),
        *(SCAN_TIMESTAMP.key, SCAN_TIMESTAMP_MILLIS.key, SCAN_FILE_CREATION_TIME_MILLIS.key),
    }
)
CONSUMER_ID = acts("consumer-id", TEXT, None, "The name of a consumer, whose progress is kept in the table.")
CONSUMER_IGNORE_PROGRESS = acts(
    "consumer.ignore-progress", FLAG, "false", "Starts again, ignoring the progress of the consumer."
)
STREAMING_READ_OVERWRITE = acts(
    "streaming-read-overwrite", FLAG, "false", "Shows a stream the changes that an overwrite makes."
)
STREAMING_READ_APPEND_OVERWRITE = acts(
    "streaming-read-append-overwrite",
    FLAG,
    "false",
    "Shows a stream the rows that an overwrite of an append table adds.",
)
SOURCE_SPLIT_TARGET_SIZE = acts(
    "source.split.target-size", SIZE, "128 mb", "The size of a split, which one task reads."
)
SOURCE_SPLIT_OPEN_FILE_COST = acts(
    "source.split.open-file-cost", SIZE, "4 mb", "The minimum size that a file counts in a split."
)
# The declared default is Java's. If the option is not set, batches are larger here, because each one has a fixed cost
# in Python.
READ_BATCH_SIZE = acts(
    "read.batch-size",
    POSITIVE,
    "1024",
    "The maximum number of rows read at a time; if it is not set, 65,536, or 131,072 where rows need no merge.",
)

# Unsupported options that select rows are refused, because a read without them would return other rows. Options that
# only change how rows are read are reported.
_OPTIONS = (
    SCAN_MODE,
    SCAN_SNAPSHOT_ID,
    SCAN_TAG_NAME,
    SCAN_VERSION,
    SCAN_TIMESTAMP,
    SCAN_TIMESTAMP_MILLIS,
    SCAN_WATERMARK,
    SCAN_FILE_CREATION_TIME_MILLIS,
    refused(
        "scan.creation-time-millis",
        WHOLE,
        None,
        "Starts a stream at the first snapshot created after a time.",
        "use scan.timestamp-millis, or scan.file-creation-time-millis",
        stops=Stops.READING,
    ),
    refused(
        "scan.partitions",
        TEXT,
        None,
        "Reads some partitions only.",
        "use a condition on the partition columns: dt = sys.max_pt('db.t') is the newest one, in Spark"
        " dt = (SELECT max(dt) FROM t). Lookup joins accept the option as a hint",
        stops=Stops.READING,
        old_keys=("lookup.dynamic-partition",),
    ),
    SCAN_FALLBACK_BRANCH,
    refused(
        "scan.bounded.watermark",
        WHOLE,
        None,
        "Ends a stream at a watermark.",
        "trigger(availableNow=True) ends a stream at the newest snapshot",
        stops=Stops.READING,
    ),
    refused(
        "scan.primary-branch",
        TEXT,
        None,
        "Reads partitions that a branch has from that branch.",
        _BRANCHES,
        stops=Stops.READING,
        later=True,
    ),
    reported(
        "scan.fallback-branch.read-fail-fast",
        FLAG,
        "false",
        "Fails a read when the fallback branch cannot be read.",
        "a read always fails when a branch cannot be read",
        harmless=("true",),
        later=True,
    ),
    refused("scan.ignore-corrupt-files", FLAG, "false", "Skips unreadable files.", _CORRUPT, later=True),
    refused("scan.ignore-lost-files", FLAG, "false", "Skips missing files.", _CORRUPT, later=True),
    reported(
        "scan.plan-auto-tag-for-read.time-retained",
        DURATION,
        None,
        "Keeps a snapshot by a tag while it is read.",
        "snapshots are kept by snapshot.time-retained and by tags",
        later=True,
    ),
    INCREMENTAL_BETWEEN,
    INCREMENTAL_BETWEEN_TIMESTAMP,
    INCREMENTAL_BETWEEN_SCAN_MODE,
    INCREMENTAL_TO_AUTO_TAG,
    refused(
        "incremental-between-tag-to-snapshot",
        FLAG,
        "false",
        "Reads the changes between the snapshots of two tags.",
        "name the snapshots: incremental-between=3,7",
        later=True,
    ),
    CONSUMER_ID,
    CONSUMER_IGNORE_PROGRESS,
    reported(
        "consumer.mode",
        one_of("exactly-once", "at-least-once"),
        "exactly-once",
        "When a consumer's progress is stored.",
        "it is stored when a batch is done",
        harmless=("exactly-once",),
    ),
    STREAMING_READ_OVERWRITE,
    STREAMING_READ_APPEND_OVERWRITE,
    refused(
        "streaming-read-mode",
        one_of("file", "log"),
        None,
        "Whether a stream reads files or a log system.",
        "remove it: streams read files",
        harmless=("file",),
        stops=Stops.READING,
    ),
    reported(
        "streaming.read.snapshot.delay",
        DURATION,
        None,
        "The time after its creation at which a stream reads a snapshot.",
        "a snapshot is read as soon as it exists",
    ),
    reported(
        "continuous.discovery-interval",
        DURATION,
        "10 s",
        "How often a stream checks for new snapshots.",
        "set the trigger of the Spark stream, or poll_seconds of follow()",
    ),
    SOURCE_SPLIT_TARGET_SIZE,
    SOURCE_SPLIT_OPEN_FILE_COST,
    reported(
        "scan.plan-sort-partition",
        FLAG,
        "false",
        "Reads partitions in their order.",
        "rows have no defined order: sort them",
    ),
    reported(
        "scan.manifest.parallelism",
        POSITIVE,
        None,
        "The number of threads that read manifests.",
        "manifests are read by a few threads",
    ),
    READ_BATCH_SIZE,
    reported(
        "file-reader-async-threshold",
        SIZE,
        "10 mb",
        "Reads files larger than this in another thread.",
        "files are read by the task itself",
    ),
)
OPTIONS: tuple[TableOption[object], ...] = tuple(replace(option, scope=Scope.READ) for option in _OPTIONS)
