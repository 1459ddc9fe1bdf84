"""The options of record expiry that one writer or one compaction may have beside those of its table."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.errors import ConfigError
from penstock.table.buckets.layout import BucketMode, Layout
from penstock.table.meta.store import TableStore
from penstock.table.options.merge_engines import RECORD_LEVEL_EXPIRE_TIME, RECORD_LEVEL_TIME_FIELD
from penstock.table.schema.table_schema import TableSchema


def refuse_other_expiry(store: TableStore, schema: TableSchema, options: Mapping[str, str]) -> None:
    """Raise ConfigError if records of a table whose keys move would expire by a rule that its options do not contain.

    Writers find the partition of a key in an index, which does not lose a key by a rule that no snapshot shows: they
    would put its next row into the partition of the expired one, or ignore it.
    """
    others = {
        option.key: options[option.key]
        for option in (RECORD_LEVEL_EXPIRE_TIME, RECORD_LEVEL_TIME_FIELD)
        if options.get(option.key) not in {None, schema.options.get(option.key)}
    }
    if others and Layout.of(schema).mode is BucketMode.CROSS_PARTITION:
        raise ConfigError(
            "records of a table whose keys move between partitions expire by the options of the table only",
            table=store.name,
            options=", ".join(f"{key}={text}" for key, text in others.items()),
            hint="set the options of the table with ALTER TABLE ... SET, and leave them out here",
        )
