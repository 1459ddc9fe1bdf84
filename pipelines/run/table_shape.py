"""Shaping by the rules of a pipeline: names, keys, types and options of the tables it makes and changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np
import pyarrow as pa

from penstock.errors import ConfigError
from penstock.formats.change import BadRecord, ChangeBatch, DecodeOptions, ImageRule, SourceSchema
from penstock.ingest.fetched import Fetched
from penstock.pipelines.run.shaping import Fitted, Seen
from penstock.pipelines.run.tables import Warehouse
from penstock.schema_evolution.drift import ColumnRules, drift_of, fold
from penstock.schema_evolution.fit import Fit, FittedRows
from penstock.schema_evolution.naming import Naming
from penstock.table.lsm.merge.incoming import check_retracts, kept_rows, row_kinds
from penstock.table.lsm.merge.spec import Engine, MergeSpec
from penstock.table.schema.changes import apply_changes, evolve
from penstock.table.schema.new_schema import create_schema
from penstock.table.schema.table_schema import TableSchema
from penstock.table.values.types import Field

_KEYS_PER_SCHEMA = 4096


@dataclass(frozen=True, slots=True)
class KeyRules:
    """Keys and partitions of new tables; `partitions_of` names them for single source tables."""

    primary: tuple[str, ...] = ()
    partition: tuple[str, ...] = ()
    partitions_of: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    from_source: bool = True


@dataclass(frozen=True, slots=True)
class TableShape:
    """A `Shaping`. With `table` everything goes to that one table; else each source table has its own."""

    warehouse: Warehouse
    database: str
    table: str | None
    naming: Naming
    rules: ColumnRules = field(default_factory=ColumnRules)
    keys: KeyRules = field(default_factory=KeyRules)
    options: tuple[tuple[str, str], ...] = ()
    zone: str = "UTC"

    def decode_options(self, known: Mapping[str, TableSchema]) -> DecodeOptions:
        return ShapedOptions(zone=self.zone, shape=self, known=known)

    def target(self, database: str | None, table: str | None) -> str | None:
        if self.table is not None:
            return f"{self.database}.{self.table}"
        if table is None or database is None:
            raise ConfigError(
                "Cannot synchronize record when database name or table name is unknown.",
                database_name=database,
                table_name=table,
                hint="the format does not tell the source table: use kafka-sync-table",
            )
        if not self.naming.takes(database, table):
            return None
        return f"{self.database}.{self.naming.target(database, table)}"

    def fit(self, change: ChangeBatch, table: TableSchema, fetched: Fetched | None) -> Fitted | None:
        if not _holds(change.schema, _Hashed(table), self.rules):
            return None
        rows = Fit(table, self.rules).rows(change)
        bad = tuple(_bad_record(one.pos, one.reason_class, one.message, fetched) for one in rows.bad)
        fitted = _as_append(rows) if not table.primary_keys else _as_upsert(rows, table)
        return replace(fitted, bad=bad)

    def evolved(self, table: str, current: TableSchema | None, seen: Sequence[Seen]) -> TableSchema:
        sources = [one.schema for one in seen]
        if current is None:
            return self._created(table, sources)
        store = self.warehouse.store(table)
        drifts = [drift_of(source, table, current, self.rules) for source in sources]
        changes = fold(drifts, current, self.rules.mapping)
        has_snapshots = store.snapshots.latest_id() is not None
        return evolve(store.schemas, changes, has_snapshots, store.ambient.now_millis())

    def _created(self, table: str, sources: Sequence[SourceSchema]) -> TableSchema:
        """A new table that holds all these sources. Made by another in the meantime: that one's newest version."""
        now = self.warehouse.now_millis()
        first = sources[0]
        columns = [Field(-1, one.name, one.type, one.comment) for one in self.rules.wanted(first)]
        primary, partition = self._keys(table, first, {column.name for column in columns})
        schema = create_schema(columns, primary, partition, dict(self.options), now=now)
        for source in sources[1:]:
            changes = fold([drift_of(source, table, schema, self.rules)], schema, self.rules.mapping)
            schema = apply_changes(schema, changes, has_snapshots=False, now=now)
        return self.warehouse.created(table, replace(schema, id=0))

    def _keys(self, table: str, source: SourceSchema, names: set[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        primary, partition = self.keys.primary, self.keys.partitions_of.get(source.table or "", self.keys.partition)
        if not set(primary) <= names or not primary:
            self._refuse_missing(table, "primary", primary, names)
            own = tuple(self.rules.name(name) for name in source.primary_keys)
            primary = own if self.keys.from_source else ()
        if not set(partition) <= names:
            self._refuse_missing(table, "partition", partition, names)
            partition = ()
        return primary, partition

    def _refuse_missing(self, table: str, kind: str, keys: Sequence[str], names: set[str]) -> None:
        """A table sync insists on the keys it was given; a database sync gives them to the tables that have them."""
        if self.table is not None and not set(keys) <= names:
            raise ConfigError(
                f"For sink table {table}, not all specified {kind} keys '[{', '.join(keys)}]' exist in source tables or"
                " computed columns "
                f"'[{', '.join(sorted(names))}]'.",
                table=table,
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapedOptions(DecodeOptions):
    """Which images of an update are needed follows from the table the row goes to."""

    shape: TableShape
    known: Mapping[str, TableSchema]

    def rule(self, database: str | None, table: str | None, primary_keys: tuple[str, ...]) -> ImageRule:
        name = self.shape.target(database, table)
        schema = self.known.get(name) if name else None
        if schema is None:
            return ImageRule("key-changes", frozenset(primary_keys))
        keys = {*schema.primary_keys, *schema.partition_keys}
        # Sources may spell their columns otherwise than a catalog that folds case.
        watch = frozenset({*keys, *map(str.upper, keys), *primary_keys})
        return ImageRule("all" if _needs_before(schema) else "key-changes", watch)


def _needs_before(schema: TableSchema) -> bool:
    producer = schema.options.get("changelog-producer", "none").strip().lower()
    engine = schema.options.get("merge-engine", Engine.DEDUPLICATE).strip().lower()
    return producer == "input" or engine == Engine.AGGREGATION


def _as_append(rows: FittedRows) -> Fitted:
    """A table without keys takes what is new: deletes and the old images of updates are counted and left out."""
    taken = (rows.kinds & 1) == 0
    if taken.all():
        return Fitted(rows.rows, np.zeros_like(rows.kinds), rows.pos, rows.sub)
    kept = rows.rows.filter(pa.array(taken))
    kinds = np.zeros(kept.num_rows, rows.kinds.dtype)
    return Fitted(kept, kinds, rows.pos[taken], rows.sub[taken], dropped=int((~taken).sum()))


def _as_upsert(rows: FittedRows, table: TableSchema) -> Fitted:
    merge = MergeSpec.of(table)
    batch = rows.rows
    kinds = row_kinds(merge, pa.Table.from_batches([batch]), rows.kinds.astype(np.int8))
    pos, sub = rows.pos, rows.sub
    kept = kept_rows(merge, kinds)
    if kept is not None:
        batch, kinds, pos, sub = batch.filter(pa.array(kept)), kinds[kept], pos[kept], sub[kept]
    check_retracts(merge, kinds)
    return Fitted(batch, kinds.astype(np.uint8), pos, sub)


def _bad_record(pos: int, reason: str, message: str, fetched: Fetched | None) -> BadRecord:
    raw = b""
    if fetched is not None:
        place = int(np.searchsorted(fetched.messages.offsets, pos))
        raw = fetched.messages.values[place] or b""
    return BadRecord(pos, reason, message, raw)


class _Hashed:
    """A schema as a key of the cache below: a version of a table never changes."""

    __slots__ = ("schema",)

    def __init__(self, schema: TableSchema) -> None:
        self.schema = schema

    def __hash__(self) -> int:
        return hash((self.schema.id, self.schema.time_millis, self.schema.highest_field_id))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Hashed) and (other.schema is self.schema or other.schema == self.schema)


@lru_cache(maxsize=_KEYS_PER_SCHEMA)
def _holds(source: SourceSchema, table: _Hashed, rules: ColumnRules) -> bool:
    """Whether the table has a place for all that the source declares; asked once per pair of schemas."""
    return drift_of(source, "", table.schema, rules).is_none
