"""Options of lookup joins, which are Flink's, and of compactions that look keys up."""

from __future__ import annotations

from penstock.table.options.declaration import Scope, TableOption, reported
from penstock.table.options.kinds import DURATION, FLAG, NUMBER, POSITIVE, SHARE, SIZE, TEXT, WHOLE, Kind, one_of

# The options of this module change how fast keys are found, but not the rows, so they are accepted without effect.
_SORTED_FILES = "keys are looked up in sorted local files"
_NO_JOIN = "lookups of pipelines move to the newest snapshot with each batch, and keep what they ask for in local files"
_NO_ROCKSDB = "no RocksDB is used"
_COMPRESSIONS = (
    "NO_COMPRESSION",
    "SNAPPY_COMPRESSION",
    "ZLIB_COMPRESSION",
    "BZLIB2_COMPRESSION",
    "LZ4_COMPRESSION",
    "LZ4HC_COMPRESSION",
    "XPRESS_COMPRESSION",
    "ZSTD_COMPRESSION",
    "DISABLE_COMPRESSION_OPTION",
)


def _of_rocksdb(name: str, kind: Kind[object], default: str | None, meaning: str) -> TableOption[object]:
    return reported(f"rocksdb.{name}", kind, default, meaning, _NO_ROCKSDB, scope=Scope.FLINK)


def _of_joins(
    name: str, kind: Kind[object], default: str | None, meaning: str, *, later: bool = False
) -> TableOption[object]:
    return reported(f"lookup.{name}", kind, default, meaning, _NO_JOIN, scope=Scope.FLINK, later=later)


OPTIONS: tuple[TableOption[object], ...] = (
    reported("lookup.local-file-type", one_of("sort", "hash"), "sort", "The kind of local file.", _SORTED_FILES),
    reported("lookup.hash-load-factor", SHARE, "0.75", "The fill factor of a hash file.", _SORTED_FILES),
    reported(
        "lookup.cache-file-retention",
        DURATION,
        "1 h",
        "How long local files are kept.",
        "they are kept while the bucket is written",
    ),
    reported("lookup.cache-spill-compression", TEXT, "zstd", "The compression of local files.", _SORTED_FILES),
    reported("lookup.cache-max-memory-size", SIZE, "256 mb", "Bounds the memory of local files.", _SORTED_FILES),
    reported("lookup.cache.high-priority-pool-ratio", SHARE, "0.25", "Keeps indexes in memory.", _SORTED_FILES),
    reported(
        "lookup.cache.bloom.filter.enabled",
        FLAG,
        "true",
        "Finds missing keys by a filter.",
        _SORTED_FILES,
        harmless=("false",),
    ),
    reported("lookup.cache.bloom.filter.fpp", SHARE, "0.05", "The false-positive rate of the filter.", _SORTED_FILES),
    reported("lookup.merge-buffer-size", SIZE, "8 mb", "Bounds the memory that merges one key.", _SORTED_FILES),
    reported(
        "lookup.merge-records-threshold", POSITIVE, "1024", "Bounds the rows of one key in memory.", _SORTED_FILES
    ),
    reported(
        "lookup.remote-file.enabled",
        FLAG,
        "false",
        "Keeps local files in the table as well.",
        _SORTED_FILES,
        later=True,
    ),
    reported(
        "lookup.remote-file.level-threshold",
        WHOLE,
        "-2147483648",
        "The level from which on files are kept in the table.",
        _SORTED_FILES,
        later=True,
    ),
    _of_joins("async", FLAG, "false", "Joins in other threads."),
    _of_joins("async-thread-number", POSITIVE, "16", "The number of those threads."),
    _of_joins("bootstrap-parallelism", POSITIVE, "4", "The number of threads that load the table."),
    _of_joins("cache", one_of("AUTO", "FULL", "MEMORY"), "AUTO", "Which part of the table is cached."),
    _of_joins("cache-rows", POSITIVE, "10000", "The number of rows kept in memory."),
    _of_joins("continuous.discovery-interval", DURATION, None, "How often new snapshots are discovered."),
    _of_joins("dynamic-partition.refresh-interval", DURATION, "1 h", "How often new partitions are discovered."),
    _of_joins("dynamic-partition.refresh.async", FLAG, "false", "Loads new partitions in another thread.", later=True),
    _of_joins("refresh.async", FLAG, "false", "Loads new rows in another thread."),
    _of_joins(
        "refresh.async.pending-snapshot-count",
        POSITIVE,
        "5",
        "The number of new snapshots at which a join waits for its refresh.",
    ),
    _of_joins(
        "refresh.full-load-threshold",
        POSITIVE,
        None,
        "The number of new snapshots at which the whole table is loaded again.",
        later=True,
    ),
    _of_joins("refresh.time-periods-blacklist", TEXT, None, "Periods in which nothing is loaded."),
    _of_rocksdb("thread.num", POSITIVE, "2", "The number of background threads."),
    _of_rocksdb("files.open", WHOLE, "-1", "The maximum number of open files."),
    _of_rocksdb("log.max-file-size", SIZE, "25 mb", "The maximum size of a log file."),
    _of_rocksdb("log.file-num", POSITIVE, "4", "The number of log files."),
    _of_rocksdb("log.dir", TEXT, None, "The folder of logs."),
    _of_rocksdb("log.level", TEXT, "INFO_LEVEL", "The log level."),
    _of_rocksdb("compression.type", one_of(*_COMPRESSIONS), "LZ4_COMPRESSION", "The compression."),
    _of_rocksdb("compaction.style", one_of("LEVEL", "UNIVERSAL", "FIFO", "NONE"), "LEVEL", "The compaction style."),
    _of_rocksdb("compaction.level.use-dynamic-size", FLAG, "false", "Sizes levels by their rows."),
    _of_rocksdb("compaction.level.target-file-size-base", SIZE, "64 mb", "The size of a file."),
    _of_rocksdb("compaction.level.max-size-level-base", SIZE, "256 mb", "The maximum size of the first level."),
    _of_rocksdb("writebuffer.size", SIZE, "64 mb", "The size of a write buffer."),
    _of_rocksdb("writebuffer.count", POSITIVE, "2", "The number of write buffers."),
    _of_rocksdb("writebuffer.number-to-merge", POSITIVE, "1", "The number of write buffers that are merged."),
    _of_rocksdb("block.blocksize", SIZE, "4 kb", "The size of a block."),
    _of_rocksdb("block.metadata-blocksize", SIZE, "4 kb", "The size of a block of metadata."),
    _of_rocksdb("block.cache-size", SIZE, "128 mb", "The cache of blocks."),
    _of_rocksdb("use-bloom-filter", FLAG, "false", "Finds missing keys by a filter."),
    _of_rocksdb("bloom-filter.bits-per-key", NUMBER, "10.0", "The size of that filter."),
    _of_rocksdb("bloom-filter.block-based-mode", FLAG, "false", "Filters by block."),
)
