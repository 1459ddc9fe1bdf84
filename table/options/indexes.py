"""Options of indexes, and of the column types that only later releases have."""

from __future__ import annotations

from penstock.table.options.declaration import Scope, TableOption, acts, refused, reported
from penstock.table.options.kinds import FLAG, NAMES, POSITIVE, SHARE, SIZE, TEXT, one_of

# Most options of indexes are accepted, because an index only helps to skip rows: ignoring it is always correct.
_NO_INDEX = "these indexes are neither written nor read; files are skipped by their statistics"
_LEAVE_INDEX = f"remove it: {_NO_INDEX}"
_NO_BLOB = "remove it: there are no BLOB columns; BYTES columns are stored whole"
_BLOB = "there are no BLOB columns"
_VECTOR = "there are no VECTOR columns and no vector search"
_WHOLE_VARIANT = "VARIANT columns are stored whole"
_SEARCH = one_of("fast", "full", "detail")

LOOKUP_CACHE_MAX_DISK_SIZE = acts(
    "lookup.cache-max-disk-size", SIZE, None, "Bounds the local disk of compactions that look keys up."
)

FILE_INDEX_COLUMNS = reported(
    "file-index.<type>.columns", NAMES, "", "The columns for which files have an index.", _NO_INDEX
)

OPTIONS: tuple[TableOption[object], ...] = (
    reported("file-index.read.enabled", FLAG, "true", "Skips files by their index.", _NO_INDEX, harmless=("false",)),
    reported("file-index.in-manifest-threshold", SIZE, "500 bytes", "Keeps small indexes in manifests.", _NO_INDEX),
    FILE_INDEX_COLUMNS,
    reported("file-index.<type>.<column>.<name>", TEXT, None, "An option of the index of a column.", _NO_INDEX),
    reported(
        "global-index.enabled",
        FLAG,
        "true",
        "Reads rows by a global index.",
        _NO_INDEX,
        harmless=("false",),
        later=True,
    ),
    reported(
        "global-index.build.max-parallelism",
        POSITIVE,
        "4096",
        "The maximum number of tasks that build the global index.",
        _NO_INDEX,
        later=True,
    ),
    reported(
        "global-index.build.max-shard",
        POSITIVE,
        "32",
        "The maximum number of shards of the index.",
        _NO_INDEX,
        later=True,
    ),
    reported(
        "global-index.column-update-action",
        one_of("THROW_ERROR", "DROP_PARTITION_INDEX", "IGNORE"),
        "THROW_ERROR",
        "What an update of an indexed column does.",
        _NO_INDEX,
        later=True,
    ),
    reported("global-index.external-path", TEXT, None, "The folder of the global index.", _NO_INDEX, later=True),
    reported(
        "global-index.row-count-per-shard", POSITIVE, "100000", "The number of rows of a shard.", _NO_INDEX, later=True
    ),
    reported(
        "global-index.search-mode",
        _SEARCH,
        None,
        "Whether rows without index are searched.",
        _NO_INDEX,
        later=True,
    ),
    reported("global-index.thread-num", POSITIVE, "32", "The number of threads that read it.", _NO_INDEX, later=True),
    reported(
        "scalar-index.search-mode",
        _SEARCH,
        "fast",
        "Whether rows without index are searched.",
        _NO_INDEX,
        later=True,
    ),
    reported(
        "full-text-index.search-mode",
        _SEARCH,
        "fast",
        "Whether rows without index are searched.",
        _NO_INDEX,
        later=True,
    ),
    reported(
        "vector-index.search-mode",
        _SEARCH,
        "fast",
        "Whether rows without index are searched.",
        _NO_INDEX,
        later=True,
    ),
    *(
        refused(
            f"pk-{kind}.index.columns", TEXT, None, f"Names the columns with a {kind} index.", _LEAVE_INDEX, later=True
        )
        for kind in ("bitmap", "btree", "full-text", "multivalue", "vector")
    ),
    reported("fields.<column>.pk-<name>", TEXT, None, "An option of the index of a column.", _NO_INDEX, later=True),
    *(
        refused(key, TEXT, None, meaning, _NO_BLOB, later=True)
        for key, meaning in (
            ("blob-field", "Names BYTES columns that are stored as BLOB."),
            ("blob-descriptor-field", "BLOB columns that contain the location of their bytes."),
            ("blob-view-field", "BLOB columns that refer to bytes of other tables."),
            ("blob-descriptor.source-table", "Names the table that BLOB bytes are copied from."),
        )
    ),
    *(
        reported(key, kind, default, meaning, _BLOB, later=True)
        for key, kind, default, meaning in (
            ("blob-as-descriptor", FLAG, "false", "Writes the location of the bytes of a BLOB instead of the bytes."),
            ("blob-compaction.enabled", FLAG, "false", "Compacts files of BLOB columns."),
            ("blob-write-null-on-fetch-failure", FLAG, "false", "Writes null for a BLOB that cannot be fetched."),
            ("blob-write-null-on-missing-file", FLAG, "false", "Writes null for a BLOB that is missing."),
            ("blob.copy-buffer-size", SIZE, "4 kb", "The buffer that copies a BLOB."),
            ("blob.split-by-file-size", FLAG, None, "Counts BLOB files when a read is divided."),
            ("blob.target-file-size", SIZE, None, "The size of a BLOB file."),
            ("lookup.blob-as-descriptor", FLAG, "false", "Returns the location of a BLOB in lookup joins."),
        )
    ),
    reported(
        "blob-view.resolve.enabled",
        FLAG,
        "true",
        "Reads BLOB bytes of other tables.",
        _BLOB,
        harmless=("false",),
        later=True,
    ),
    refused(
        "vector-field",
        TEXT,
        None,
        "Names ARRAY columns that are stored as VECTOR.",
        f"remove it: {_VECTOR}",
        later=True,
    ),
    reported("vector.file.format", TEXT, None, "The format of VECTOR files.", _VECTOR, later=True),
    reported("vector.target-file-size", SIZE, None, "The size of a VECTOR file.", _VECTOR, later=True),
    reported("vector-search.distribute.enabled", FLAG, "false", "Divides a vector search.", _VECTOR, later=True),
    reported(
        "vector-search.lateral-join.batch-size",
        POSITIVE,
        "256",
        "The number of vectors that are searched at once.",
        _VECTOR,
        later=True,
    ),
    reported(
        "vector-search.lateral-join.parallelism",
        POSITIVE,
        "16",
        "Divides the input of a vector search.",
        _VECTOR,
        scope=Scope.SPARK,
        later=True,
    ),
    *(
        reported(f"variant.{key}", kind, default, meaning, _WHOLE_VARIANT, later=True)
        for key, kind, default, meaning in (
            ("shreddingSchema", TEXT, None, "Stores members of VARIANT columns as columns."),
            ("inferShreddingSchema", FLAG, "false", "Infers the members that are stored as columns."),
            ("shredding.inferenceMode", one_of("per-file", "adaptive"), "per-file", "When members are inferred."),
            ("shredding.maxInferBufferRow", POSITIVE, "4096", "The number of rows from which members are inferred."),
            ("shredding.maxSchemaDepth", POSITIVE, "50", "The maximum depth of inferred members."),
            ("shredding.maxSchemaWidth", POSITIVE, "300", "The maximum number of inferred members."),
            ("shredding.minFieldCardinalityRatio", SHARE, "0.1", "The minimum share of rows that must have a member."),
            (
                "shredding.adaptive.maxInferBufferRow",
                POSITIVE,
                "256",
                "The number of rows from which members of later files are inferred.",
            ),
            (
                "shredding.adaptive.retentionRatio",
                SHARE,
                "0.05",
                "The minimum share of rows that must have a member for it to remain a column.",
            ),
        )
    ),
    *(
        reported(f"format-table.{key}", kind, default, meaning, "tables of plain files are not supported", later=True)
        for key, kind, default, meaning in (
            ("commit-hive-sync-url", TEXT, None, "Reports partitions of a format table to Hive."),
            ("file.compression", TEXT, None, "The compression of a format table."),
            ("implementation", one_of("paimon", "engine"), "paimon", "The implementation that reads a format table."),
            ("partition-path-only-value", FLAG, "false", "Names partitions of a format table by their values only."),
            ("repair.collect-statistics", FLAG, "false", "Collects statistics of partitions that repair finds."),
            ("scan.list-parallelism", POSITIVE, "64", "The number of threads that list its files."),
            ("statistics.parallelism", POSITIVE, "8", "The number of threads that collect its statistics."),
        )
    ),
    reported("local-kv-db.block-size", SIZE, "4 kb", "The block of a local store of keys.", _NO_INDEX, later=True),
    LOOKUP_CACHE_MAX_DISK_SIZE,
)
