"""Options of changelogs and of deletion vectors."""

from __future__ import annotations

from enum import StrEnum

from penstock.table.options.declaration import Scope, Stops, TableOption, acts, refused, reported
from penstock.table.options.kinds import (
    DURATION,
    FILE_PREFIX,
    FLAG,
    NAMES,
    POSITIVE,
    SIZE,
    STATISTICS,
    TEXT,
    member_of,
    one_of,
)

_SMALL_FILES = "small changelog files are not merged"


class ChangelogProducer(StrEnum):
    """How the changelog of a keyed table is produced. Other code asks the properties."""

    NONE = "none"
    INPUT = "input"
    FULL_COMPACTION = "full-compaction"
    LOOKUP = "lookup"

    @property
    def writes_changelog(self) -> bool:
        """Return whether the table has changelog files; otherwise its changes are read from its data files."""
        return self is not ChangelogProducer.NONE

    @property
    def copies_input(self) -> bool:
        """Return whether the changelog contains the rows as they were written."""
        return self is ChangelogProducer.INPUT

    @property
    def by_full_compaction(self) -> bool:
        """Return whether only full compactions produce the changelog."""
        return self is ChangelogProducer.FULL_COMPACTION

    @property
    def by_lookup(self) -> bool:
        """Return whether each compaction produces the changelog, by looking up the previous row of each key."""
        return self is ChangelogProducer.LOOKUP

    @property
    def by_compaction(self) -> bool:
        """Return whether compactions produce the changelog."""
        return self.by_full_compaction or self.by_lookup


CHANGELOG_PRODUCER = acts(
    "changelog-producer",
    member_of(ChangelogProducer),
    "none",
    "How the changelog of a primary-key table is produced.",
)
CHANGELOG_PRODUCER_ROW_DEDUPLICATE = acts(
    "changelog-producer.row-deduplicate",
    FLAG,
    "false",
    "Omits updates from the changelog that change no value.",
)
CHANGELOG_PRODUCER_ROW_DEDUPLICATE_IGNORE_FIELDS = acts(
    "changelog-producer.row-deduplicate-ignore-fields",
    NAMES,
    "",
    "Columns that are ignored when an update is compared with the row before it.",
)
FULL_COMPACTION_DELTA_COMMITS = acts(
    "full-compaction.delta-commits",
    POSITIVE,
    None,
    "The number of commits between two full compactions; 1 for changelog-producer = full-compaction.",
)
# Changelog files have the format, compression and statistics of data files unless separate ones are set.
CHANGELOG_FILE_FORMAT = acts(
    "changelog-file.format", one_of("parquet", "orc", "avro"), None, "The format of changelog files."
)
CHANGELOG_FILE_COMPRESSION = acts("changelog-file.compression", TEXT, None, "The compression of changelog files.")
CHANGELOG_FILE_PREFIX = acts(
    "changelog-file.prefix", FILE_PREFIX, "changelog-", "The prefix of the names of changelog files."
)
CHANGELOG_FILE_STATS_MODE = acts(
    "changelog-file.stats-mode", STATISTICS, None, "The statistics of changelog files, as metadata.stats-mode."
)
DELETION_VECTORS_ENABLED = acts(
    "deletion-vectors.enabled", FLAG, "false", "Marks deleted rows in separate files, so that reads need not merge."
)
DELETION_VECTORS_MODIFIABLE = acts(
    "deletion-vectors.modifiable",
    FLAG,
    "false",
    "Allows switching deletion vectors on and off on a table with rows.",
    later=True,
)
DELETION_VECTORS_BITMAP64 = acts("deletion-vectors.bitmap64", FLAG, "false", "Uses 64-bit bitmaps as deletion vectors.")

CHANGELOG_PRODUCER_COMPACTION_INTERVAL = reported(
    "changelog-producer.compaction-interval",
    DURATION,
    "0 ms",
    "The time between two full compactions, for changelog-producer = full-compaction.",
    "a pipeline computes full-compaction.delta-commits from it for tables it creates; set that option on other tables",
    scope=Scope.FLINK,
)

OPTIONS: tuple[TableOption[object], ...] = (
    CHANGELOG_PRODUCER,
    CHANGELOG_PRODUCER_ROW_DEDUPLICATE,
    CHANGELOG_PRODUCER_ROW_DEDUPLICATE_IGNORE_FIELDS,
    CHANGELOG_PRODUCER_COMPACTION_INTERVAL,
    FULL_COMPACTION_DELTA_COMMITS,
    CHANGELOG_FILE_FORMAT,
    CHANGELOG_FILE_COMPRESSION,
    CHANGELOG_FILE_PREFIX,
    CHANGELOG_FILE_STATS_MODE,
    reported(
        "precommit-compact",
        FLAG,
        "false",
        "Merges small files before each commit.",
        _SMALL_FILES,
        scope=Scope.FLINK,
        old_keys=("changelog.precommit-compact",),
    ),
    reported(
        "changelog.precommit-compact.thread-num",
        POSITIVE,
        None,
        "The number of threads that merge small changelog files.",
        _SMALL_FILES,
        scope=Scope.FLINK,
    ),
    reported(
        "changelog.precommit-compact.buffer-size",
        SIZE,
        "128 mb",
        "Bounds the memory that merges small changelog files.",
        _SMALL_FILES,
        scope=Scope.FLINK,
    ),
    reported(
        "delete.force-produce-changelog",
        FLAG,
        "false",
        "Lets a DELETE of whole partitions write the deleted rows as changes.",
        "DELETE always writes the deleted rows as changes, and dropping a partition never does",
    ),
    DELETION_VECTORS_ENABLED,
    DELETION_VECTORS_BITMAP64,
    reported(
        "deletion-vector.index-file.target-size",
        SIZE,
        "2 mb",
        "The size of a file of deletion vectors.",
        "one file contains all vectors of a bucket",
    ),
    DELETION_VECTORS_MODIFIABLE,
    refused(
        "deletion-vectors.merge-on-read",
        FLAG,
        "false",
        "Shows rows of files that were not compacted yet, in tables with deletion vectors.",
        "compact the table: penstock compact",
        stops=Stops.READING,
        later=True,
    ),
    refused(
        "table-read.sequence-number.enabled",
        FLAG,
        "false",
        "Shows sequence numbers in the audit_log table.",
        "remove it: the table $audit_log has no such column",
        old_keys=("key-value.sequence_number.enabled",),
        later=True,
    ),
)
