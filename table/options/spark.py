"""Options of Spark's own readers and writers."""

from __future__ import annotations

from dataclasses import replace

from penstock.table.options.declaration import Scope, Stops, TableOption, acts, refused, reported, with_note
from penstock.table.options.kinds import COUNT, FLAG, POSITIVE, TEXT

_SPARK_READS = "Spark divides a read by source.split.target-size"
_TRIGGER = "read.stream.maxRowsPerTrigger bounds a batch"
_WIDEN = "alter the table before the write: ALTER TABLE, alter_table, or a pipeline that follows its source"

READ_CHANGELOG = acts("read.changelog", FLAG, "false", "Shows row kinds in a column rowkind.")
# Spark passes names of options in lower case. TableOptions finds them nevertheless.
READ_STREAM_MAX_ROWS_PER_TRIGGER = acts(
    "read.stream.maxRowsPerTrigger", POSITIVE, None, "The number of rows after which a batch of a stream ends."
)

_SPARK = (
    READ_CHANGELOG,
    READ_STREAM_MAX_ROWS_PER_TRIGGER,
    *with_note(
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
    acts(
        "pipelines.<name>",
        TEXT,
        None,
        "A note of Spark's declarative pipelines for themselves, such as the SCD type of an AUTO CDC flow. It is"
        " stored, and has no effect on the table.",
        later=True,
    ),
)

OPTIONS: tuple[TableOption[object], ...] = tuple(replace(option, scope=Scope.SPARK) for option in _SPARK)
