"""Options that divide a table into buckets."""

from __future__ import annotations

from penstock.table.options.declaration import Scope, Stops, TableOption, acts, refused, reported
from penstock.table.options.kinds import COUNT, DURATION, FLAG, NAMES, POSITIVE, SIZE, WHOLE, one_of

_POSTPONED = "postpone.default-bucket-num sets the number of buckets of postponed rows"

LARGEST_BUCKET_COUNT = (1 << 31) - 1  # in manifests, where it is an int
BUCKET = acts("bucket", WHOLE, "-1", "The number of buckets: n > 0, -1 for dynamic, -2 for postponed buckets.")
BUCKET_KEY = acts("bucket-key", NAMES, "", "Names the columns that choose a row's bucket; default: the primary key.")
BUCKET_FUNCTION_TYPE = acts(
    "bucket-function.type",
    one_of("default", "mod"),
    "default",
    "Chooses a bucket by the hash of the bucket key, or by the remainder of one integer column.",
)
# The index of a bucket has four bytes per key: 8 MB for a full bucket with the default.
DYNAMIC_BUCKET_TARGET_ROW_NUM = acts(
    "dynamic-bucket.target-row-num",
    POSITIVE,
    "2000000",
    "The number of rows of a dynamic bucket; a new bucket is opened when all are full.",
)
DYNAMIC_BUCKET_INITIAL_BUCKETS = acts(
    "dynamic-bucket.initial-buckets", POSITIVE, None, "The number of dynamic buckets a partition starts with."
)
DYNAMIC_BUCKET_MAX_BUCKETS = acts(
    "dynamic-bucket.max-buckets",
    WHOLE.within(least=-1),
    "-1",
    "The maximum number of dynamic buckets of a partition; -1: no limit.",
)
CROSS_PARTITION_UPSERT_INDEX_TTL = acts(
    "cross-partition-upsert.index-ttl",
    DURATION,
    None,
    "The time after which the index forgets a key, in tables whose key does not contain the partition columns.",
)
# Not an option of Paimon. The prefix keeps it apart from options of later releases.
PENSTOCK_KEY_INDEX_MAX_DISK_SIZE = acts(
    "penstock.key-index.max-disk-size",
    SIZE,
    None,
    "Bounds the local disk that key indexes of dynamic buckets may use.",
)
POSTPONE_DEFAULT_BUCKET_NUM = acts(
    "postpone.default-bucket-num",
    POSITIVE,
    "1",
    "The number of buckets of a partition whose postponed rows are compacted for the first time.",
)

OPTIONS: tuple[TableOption[object], ...] = (
    BUCKET,
    BUCKET_KEY,
    BUCKET_FUNCTION_TYPE,
    reported(
        "bucket-append-ordered",
        FLAG,
        "true",
        "Keeps the order of rows within a bucket of an append table.",
        "the order is always kept",
    ),
    DYNAMIC_BUCKET_TARGET_ROW_NUM,
    DYNAMIC_BUCKET_INITIAL_BUCKETS,
    DYNAMIC_BUCKET_MAX_BUCKETS,
    reported(
        "dynamic-bucket.assigner-parallelism",
        POSITIVE,
        None,
        "The number of Flink tasks that assign buckets.",
        "buckets are assigned by the tasks that write",
        scope=Scope.FLINK,
    ),
    CROSS_PARTITION_UPSERT_INDEX_TTL,
    reported(
        "cross-partition-upsert.bootstrap-parallelism",
        POSITIVE,
        "10",
        "The number of threads that load the key index.",
        "the index is loaded by one thread for each writer",
    ),
    PENSTOCK_KEY_INDEX_MAX_DISK_SIZE,
    POSTPONE_DEFAULT_BUCKET_NUM,
    reported(
        "postpone.batch-write-fixed-bucket",
        FLAG,
        "true",
        "Lets batch writers write postponed tables into buckets at once.",
        "rows stay postponed until a compaction",
        harmless=("false",),
        later=True,
    ),
    reported(
        "postpone.batch-write-fixed-bucket.max-parallelism",
        POSITIVE,
        "2048",
        "The maximum number of buckets that such a write creates.",
        _POSTPONED,
        later=True,
    ),
    reported(
        "postpone.batch-write-fixed-bucket.rescale-load-factor",
        POSITIVE,
        "32",
        "The load at which such a write adds buckets.",
        _POSTPONED,
        later=True,
    ),
    reported(
        "postpone.target-row-num-per-bucket",
        POSITIVE,
        None,
        "Chooses the number of buckets by rows.",
        _POSTPONED,
        later=True,
    ),
    reported(
        "postpone.target-size-per-bucket",
        SIZE,
        "1 gb",
        "Chooses the number of buckets by size.",
        _POSTPONED,
        later=True,
    ),
    refused(
        # Refused also for reads: they would lack the postponed rows that other engines show.
        "postpone.merge-on-read",
        FLAG,
        "false",
        "Shows postponed rows to reads before they are compacted.",
        "compact the table: penstock compact",
        stops=Stops.READING,
        later=True,
    ),
    refused(
        "scan.bucket",
        COUNT,
        None,
        "Reads one bucket only.",
        "use a condition on the bucket key",
        scope=Scope.READ,
        stops=Stops.READING,
        later=True,
    ),
)
