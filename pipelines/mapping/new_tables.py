"""Creates the first schema of a target table from the source schemas seen so far."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from penstock.errors import ConfigError, SourceError
from penstock.formats.change import SourceSchema
from penstock.pipelines.errors import KeylessTable
from penstock.pipelines.mapping.metadata_columns import type_of
from penstock.schema_evolution.computed_columns import ComputedColumn
from penstock.schema_evolution.drift import ColumnRules, drift_of, fold
from penstock.schema_evolution.drift_policy import ADD_COLUMN, DeclaredColumn, Drift
from penstock.table.options.merge_engines import SEQUENCE_FIELD
from penstock.table.schema.changes import apply_changes
from penstock.table.schema.new_schema import create_schema
from penstock.table.schema.table_schema import TableSchema
from penstock.table.values.types import AtomicType, DataType, Field

if TYPE_CHECKING:
    from penstock.ingest.connector_requests import KeylessRule

NO_ID = -1
OLDER_TABLE = "the table is older than these computed or metadata columns; its rows have null in them until they change"
NO_KEY = "the source table has no primary key"
NO_KEY_HINT = "--include-keyless append  (no-primary-key: append) writes such tables to append tables"


@dataclass(frozen=True, slots=True)
class KeyRules:
    """Primary and partition keys of new tables; `partitions_of` overrides partition keys of single source tables."""

    primary: tuple[str, ...] = ()
    partition: tuple[str, ...] = ()
    partitions_of: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    from_source: bool = True


@dataclass(frozen=True, slots=True)
class NewTables:
    """The rules by which new tables are created.

    `computed` is in dependency order: each column only uses earlier ones. `metadata` has pairs of (column, kind of
    metadata).
    """

    rules: ColumnRules = field(default_factory=ColumnRules)
    keys: KeyRules = field(default_factory=KeyRules)
    computed: tuple[ComputedColumn, ...] = ()
    metadata: tuple[tuple[str, str], ...] = ()
    options: tuple[tuple[str, str], ...] = ()
    keyless: KeylessRule = "append"  # source tables without a key
    names_rows: bool = False  # whether the source reports database, table and time of every row
    database: str | None = None  # that of the source, if its databases have schemas
    typing_hint: str = ""  # how messages that declare no types can be made to declare them

    def unknown_types(self, sources: Sequence[SourceSchema]) -> str | None:
        """Return a warning if messages of these tables could declare types and do not, otherwise None."""
        untyped = any(source.dialect == "text" for source in sources)
        if not (untyped and self.typing_hint) or self.rules.mapping.to_string:
            return None
        return f"the messages declare no types: columns are STRING, decimals and times as encoded ({self.typing_hint})"

    def schema(self, table: str, sources: Sequence[SourceSchema], *, insists: bool, now: int) -> TableSchema:
        """Return version 0 of the schema, wide enough for all source schemas.

        With `insists`, configured keys must exist in the source; without it, a table that lacks them gets no such keys.
        """
        first = sources[0]
        lenient = not insists or any(source.is_partial for source in sources)
        columns = [
            Field(NO_ID, column.name, column.type, column.comment or None) for column in self.rules.wanted(first)
        ]
        types: dict[str, DataType] = {column.name: column.type for column in columns}
        for computed in self.computed:
            types[computed.name] = computed.type(types, lenient=lenient)
            columns.append(Field(NO_ID, computed.name, types[computed.name]))
        columns += [Field(NO_ID, name, type_of(kind, named=self.names_rows)) for name, kind in self.metadata]
        primary = self._primary(table, first, {column.name for column in columns}, insists=insists)
        if not primary and not insists and self.keys.from_source:
            self._check_keyless(table, first)
        partition = self._partition(table, first, {column.name for column in columns}, insists=insists)
        schema = create_schema(columns, primary, partition, dict(self.options), now=now)
        # The first source decides the keys; the others add and widen columns.
        for source in sources[1:]:
            changes = fold([drift_of(source, table, schema, self.rules)], schema, self.rules.mapping)
            schema = apply_changes(schema, changes, has_snapshots=False, now=now)
        # Each change counted the version up, but the table does not exist yet.
        return replace(schema, id=0)

    def leaves_out(self, source: SourceSchema, has_table: bool, has_key: bool) -> bool:
        """Return whether rows of this source table are left out, because it has no key and nothing gives it one.

        `has_table` says that the target table exists, `has_key` that it has a primary key. An append table accepts all
        rows. A key of the table does not distinguish rows of a source that states to have no key: they would overwrite
        each other.
        """
        if source.primary_keys or not self.keys.from_source or self.keyless not in {"leave-out", "as-stated"}:
            return False
        if not source.states_no_key and (has_table or self.keyless == "as-stated"):
            return False
        return (has_key or not has_table) and not self._gives_key(source)

    def _gives_key(self, source: SourceSchema) -> bool:
        names = {column.name for column in self.rules.wanted(source)} | {column.name for column in self.computed}
        return bool(self._primary("", source, names | {name for name, _ in self.metadata}, insists=False))

    def _check_keyless(self, table: str, source: SourceSchema) -> None:
        if self.keyless == "append" or (self.keyless == "as-stated" and not source.states_no_key):
            return
        kind = SourceError if self.keyless == "fail" else KeylessTable
        raise kind(
            NO_KEY,
            table=table,
            source=".".join(filter(None, (source.database, source.table))) or None,
            hint=f"{NO_KEY_HINT}, and  --primary-keys  sets a key",
        )

    def missing(self, table: TableSchema) -> tuple[DeclaredColumn, ...]:
        """Return the computed and metadata columns that a table lacks because it is older than these rules."""
        policy, names = self.rules.policy, table.names
        made = [column.name for column in self.computed] + [name for name, _ in self.metadata]
        if policy.ignores or not policy.follows(ADD_COLUMN) or set(made) <= set(names):
            return ()
        types: dict[str, DataType] = {column.name: column.type for column in table.fields}
        for computed in self.computed:
            types.setdefault(computed.name, computed.type(types, lenient=True))
        for name, kind in self.metadata:
            types.setdefault(name, type_of(kind))
        return tuple(DeclaredColumn(name, types[name]) for name in made if name not in names)

    def missing_after(self, drifts: Sequence[Drift], name: str, table: TableSchema) -> Drift:
        """Return these columns as they are after the table has followed the drifts of its sources."""
        if not self.missing(table):
            return Drift(name)
        # In memory: types of computed columns may depend on columns that are added with them.
        changes = fold(drifts, table, self.rules.mapping)
        followed = apply_changes(table, changes, has_snapshots=True, now=table.time_millis)
        return Drift(name, self.missing(followed))

    def sources_of(self, names: Iterable[str]) -> set[str]:
        """Return the source columns among these, and the source columns of the computed ones among them."""
        found = set(names)
        # In reverse order of dependency, so that one pass also finds the columns that are used indirectly.
        for computed in reversed(self.computed):
            if computed.name in found:
                found.update(computed.references)
        return found - {column.name for column in self.computed} - {name for name, _ in self.metadata}

    def repeatable(self, names: Collection[str]) -> set[str]:
        """Return the computed columns that always have the same value for the same values of these columns."""
        known = set(names)
        for computed in self.computed:
            if computed.is_repeatable and known.issuperset(computed.references):
                known.add(computed.name)
        return known.intersection(column.name for column in self.computed)

    def _primary(self, table: str, source: SourceSchema, names: set[str], *, insists: bool) -> tuple[str, ...]:
        given = tuple(map(self.rules.name, self.keys.primary))
        if given and set(given) <= names:
            return given
        if given and insists:
            raise _missing(table, "primary", given, names)
        own = tuple(map(self.rules.name, source.primary_keys))
        # A projection may have removed columns of the source's key. The rest of the key does not identify rows.
        return own if self.keys.from_source and set(own) <= names else ()

    def _partition(self, table: str, source: SourceSchema, names: set[str], *, insists: bool) -> tuple[str, ...]:
        given = tuple(map(self.rules.name, self.keys.partitions_of.get(source.table or "", self.keys.partition)))
        if set(given) <= names:
            return given
        if insists:
            raise _missing(table, "partition", given, names)
        return ()


def _missing(table: str, kind: str, keys: Sequence[str], names: set[str]) -> ConfigError:
    return ConfigError(
        f"a {kind} key is neither a column of the source tables nor a computed column: "
        + ", ".join(repr(key) for key in keys if key not in names),
        table=table,
        columns=", ".join(sorted(names)),
        paimon_message=f"For sink table {table}, not all specified {kind} keys '[{', '.join(keys)}]' exist in source"
        " tables or computed columns",
        hint=f"correct the {kind} keys, or add a computed column with that name",
    )


def text_sequence(schema: TableSchema) -> str | None:
    """Return a warning if texts decide which of two rows is newer, otherwise None."""
    ordering = set(schema.typed[SEQUENCE_FIELD])
    texts = [field.name for field in schema.fields if field.name in ordering and _is_text(field.type)]
    if not texts:
        return None
    return (
        f"sequence.field {', '.join(texts)} is a text, and texts are compared by their characters: 9 is newer than 10 "
        "(for numbers set a computed column, such as ver_no=cast(ver,BIGINT), as sequence.field)"
    )


def _is_text(type_: DataType) -> bool:
    return isinstance(type_, AtomicType) and type_.root in {"CHAR", "VARCHAR"}
