"""How a schema version distributes rows over partitions and buckets.

Derived once, and small enough to send to tasks.

The postponed bucket (-2) has a layout of its own: its rows are stored unmerged until a compaction distributes them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache

from penstock.errors import ConfigError
from penstock.table.meta.data_file import DataFile
from penstock.table.meta.paths import POSTPONE_BUCKET, TablePaths, external
from penstock.table.options.buckets import BUCKET, BUCKET_FUNCTION_TYPE, BUCKET_KEY
from penstock.table.options.checks import check_readable
from penstock.table.options.files import (
    DATA_FILE_PREFIX,
    FILE_COMPRESSION_PER_LEVEL,
    FILE_FORMAT,
    FILE_FORMAT_PER_LEVEL,
    METADATA_STATS_MODE,
    METADATA_STATS_MODE_PER_LEVEL,
)
from penstock.table.options.kinds import LONGEST_PREFIX
from penstock.table.options.partitions import PARTITION_DEFAULT_NAME, PARTITION_LEGACY_NAME
from penstock.table.options.table_options import TableOptions
from penstock.table.schema.table_schema import TableSchema
from penstock.table.values.binary_row import decode_row
from penstock.table.values.partition_text import partition_path, partition_texts
from penstock.table.values.types import DataType, Field


class BucketMode(StrEnum):
    """How a row's bucket is found; the values are Java's names."""

    FIXED = "HASH_FIXED"
    DYNAMIC = "HASH_DYNAMIC"
    CROSS_PARTITION = "KEY_DYNAMIC"
    POSTPONE = "POSTPONE_MODE"
    UNAWARE = "BUCKET_UNAWARE"


@dataclass(frozen=True, slots=True)
class Layout:
    """The partitioning and bucketing of a schema version.

    `bucket_count` is the option's value (n, -1 or -2), which new files record as their total number of buckets.
    """

    schema: TableSchema
    mode: BucketMode
    bucket_count: int
    bucket_keys: tuple[str, ...]
    bucket_function: str

    @classmethod
    def of(cls, schema: TableSchema) -> Layout:
        """Return the layout of a schema; ConfigError when its options are not supported or contradict each other."""
        return _layout_of(schema)

    @classmethod
    def uncached(cls, schema: TableSchema) -> Layout:
        """Do what `of` does, without its cache."""
        check_readable(schema.options)
        options = schema.typed
        # In schemas of the first releases, a missing option meant one bucket.
        count = options.get(BUCKET, 1) if schema.version <= 1 else options[BUCKET]
        keys = options[BUCKET_KEY] or schema.trimmed_primary_keys
        return cls(schema, _mode_of(schema, count, keys), count, keys, options[BUCKET_FUNCTION_TYPE])

    @property
    def has_keys(self) -> bool:
        """Return whether the table has a primary key."""
        return bool(self.schema.primary_keys)

    @property
    def key_fields(self) -> tuple[Field, ...]:
        """Return the columns of the primary key that are not partition columns."""
        return self.schema.select(self.schema.trimmed_primary_keys) if self.has_keys else ()

    @property
    def partition_fields(self) -> tuple[Field, ...]:
        return self.schema.select(self.schema.partition_keys)

    @property
    def partition_types(self) -> tuple[DataType, ...]:
        return tuple(field.type for field in self.partition_fields)

    def partition_values(self, partition: bytes) -> tuple[object, ...]:
        """Return the values of a partition."""
        return decode_row(partition, self.partition_types)

    def partition_dir(self, partition: bytes) -> str:
        """Return the folder of a partition, such as `a=1/b=2`.

        Several partitions may share a folder (null, empty and blank values), so the folder is never parsed back.
        """
        return partition_path(self.partition_values(partition), self.partition_fields, *self._partition_names)

    def partition_texts(self, partition: bytes) -> dict[str, str]:
        """Return the text of each column of a partition, as in the name of its folder."""
        return partition_texts(self.partition_values(partition), self.partition_fields, *self._partition_names)

    @property
    def _partition_names(self) -> tuple[bool, str]:
        options = self.schema.typed
        return options[PARTITION_LEGACY_NAME], options[PARTITION_DEFAULT_NAME]

    def path_of(self, paths: TablePaths, partition: bytes, bucket: int) -> Callable[[DataFile], str]:
        """Return a function that maps a data file of the bucket to its path."""
        folder = paths.bucket_dir(self.partition_dir(partition), bucket)
        return lambda file: external(file.external_path) or f"{folder}/{file.name}"

    @property
    def key_types(self) -> tuple[DataType, ...]:
        return tuple(field.type for field in self.key_fields)


@lru_cache(maxsize=1024)
def _layout_of(schema: TableSchema) -> Layout:
    return Layout.uncached(schema)


def _mode_of(schema: TableSchema, count: int, bucket_keys: tuple[str, ...]) -> BucketMode:
    if not schema.primary_keys:
        if count == -1:
            return BucketMode.UNAWARE
        if count > 0 and bucket_keys:
            return BucketMode.FIXED
        raise ConfigError(
            f"an append table cannot have bucket = {count} without a bucket-key",
            hint="set bucket-key, or bucket = -1",
        )
    if count > 0:
        return BucketMode.FIXED
    if count == POSTPONE_BUCKET:
        return BucketMode.POSTPONE
    if count != -1:
        raise ConfigError(f"bucket = {count} is not a bucket number", hint="use n > 0, -1 (dynamic) or -2 (postpone)")
    return BucketMode.CROSS_PARTITION if keys_move(schema) else BucketMode.DYNAMIC


def keys_move(schema: TableSchema) -> bool:
    """Return whether a key may move between partitions, because it lacks a partition column.

    Only an index of all keys can then find out in which partition the row of a key is.
    """
    keys = set(schema.primary_keys)
    return bool(keys) and schema.typed[BUCKET] == -1 and not keys.issuperset(schema.partition_keys)


# Options by level override the general ones, but Java always writes postponed files in Avro.
_PER_LEVEL = {FILE_FORMAT_PER_LEVEL.key, FILE_COMPRESSION_PER_LEVEL.key, METADATA_STATS_MODE_PER_LEVEL.key}


@dataclass(frozen=True, slots=True)
class Writer:
    """The writer of a file: the job's user, and its number among the writers that share the rows by key."""

    user: str = "penstock"
    number: int = 0


ALONE = Writer()


def postponed_layout(layout: Layout, writer: Writer) -> Layout:
    """Return the layout of a postponed file as Java writes it: Avro without statistics, named after its writer.

    Java compacts the files of one writer number in sequence, and the files of different writers in parallel.
    """
    options = {key: value for key, value in layout.schema.options.items() if key not in _PER_LEVEL}
    prefix = TableOptions(options)[DATA_FILE_PREFIX]
    # The user is part of the file name, where a slash would be a folder.
    user = re.sub(r"[^\w.-]", "_", writer.user)
    named = f"{prefix}-u-{user}-s-{writer.number}-w-"
    if len(named.encode()) > LONGEST_PREFIX:
        raise ConfigError(
            "the commit user is too long for the names of postponed files, which contain it",
            commit_user=writer.user,
            hint=f"shorten it, or the name of the pipeline, by {len(named.encode()) - LONGEST_PREFIX} bytes",
        )
    options |= {FILE_FORMAT.key: "avro", METADATA_STATS_MODE.key: "none", DATA_FILE_PREFIX.key: named}
    return replace(layout, schema=replace(layout.schema, options=options))
