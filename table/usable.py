"""Checks of a new table, or of a new version of its schema, that need more than the schema's own rules."""

from __future__ import annotations

from penstock.errors import ConfigError
from penstock.table.buckets.layout import ALONE, BucketMode, Layout, postponed_layout
from penstock.table.errors import FormatUnknown
from penstock.table.files.encoding import encoding_of
from penstock.table.iceberg.types import check_iceberg, check_shown_level
from penstock.table.maintenance.partition_times import PartitionTimes
from penstock.table.merge.engines.registry import check_forced_lookup, merge_engine, merge_spec, merges_in_part
from penstock.table.meta.tag_periods import TagPeriod
from penstock.table.options.files import DATA_FILE_PATH_DIRECTORY
from penstock.table.read.time_travel import Travel
from penstock.table.schema.table_schema import TableSchema
from penstock.table.schema.validation import UnusableName
from penstock.table.values.arguments import as_text
from penstock.table.values.names import path_step, relative_folder


def check_usable(schema: TableSchema, before: TableSchema | None = None) -> None:
    """Raise ConfigError unless the options of `schema` are valid.

    Checks the bucket layout, file format and compression, merge engine, scan options, partition times, tag periods and
    the rules of Iceberg metadata. What Java Paimon allows and we read right is not refused in tables that it made:
    `before` is the version that is changed.
    """
    layout = Layout.of(schema)
    encoding_of(schema.typed)
    if layout.mode is BucketMode.POSTPONE:
        _check_postponed_files(layout)
    if schema.primary_keys:
        spec = merge_spec(schema)
        if before is None or not before.primary_keys or not merges_in_part(merge_spec(before), before.typed):
            check_forced_lookup(spec, schema.typed)
        merge_engine(schema.typed).check_options(schema.typed)
    Travel.of(schema.options)
    PartitionTimes.of(schema.options)
    TagPeriod.of(schema.options)
    relative_folder(schema.typed[DATA_FILE_PATH_DIRECTORY] or "", DATA_FILE_PATH_DIRECTORY.key)
    check_iceberg(schema)
    if before is not None:
        check_shown_level(schema, before)


def _check_postponed_files(layout: Layout) -> None:
    try:
        encoding_of(postponed_layout(layout, ALONE).schema.typed)
    except FormatUnknown as reason:
        raise FormatUnknown(
            f"{reason.message}: rows of postponed buckets (bucket = -2) are stored in Avro files",
            hint=f"{reason.hint}; file.compression.per.level can set another codec for the files of real buckets",
        ) from reason


def check_name(name: str, noun: str, *, more: str = "") -> None:
    """Raise UnusableName for a name that cannot be a folder, or that contains `$`.

    A `$` introduces the name of a system table.
    """
    as_text(name, f"the name of a {noun}")
    if not name.strip(".") or any(sign in name for sign in "$/\\\0") or name != name.strip():
        hint = "remove $, slashes, and blanks at both ends"
        raise UnusableName(f"{name[:80]!r} cannot be the name of a {noun}", hint=hint + more)
    try:
        path_step(name, noun)
    except ConfigError as error:
        raise UnusableName(error.message, hint=(error.hint or "") + more, **error.facts) from error
