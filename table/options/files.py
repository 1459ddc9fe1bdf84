"""Options of data files and of the statistics kept of them."""

from __future__ import annotations

from penstock.table.options.declaration import Stops, TableOption, acts, refused, reported
from penstock.table.options.kinds import (
    FILE_PREFIX,
    FLAG,
    LEVELS,
    POSITIVE,
    SHARE,
    SIZE,
    STATISTICS,
    TEXT,
    WHOLE,
    one_of,
)

_ONE_BATCH = "rows are written in the batches in which they arrive"
_WRITER = "the file writer uses its own default"

FILE_FORMAT = acts("file.format", one_of("parquet", "orc", "avro"), "parquet", "The format of data files.")
FILE_FORMAT_PER_LEVEL = acts("file.format.per.level", LEVELS, "", "The format by level: 0:avro,5:parquet.")
FILE_COMPRESSION = acts("file.compression", TEXT, "zstd", "The compression of data files.")
FILE_COMPRESSION_PER_LEVEL = acts("file.compression.per.level", LEVELS, "", "The compression by level: 0:lz4,5:zstd.")
FILE_COMPRESSION_ZSTD_LEVEL = acts(
    "file.compression.zstd-level", WHOLE, "1", "The level of zstd: higher is smaller and slower."
)
FILE_SUFFIX_INCLUDE_COMPRESSION = acts(
    "file.suffix.include.compression", FLAG, "false", "Adds the compression to the names of files."
)
# The default depends on whether the table has a primary key.
TARGET_FILE_SIZE = acts(
    "target-file-size", SIZE, None, "The size of a data file; default: 128 MB, append tables 256 MB."
)
DATA_FILE_PREFIX = acts("data-file.prefix", FILE_PREFIX, "data-", "The prefix of the names of data files.")
DATA_FILE_PATH_DIRECTORY = acts(
    "data-file.path-directory", TEXT, None, "Names the folder of data files below the table's."
)
INDEX_FILE_IN_DATA_FILE_DIR = acts(
    "index-file-in-data-file-dir", FLAG, "false", "Keeps index files beside the data files."
)
DATA_FILE_THIN_MODE = acts("data-file.thin-mode", FLAG, "false", "Does not store key columns twice.")
METADATA_STATS_MODE = acts(
    "metadata.stats-mode",
    STATISTICS,
    "truncate(16)",
    "Keeps none, counts, truncate(n) or full statistics of columns.",
)
METADATA_STATS_MODE_PER_LEVEL = acts(
    "metadata.stats-mode.per.level", LEVELS, "", "The statistics by level, as metadata.stats-mode: 0:none,5:full."
)
FIELD_STATS_MODE = acts(
    "fields.<column>.stats-mode", STATISTICS, None, "The statistics of one column, as metadata.stats-mode."
)
METADATA_STATS_DENSE_STORE = acts(
    "metadata.stats-dense-store", FLAG, "true", "Stores statistics only of columns that have any."
)
METADATA_STATS_KEEP_FIRST_N_COLUMNS = acts(
    "metadata.stats-keep-first-n-columns",
    WHOLE.within(least=-1),
    "-1",
    "Records statistics of the first n columns, and of columns with their own mode.",
)
PARQUET_COMPRESSION = acts(
    "parquet.compression", TEXT, None, "The compression of parquet files where file.compression is not set."
)
# The declared default is Java's. If the option is not set, the writer here decides for each column by its values.
PARQUET_ENABLE_DICTIONARY = acts(
    "parquet.enable.dictionary", FLAG, "true", "Encodes repeated values of parquet files by a dictionary."
)
PARQUET_PAGE_SIZE = acts("parquet.page.size", SIZE, None, "The size of a parquet page.")
PARQUET_DICTIONARY_PAGE_SIZE = acts(
    "parquet.dictionary.page.size", SIZE, None, "The size of a parquet dictionary page."
)
ORC_COMPRESS = acts("orc.compress", TEXT, None, "The compression of ORC files where file.compression is not set.")
AVRO_CODEC = acts("avro.codec", TEXT, None, "The compression of avro files where file.compression is not set.")

OPTIONS: tuple[TableOption[object], ...] = (
    FILE_FORMAT,
    FILE_FORMAT_PER_LEVEL,
    FILE_COMPRESSION,
    FILE_COMPRESSION_PER_LEVEL,
    FILE_COMPRESSION_ZSTD_LEVEL,
    FILE_SUFFIX_INCLUDE_COMPRESSION,
    reported(
        "file.block-size",
        SIZE,
        None,
        "The size of an ORC stripe or a parquet row group.",
        "row groups and stripes have their writer's default size",
    ),
    TARGET_FILE_SIZE,
    reported(
        "target-file-row-num", POSITIVE, None, "Bounds the rows of a data file.", "target-file-size decides", later=True
    ),
    DATA_FILE_PREFIX,
    DATA_FILE_PATH_DIRECTORY,
    INDEX_FILE_IN_DATA_FILE_DIR,
    DATA_FILE_THIN_MODE,
    refused(
        "data-file.external-paths",
        TEXT,
        None,
        "Names folders outside of the table for data files.",
        "remove it: data files are written into the table's folder",
        # Reads find such files by the paths in the metadata. Only a write would put files elsewhere.
        stops=Stops.WRITING,
    ),
    reported(
        "data-file.external-paths.strategy",
        one_of("none", "specific-fs", "round-robin", "entropy-inject", "weight-robin"),
        "none",
        "How a folder is chosen for a file.",
        "data files are written into the table's folder",
    ),
    reported(
        "data-file.external-paths.specific-fs",
        TEXT,
        None,
        "The file system of the folders.",
        "data files are written into the table's folder",
    ),
    reported(
        "data-file.external-paths.weights",
        TEXT,
        None,
        "The weights of the folders.",
        "data files are written into the table's folder",
        later=True,
    ),
    METADATA_STATS_MODE,
    METADATA_STATS_MODE_PER_LEVEL,
    FIELD_STATS_MODE,
    METADATA_STATS_DENSE_STORE,
    METADATA_STATS_KEEP_FIRST_N_COLUMNS,
    reported(
        "write.batch-size",
        POSITIVE,
        "1024",
        "The number of rows written at a time.",
        _ONE_BATCH,
        old_keys=("orc.write.batch-size",),
    ),
    reported("write.batch-memory", SIZE, "128 mb", "The maximum memory of rows written at a time.", _ONE_BATCH),
    reported(
        "async-file-write",
        FLAG,
        "true",
        "Writes files in another thread.",
        "files are written by the task itself",
        harmless=("false",),
    ),
    PARQUET_COMPRESSION,
    PARQUET_ENABLE_DICTIONARY,
    PARQUET_PAGE_SIZE,
    PARQUET_DICTIONARY_PAGE_SIZE,
    reported("parquet.<name>", TEXT, None, "An option of Java's parquet writer.", _WRITER),
    ORC_COMPRESS,
    reported("orc.column.encoding.direct", TEXT, None, "The columns of ORC files without a dictionary.", _WRITER),
    reported("orc.dictionary.key.threshold", SHARE, "0.8", "When an ORC column has no dictionary.", _WRITER),
    reported(
        "orc.timestamp-ltz.legacy.type",
        FLAG,
        "true",
        "Writes TIMESTAMP_LTZ of ORC files as Paimon did before 1.2.",
        "the file itself records how it was written",
    ),
    reported("orc.<name>", TEXT, None, "An option of Java's ORC writer.", _WRITER),
    AVRO_CODEC,
    reported("avro.<name>", TEXT, None, "An option of Java's avro writer.", _WRITER),
    reported("csv.<name>", TEXT, None, "An option of CSV files.", "data files are parquet, ORC or avro"),
    reported("json.<name>", TEXT, None, "An option of JSON files.", "data files are parquet, ORC or avro"),
    reported(
        "partition.sink-strategy",
        one_of("NONE", "HASH", "PARTITION_DYNAMIC"),
        "NONE",
        "Spreads rows of an append table over tasks by partition.",
        "each task writes the partitions of its rows; compaction merges small files",
    ),
)
