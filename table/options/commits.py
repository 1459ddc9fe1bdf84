"""Options of commits, manifests, snapshots and the listeners of commits."""

from __future__ import annotations

from penstock.table.options.declaration import Scope, Stops, TableOption, acts, refused, reported
from penstock.table.options.kinds import COUNT, DURATION, FLAG, POSITIVE, SIZE, TEXT, WHOLE, one_of

_LISTENERS = "remove it: read the snapshots, or let partition.mark-done-action = http-report call a server"
_THREADS = "files are read and deleted by a few threads"
_NO_CLASS = "no Java class is called"
_SORTED = "manifests keep the order of commits"

# No default: without it, only the number of retries limits a commit.
COMMIT_TIMEOUT = acts("commit.timeout", DURATION, None, "How long a commit is retried when other writers commit first.")
COMMIT_MAX_RETRIES = acts("commit.max-retries", COUNT, "10", "How often a commit is retried.")
COMMIT_MIN_RETRY_WAIT = acts("commit.min-retry-wait", DURATION, "10 ms", "The first wait between two attempts.")
COMMIT_MAX_RETRY_WAIT = acts("commit.max-retry-wait", DURATION, "10 s", "The longest wait between two attempts.")
COMMIT_USER_PREFIX = acts("commit.user-prefix", TEXT, None, "The prefix of commit users that Penstock generates.")
COMMIT_FORCE_CREATE_SNAPSHOT = acts(
    "commit.force-create-snapshot",
    FLAG,
    "false",
    "Creates a snapshot for every numbered commit and every batch of a pipeline, even without rows.",
)
SNAPSHOT_IGNORE_EMPTY_COMMIT = acts(
    "snapshot.ignore-empty-commit",
    FLAG,
    None,
    "With false, a commit without rows creates a snapshot too.",
)
MANIFEST_FORMAT = acts("manifest.format", one_of("avro", "parquet", "orc"), "avro", "The format of manifests.")
MANIFEST_COMPRESSION = acts(
    "manifest.compression",
    one_of("zstd", "zstandard", "deflate", "snappy", "none", "null"),
    "zstd",
    "The compression of manifests.",
)
MANIFEST_TARGET_FILE_SIZE = acts("manifest.target-file-size", SIZE, "8 mb", "The size of a manifest.")
MANIFEST_MERGE_MIN_COUNT = acts(
    "manifest.merge-min-count", POSITIVE, "30", "The number of small manifests at which they are merged."
)
MANIFEST_FULL_COMPACTION_THRESHOLD_SIZE = acts(
    "manifest.full-compaction-threshold-size",
    SIZE,
    "16 mb",
    "Rewrites all manifests when those that changed are larger than this.",
)
MANIFEST_DELETE_FILE_DROP_STATS = acts(
    "manifest.delete-file-drop-stats",
    FLAG,
    "false",
    "Omits statistics from manifest entries that delete a file.",
)
SNAPSHOT_TIME_RETAINED = acts("snapshot.time-retained", DURATION, "1 h", "How long a snapshot is kept.")
SNAPSHOT_NUM_RETAINED_MIN = acts(
    "snapshot.num-retained.min", POSITIVE, "10", "The minimum number of snapshots that are kept."
)
SNAPSHOT_NUM_RETAINED_MAX = acts(
    "snapshot.num-retained.max", POSITIVE, None, "The maximum number of snapshots that are kept."
)
SNAPSHOT_EXPIRE_LIMIT = acts(
    "snapshot.expire.limit", POSITIVE, "50", "The maximum number of snapshots that expire at once."
)
SNAPSHOT_CLEAN_EMPTY_DIRECTORIES = acts(
    "snapshot.clean-empty-directories",
    FLAG,
    "false",
    "Deletes folders that expiry empties.",
    old_keys=("snapshot.expire.clean-empty-directories",),
)
# Without a value, each of these three has the value of the option for snapshots, as in Java.
CHANGELOG_TIME_RETAINED = acts(
    "changelog.time-retained", DURATION, None, "How long a changelog is kept after its snapshot."
)
CHANGELOG_NUM_RETAINED_MIN = acts(
    "changelog.num-retained.min", POSITIVE, None, "The minimum number of changelogs that are kept."
)
CHANGELOG_NUM_RETAINED_MAX = acts(
    "changelog.num-retained.max", POSITIVE, None, "The maximum number of changelogs that are kept."
)
CONSUMER_EXPIRATION_TIME = acts(
    "consumer.expiration-time", DURATION, None, "The time without progress after which a consumer is deleted."
)

OPTIONS: tuple[TableOption[object], ...] = (
    COMMIT_TIMEOUT,
    COMMIT_MAX_RETRIES,
    COMMIT_MIN_RETRY_WAIT,
    COMMIT_MAX_RETRY_WAIT,
    COMMIT_USER_PREFIX,
    COMMIT_FORCE_CREATE_SNAPSHOT,
    SNAPSHOT_IGNORE_EMPTY_COMMIT,
    refused(
        "commit.strict-mode.last-safe-snapshot",
        WHOLE.within(least=-1),
        None,
        "Refuses a commit when another user compacted or overwrote the table after this snapshot.",
        "remove it: a commit is refused when another one removed a file that it needs",
    ),
    refused(
        "commit.discard-duplicate-files",
        FLAG,
        "false",
        "Skips files in a commit that the table already has.",
        "remove it, and commit as one commit user with increasing identifiers",
        stops=Stops.WRITING,
        later=True,
    ),
    refused("commit.callbacks", TEXT, None, "Names Java classes to call after each commit.", _LISTENERS),
    reported("commit.callback.<class>.param", TEXT, None, "The parameter of such a class.", _NO_CLASS),
    refused(
        "commit.custom-listeners",
        TEXT,
        None,
        "Names commit listeners of Flink.",
        _LISTENERS,
        scope=Scope.FLINK,
    ),
    reported(
        "end-input.watermark",
        WHOLE,
        None,
        "The watermark that the end of a bounded job sets.",
        "the last snapshot has the watermark of its rows",
        scope=Scope.FLINK,
    ),
    reported(
        "snapshot.watermark-idle-timeout",
        DURATION,
        None,
        "Creates a snapshot when a source sends no rows for this time, so that the watermark advances.",
        "set scan.watermark.idle-timeout: a pipeline's watermark then advances",
    ),
    MANIFEST_FORMAT,
    MANIFEST_COMPRESSION,
    MANIFEST_TARGET_FILE_SIZE,
    MANIFEST_MERGE_MIN_COUNT,
    MANIFEST_FULL_COMPACTION_THRESHOLD_SIZE,
    MANIFEST_DELETE_FILE_DROP_STATS,
    reported(
        "manifest.merge-optimize.enabled",
        FLAG,
        "true",
        "Copies blocks of manifests when they are merged.",
        "manifests are merged entry by entry",
        harmless=("false",),
        later=True,
    ),
    reported("manifest-sort.enabled", FLAG, "false", "Sorts manifest entries by partition.", _SORTED, later=True),
    reported("manifest-sort.max-rewrite-size", SIZE, "256 mb", "Bounds that sort.", _SORTED, later=True),
    reported("manifest-sort.partition-field", TEXT, None, "Names the partition column.", _SORTED, later=True),
    SNAPSHOT_TIME_RETAINED,
    SNAPSHOT_NUM_RETAINED_MIN,
    SNAPSHOT_NUM_RETAINED_MAX,
    SNAPSHOT_EXPIRE_LIMIT,
    reported(
        "snapshot.expire.execution-mode",
        one_of("sync", "async"),
        "sync",
        "Lets snapshots expire in another thread.",
        "snapshots expire after the commit, in bounded rounds",
    ),
    SNAPSHOT_CLEAN_EMPTY_DIRECTORIES,
    CHANGELOG_TIME_RETAINED,
    CHANGELOG_NUM_RETAINED_MIN,
    CHANGELOG_NUM_RETAINED_MAX,
    CONSUMER_EXPIRATION_TIME,
    reported(
        "consumer.changelog-only",
        FLAG,
        "false",
        "Lets consumers keep only changelogs, not snapshots.",
        "consumers also keep the snapshots that they still need",
        later=True,
    ),
    reported(
        "file-operation.thread-num",
        POSITIVE,
        None,
        "The number of threads that read and delete files.",
        _THREADS,
        old_keys=("delete-file.thread-num",),
    ),
)
