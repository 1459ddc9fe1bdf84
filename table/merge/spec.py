"""The merge engine and its options: how the rows of a key are merged into one row."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from penstock.errors import ConfigError, did_you_mean
from penstock.table.merge.aggregate_functions import Aggregate, check_function
from penstock.table.options.changelogs import CHANGELOG_PRODUCER, DELETION_VECTORS_ENABLED
from penstock.table.options.compaction import FORCE_LOOKUP
from penstock.table.options.merge_engines import (
    AGGREGATION_REMOVE_RECORD_ON_DELETE,
    FIELD_AGGREGATE_FUNCTION,
    FIELD_COUNT_LIMIT,
    FIELD_DISTINCT,
    FIELD_IGNORE_RETRACT,
    FIELD_LIST_AGG_DELIMITER,
    FIELD_NESTED_KEY,
    FIELD_SEQUENCE_GROUP,
    FIELDS_DEFAULT_AGGREGATE_FUNCTION,
    IGNORE_DELETE,
    IGNORE_UPDATE_BEFORE,
    MERGE_ENGINE,
    PARTIAL_UPDATE_REMOVE_RECORD_ON_DELETE,
    PARTIAL_UPDATE_REMOVE_RECORD_ON_SEQUENCE_GROUP,
    ROWKIND_FIELD,
    SEQUENCE_FIELD,
    SEQUENCE_FIELD_SORT_ORDER,
)
from penstock.table.schema.table_schema import TableSchema
from penstock.table.values.types import ArrayType, DataType, Field, RowType

SEQUENCE = "_SEQUENCE_NUMBER"
KIND = "_VALUE_KIND"
CHANGELOG_PRODUCERS = ("none", "input", "full-compaction", "lookup")
LAST_NON_NULL = "last_non_null_value"


class Engine(StrEnum):
    """The merge engines, by their names in the option `merge-engine`."""

    DEDUPLICATE = "deduplicate"
    PARTIAL_UPDATE = "partial-update"
    AGGREGATION = "aggregation"
    FIRST_ROW = "first-row"


@dataclass(frozen=True, slots=True)
class SequenceGroup:
    """A group whose `columns` are updated together unless `fields` decrease.

    `removes`: a -D row here removes the whole key.
    """

    fields: tuple[str, ...]
    columns: tuple[str, ...]
    removes: bool = False


@dataclass(frozen=True, slots=True)
class MergeSpec:
    """The merge options of a table with a primary key."""

    engine: Engine
    keys: tuple[str, ...]  # trimmed primary key
    fields: tuple[Field, ...]  # all columns of the table
    sequence_fields: tuple[str, ...] = ()
    descending: bool = False  # the smallest user sequence wins; Java 1.3.1 ignores this within one flush
    groups: tuple[SequenceGroup, ...] = ()
    aggregates: dict[str, Aggregate] = field(default_factory=dict)  # columns that are neither keys nor sequence fields
    remove_on_delete: bool = False
    ignore_delete: bool = False
    ignore_update_before: bool = False
    rowkind_field: str | None = None
    lookup: bool = False  # upper levels contain merged rows: only the row on the smallest level counts

    @classmethod
    def of(cls, schema: TableSchema) -> MergeSpec:
        """Return the spec of a schema. ConfigError when the options contradict each other or the columns."""
        if not schema.primary_keys:
            raise ConfigError("a table without a primary key has no merge engine")
        return _Options(schema).spec()

    def type_of(self, column: str) -> DataType:
        """Return the type of a column."""
        return next(field.type for field in self.fields if field.name == column)

    def key_types(self) -> list[DataType]:
        """Return the types of the key columns."""
        return [self.type_of(key) for key in self.keys]


def required_columns(spec: MergeSpec, wanted: Iterable[str]) -> tuple[str, ...]:
    """Return the table columns that a merge must read for `wanted` to be correct, in the table's order."""
    wanted = set(wanted)
    needed = wanted | set(spec.keys) | set(spec.sequence_fields)
    for group in spec.groups:
        if group.removes or wanted & {*group.fields, *group.columns}:
            needed.update(group.fields)
    return tuple(column.name for column in spec.fields if column.name in needed)


class _Options:
    """A reader of a table's merge options, which rejects what Paimon rejects when a writer opens the table."""

    def __init__(self, schema: TableSchema) -> None:
        self._schema = schema
        self._options = schema.typed

    def spec(self) -> MergeSpec:
        engine = self._engine()
        sequence_fields = self._columns(SEQUENCE_FIELD.key, self._options[SEQUENCE_FIELD])
        groups = self._groups() if engine is Engine.PARTIAL_UPDATE else ()
        spec = MergeSpec(
            engine=engine,
            keys=self._schema.trimmed_primary_keys,
            fields=self._schema.fields,
            sequence_fields=sequence_fields,
            descending=self._descending(),
            groups=groups,
            aggregates=self._aggregates(engine, sequence_fields, groups),
            remove_on_delete=self._removes_on_delete(engine),
            ignore_delete=self._options[IGNORE_DELETE],
            ignore_update_before=self._options[IGNORE_UPDATE_BEFORE],
            rowkind_field=self._rowkind_field(),
            lookup=self._looks_up(engine),
        )
        self._check(spec)
        return spec

    def _engine(self) -> Engine:
        return Engine(self._options[MERGE_ENGINE])

    def _descending(self) -> bool:
        return self._options[SEQUENCE_FIELD_SORT_ORDER] == "descending"

    def _columns(self, key: str, names: tuple[str, ...]) -> tuple[str, ...]:
        """Return the names if all are columns; ConfigError with the key of the option that names them if one is not."""
        for name in names:
            if name not in self._schema.names:
                raise ConfigError(
                    f"{key} names {name!r}, which is no column",
                    hint=did_you_mean(name, self._schema.names, _listed(self._schema.names)),
                )
        return names

    def _removes_on_delete(self, engine: Engine) -> bool:
        match engine:
            case Engine.PARTIAL_UPDATE:
                return self._options[PARTIAL_UPDATE_REMOVE_RECORD_ON_DELETE]
            case Engine.AGGREGATION:
                return self._options[AGGREGATION_REMOVE_RECORD_ON_DELETE]
        return False

    def _rowkind_field(self) -> str | None:
        name = self._options[ROWKIND_FIELD]
        return self._columns(ROWKIND_FIELD.key, (name,))[0] if name else None

    def _looks_up(self, engine: Engine) -> bool:
        producer = self._options[CHANGELOG_PRODUCER]
        forced = self._options[FORCE_LOOKUP] or self._options[DELETION_VECTORS_ENABLED]
        return engine is not Engine.FIRST_ROW and (producer == "lookup" or forced)

    def _groups(self) -> tuple[SequenceGroup, ...]:
        removal = PARTIAL_UPDATE_REMOVE_RECORD_ON_SEQUENCE_GROUP
        removing = set(self._columns(removal.key, self._options[removal]))
        groups = []
        for names, group in self._options.matching(FIELD_SEQUENCE_GROUP):
            fields = self._columns(group.key, tuple(names.split(",")))
            columns = tuple(name for name in self._columns(group.key, self._options[group]) if name not in fields)
            groups.append(SequenceGroup(fields, columns, bool(removing & set(fields))))
        self._check_groups(groups, removing)
        return tuple(groups)

    def _check_groups(self, groups: list[SequenceGroup], removing: set[str]) -> None:
        taken: set[str] = set()
        for group in groups:
            for name in (*group.fields, *group.columns):
                if name in taken:
                    raise ConfigError("a column belongs to two sequence groups", column=name)
                if name in self._schema.primary_keys:
                    raise ConfigError("a primary key column cannot be in a sequence group", column=name)
                taken.add(name)
        stray = removing - {name for group in groups for name in group.fields}
        if stray:
            raise ConfigError(
                "partial-update.remove-record-on-sequence-group names a column that is no group's sequence",
                column=min(stray),
            )

    def _aggregates(
        self, engine: Engine, sequence_fields: tuple[str, ...], groups: tuple[SequenceGroup, ...]
    ) -> dict[str, Aggregate]:
        if engine not in {Engine.PARTIAL_UPDATE, Engine.AGGREGATION}:
            return {}
        fallback = self._options[FIELDS_DEFAULT_AGGREGATE_FUNCTION]
        if engine is Engine.AGGREGATION:
            fallback = fallback or LAST_NON_NULL
        plain = {*self._schema.primary_keys, *sequence_fields, *(name for group in groups for name in group.fields)}
        found = {}
        for column in self._schema.fields:
            named = self._options[FIELD_AGGREGATE_FUNCTION.of(column.name)]
            if column.name in plain:
                self._refuse_on_sequence(column.name, named, sequence_fields)
            elif name := named or fallback:
                found[column.name] = self._aggregate(column, name.strip())
        return found

    def _refuse_on_sequence(self, column: str, function: str | None, sequence_fields: tuple[str, ...]) -> None:
        if function is not None and column in sequence_fields:
            raise ConfigError("a sequence field cannot have an aggregate function", column=column, function=function)

    def _aggregate(self, column: Field, name: str) -> Aggregate:
        options, nested_key = self._options, FIELD_NESTED_KEY.of(column.name)
        aggregate = Aggregate(
            function=check_function(name, column.type, column.name),
            ignore_retract=options[FIELD_IGNORE_RETRACT.of(column.name)],
            distinct=options[FIELD_DISTINCT.of(column.name)],
            delimiter=options[FIELD_LIST_AGG_DELIMITER.of(column.name)],
            nested_key=options[nested_key],
            count_limit=options[FIELD_COUNT_LIMIT.of(column.name)],
        )
        if aggregate.nested_key and isinstance(column.type, ArrayType) and isinstance(column.type.element, RowType):
            members = [member.name for member in column.type.element.fields]
            for key in aggregate.nested_key:
                if key not in members:
                    raise ConfigError(f"{nested_key.key} names {key!r}, no member of the row", hint=_listed(members))
        return aggregate

    def _check(self, spec: MergeSpec) -> None:
        if spec.engine is Engine.FIRST_ROW and spec.sequence_fields:
            raise ConfigError("merge-engine first-row takes no sequence.field")
        if spec.engine is Engine.PARTIAL_UPDATE:
            _check_partial_update(spec)
        if spec.engine is Engine.AGGREGATION and spec.remove_on_delete:
            for column, aggregate in spec.aggregates.items():
                if aggregate.ignore_retract:
                    raise ConfigError(
                        "ignore-retract contradicts aggregation.remove-record-on-delete: leave one out", column=column
                    )


def _check_partial_update(spec: MergeSpec) -> None:
    grouped = {name for group in spec.groups for name in group.columns}
    for column, aggregate in spec.aggregates.items():
        if column not in grouped and aggregate.function != LAST_NON_NULL:
            raise ConfigError(
                "Must use sequence group for aggregation functions",
                column=column,
                function=aggregate.function,
                hint=f"name {column} in a fields.<sequence>.sequence-group option",
            )
    removes_on_group = any(group.removes for group in spec.groups)
    pairs = (
        (spec.remove_on_delete and spec.groups, "sequence groups", "partial-update.remove-record-on-delete"),
        (spec.remove_on_delete and spec.ignore_delete, "ignore-delete", "partial-update.remove-record-on-delete"),
        (
            removes_on_group and spec.ignore_delete,
            "ignore-delete",
            "partial-update.remove-record-on-sequence-group",
        ),
    )
    for clash, first, second in pairs:
        if clash:
            raise ConfigError(f"{first} contradicts {second}: leave one out")


def _listed(names: Iterable[str]) -> str:
    return f"known are {', '.join(names)}"
