"""Options of a table that have no effect without another option, without a primary key, or with one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from penstock.table.buckets.layout import keys_move
from penstock.table.merge.engines.registry import ENGINES, merge_engine
from penstock.table.options import buckets, changelogs, compaction, iceberg, indexes, merge_engines, partitions
from penstock.table.options.catalog import find
from penstock.table.options.checks import has_other_value, log_without_effect, without_effect
from penstock.table.options.declaration import Effect, TableOption
from penstock.table.schema.table_schema import TableSchema


@dataclass(frozen=True, slots=True)
class OptionNeed:
    """A condition of a table without which some options have no effect."""

    options: tuple[TableOption[object], ...]
    met: Callable[[TableSchema], bool]
    note: str


def report_table(name: str, schema: TableSchema, *, only: Mapping[str, str] | None = None) -> None:
    """Log the options of a table that have no effect, once per process; `only` limits them to these options."""
    notes = table_options_without_effect(schema)
    if only is not None:
        notes = {key: note for key, note in notes.items() if key in only}
    log_without_effect(name, schema.options, notes)


@lru_cache(256)
def table_options_without_effect(schema: TableSchema) -> Mapping[str, str]:
    """Return the options that are set but have no effect in this table, each with a note."""
    found = without_effect(schema.options)
    for key in schema.options.keys() - found.keys():
        option = find(key)
        need = None if option is None or option.effect is not Effect.ACTS else _NEEDS.get(option.key)
        if option and need and has_other_value(option, key, schema.options[key]) and not need.met(schema):
            found[key] = need.note
    return dict(sorted(found.items()))


def _has_key(schema: TableSchema) -> bool:
    return bool(schema.primary_keys)


def _has_engine_with(option: TableOption[object]) -> OptionNeed:
    """Return the need of an option that only some merge engines know."""
    names = [engine.name for engine in ENGINES.values() if option in engine.own_options]
    return OptionNeed(
        (option,),
        lambda schema: _has_key(schema) and merge_engine(schema.typed).name in names,
        f"it needs merge-engine = {' or '.join(sorted(names))}",
    )


def _looks_up(schema: TableSchema) -> bool:
    options = schema.typed
    forced = options[compaction.FORCE_LOOKUP] or options[changelogs.DELETION_VECTORS_ENABLED]
    forced = forced or options[changelogs.CHANGELOG_PRODUCER].by_lookup
    return _has_key(schema) and (forced or merge_engine(options).oldest_wins)


def _compares_changes(schema: TableSchema) -> bool:
    return schema.typed[changelogs.CHANGELOG_PRODUCER].by_compaction


def _has_dynamic_buckets(schema: TableSchema) -> bool:
    return _has_key(schema) and schema.typed[buckets.BUCKET] == -1


_OF_LEVELS = (
    compaction.NUM_SORTED_RUN_COMPACTION_TRIGGER,
    compaction.NUM_SORTED_RUN_STOP_TRIGGER,
    compaction.NUM_LEVELS,
    compaction.COMPACTION_MAX_SIZE_AMPLIFICATION_PERCENT,
    compaction.COMPACTION_SIZE_RATIO,
    compaction.COMPACTION_OPTIMIZATION_INTERVAL,
    compaction.COMPACTION_TOTAL_SIZE_THRESHOLD,
    compaction.COMPACTION_INCREMENTAL_SIZE_THRESHOLD,
    compaction.COMPACTION_FORCE_REWRITE_ALL_FILES,
    compaction.COMPACTION_OFFPEAK_START_HOUR,
    compaction.COMPACTION_OFFPEAK_END_HOUR,
    compaction.COMPACTION_OFFPEAK_RATIO,
    compaction.FORCE_LOOKUP,
    changelogs.FULL_COMPACTION_DELTA_COMMITS,
)
_OF_MERGES = (
    merge_engines.MERGE_ENGINE,
    merge_engines.IGNORE_DELETE,
    merge_engines.IGNORE_UPDATE_BEFORE,
    merge_engines.SEQUENCE_FIELD,
    merge_engines.ROWKIND_FIELD,
    merge_engines.RECORD_LEVEL_EXPIRE_TIME,
)
_OF_AUTOMATIC_TAGS = (
    partitions.TAG_CREATION_PERIOD,
    partitions.TAG_CREATION_PERIOD_DURATION,
    partitions.TAG_CREATION_DELAY,
    partitions.TAG_PERIOD_FORMATTER,
    partitions.TAG_AUTOMATIC_COMPLETION,
    partitions.TAG_NUM_RETAINED_MAX,
)
_ALL = (
    OptionNeed((*_OF_LEVELS, *_OF_MERGES), _has_key, "it acts only in tables with a primary key"),
    OptionNeed(
        (compaction.COMPACTION_MIN_FILE_NUM, compaction.COMPACTION_DELETE_RATIO_THRESHOLD),
        lambda schema: not _has_key(schema),
        "it acts only in tables without a primary key; num-sorted-run.compaction-trigger is that of this table",
    ),
    *(_has_engine_with(option) for engine in ENGINES.values() for option in engine.own_options),
    OptionNeed(
        (merge_engines.SEQUENCE_FIELD_SORT_ORDER,),
        lambda schema: _has_key(schema) and bool(schema.typed[merge_engines.SEQUENCE_FIELD]),
        "it needs sequence.field",
    ),
    OptionNeed(
        (merge_engines.RECORD_LEVEL_TIME_FIELD,),
        lambda schema: _has_key(schema) and schema.typed[merge_engines.RECORD_LEVEL_EXPIRE_TIME] is not None,
        "it needs record-level.expire-time, and a primary key",
    ),
    OptionNeed(
        (indexes.LOOKUP_CACHE_MAX_DISK_SIZE,),
        _looks_up,
        "it needs changelog-producer = lookup, merge-engine = first-row, deletion-vectors.enabled or force-lookup",
    ),
    OptionNeed(
        (compaction.LOOKUP_WAIT, compaction.LOOKUP_COMPACT, compaction.LOOKUP_COMPACT_MAX_INTERVAL),
        lambda schema: _looks_up(schema) and not keys_move(schema),
        "it needs changelog-producer = lookup, merge-engine = first-row, deletion-vectors.enabled or force-lookup, "
        "and partition columns that are in the primary key",
    ),
    OptionNeed(
        (changelogs.CHANGELOG_PRODUCER_ROW_DEDUPLICATE,),
        _compares_changes,
        "it needs changelog-producer = lookup or full-compaction",
    ),
    OptionNeed(
        (changelogs.CHANGELOG_PRODUCER_ROW_DEDUPLICATE_IGNORE_FIELDS,),
        lambda schema: (
            # A name that is none, which Java leaves there when it drops the column, does not change what the others do.
            _compares_changes(schema)
            and not set(schema.names).isdisjoint(
                schema.typed[changelogs.CHANGELOG_PRODUCER_ROW_DEDUPLICATE_IGNORE_FIELDS]
            )
        ),
        "it needs changelog-producer = lookup or full-compaction, and the name of a column",
    ),
    OptionNeed(
        (
            changelogs.CHANGELOG_FILE_FORMAT,
            changelogs.CHANGELOG_FILE_COMPRESSION,
            changelogs.CHANGELOG_FILE_PREFIX,
            changelogs.CHANGELOG_FILE_STATS_MODE,
        ),
        lambda schema: schema.typed[changelogs.CHANGELOG_PRODUCER].writes_changelog,
        "it needs a changelog-producer",
    ),
    OptionNeed(
        (changelogs.DELETION_VECTORS_BITMAP64,),
        lambda schema: schema.typed[changelogs.DELETION_VECTORS_ENABLED],
        "it needs deletion-vectors.enabled",
    ),
    OptionNeed(
        (
            buckets.DYNAMIC_BUCKET_TARGET_ROW_NUM,
            buckets.DYNAMIC_BUCKET_INITIAL_BUCKETS,
            buckets.DYNAMIC_BUCKET_MAX_BUCKETS,
        ),
        _has_dynamic_buckets,
        "it needs bucket = -1 and a primary key",
    ),
    OptionNeed(
        (buckets.POSTPONE_DEFAULT_BUCKET_NUM,),
        lambda schema: schema.typed[buckets.BUCKET] == -2,
        "it needs bucket = -2",
    ),
    OptionNeed(
        _OF_AUTOMATIC_TAGS,
        lambda schema: schema.typed[partitions.TAG_AUTOMATIC_CREATION] != "none",
        "it needs tag.automatic-creation",
    ),
    OptionNeed(
        (partitions.PARTITION_EXPIRATION_CHECK_INTERVAL, partitions.END_INPUT_CHECK_PARTITION_EXPIRE),
        lambda schema: schema.typed[partitions.PARTITION_EXPIRATION_TIME] is not None,
        "it needs partition.expiration-time",
    ),
    OptionNeed(
        tuple(option for option in iceberg.OPTIONS if option is not iceberg.ICEBERG_STORAGE),
        lambda schema: schema.typed[iceberg.ICEBERG_STORAGE] != "disabled",
        "it needs metadata.iceberg.storage",
    ),
)
_NEEDS: Mapping[str, OptionNeed] = {option.key: need for need in _ALL for option in need.options}
