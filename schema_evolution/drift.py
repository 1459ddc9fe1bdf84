"""Schema drift: the difference between a source schema and its table's, and the schema changes that resolve it.

A drift is data: tasks report it, and the driver folds the drifts of a batch into one new schema version. Folding only
adds and widens (it is a join), so the order of the reports does not affect the result.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from penstock.errors import SchemaConflict
from penstock.formats.change import SourceField, SourceSchema
from penstock.schema_evolution.drift_policy import DeclaredColumn, Drift, SchemaPolicy
from penstock.schema_evolution.type_verdicts import Verdict, change_of
from penstock.schema_evolution.types.mapping import TypeMapping
from penstock.schema_evolution.types.source import is_known, paimon_type
from penstock.table.schema.changes import (
    AddColumn,
    SchemaChange,
    UpdateColumnComment,
    UpdateColumnNullability,
    UpdateColumnType,
    UpdateComment,
)
from penstock.table.schema.column_changes import has_other_buckets
from penstock.table.schema.table_schema import TableSchema
from penstock.table.values.types import ArrayType, AtomicType, DataType, MapType, RowType, type_json, with_nullability


@dataclass(frozen=True, slots=True)
class ColumnRules:
    """The rules for source columns becoming table columns.

    Names are folded to lower case if the catalog is not case sensitive.
    """

    mapping: TypeMapping = field(default_factory=TypeMapping)
    case_sensitive: bool = True
    policy: SchemaPolicy = field(default_factory=SchemaPolicy)
    made: frozenset[str] = frozenset()  # columns of the tables that do not come from the source

    def name(self, source: str) -> str:
        """Return the name that a source column has in the table."""
        return source if self.case_sensitive else source.lower()

    def wanted(self, source: SourceSchema) -> tuple[DeclaredColumn, ...]:
        """Return the table columns for a source schema. SchemaConflict when two of them have the same name."""
        columns = tuple(
            DeclaredColumn(self.name(field.name), self._type(source, field), field.comment)
            for field in source.fields
            # No table has a column without a name, so a value in it makes its row bad.
            if field.name.strip()
        )
        names = [column.name for column in columns]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise SchemaConflict(
                f"Table {source.table or ''} contains duplicate columns: [{', '.join(twice)}]".replace("  ", " "),
                source=".".join(filter(None, (source.database, source.table))) or None,
                hint="rename one at the source; with case-sensitive: false, names that differ only in case are equal",
            )
        return columns

    def _type(self, source: SourceSchema, column: SourceField) -> DataType:
        type_ = paimon_type(source.dialect, column, self.mapping)
        not_null = column.nullable is False and not self.mapping.to_nullable
        return with_nullability(type_, nullable=False) if not_null else type_


def drift_of(source: SourceSchema, table: str, schema: TableSchema, rules: ColumnRules) -> Drift:
    """Return the drift of a source schema.

    SchemaConflict when no type can store the values of both. Formats without types only drift by new names.
    """
    typed, comments_follow = source.dialect != "text", source.comments_follow
    known = {column.name: column for column in schema.fields}
    added, widened, comments = [], [], []
    for wanted in rules.wanted(source):
        column = known.get(wanted.name)
        if column is None:
            added.append(wanted)
            continue
        if typed and _widens(table, schema, wanted, rules):
            widened.append(wanted)
        if comments_follow and wanted.comment is not None and wanted.comment != (column.description or ""):
            comments.append(wanted)
    drift = Drift(table, tuple(added), tuple(widened), tuple(comments), _relaxed(source, schema, rules))
    return drift.followed(rules.policy)


def nonsense(source: SourceSchema, schema: TableSchema | None, rules: ColumnRules) -> str | None:
    """Return why rows of this source schema cannot be stored in any table, or None.

    Either it declares an impossible type, or an unknown type that is incompatible with the column of the table. A
    single message of a topic can declare anything; such a declaration is not treated as a change of the source.
    """
    existing = {column.name: column.type for column in schema.fields} if schema else {}
    for declared in source.fields:
        if not declared.name.strip():
            continue
        try:
            type_ = paimon_type(source.dialect, declared, rules.mapping)
        except SchemaConflict as error:
            return f"column {declared.name}: {error.message}"
        old = existing.get(rules.name(declared.name))
        if old is None or is_known(source.dialect, declared) or rules.policy.is_lenient:
            continue
        if change_of(old, type_, rules.mapping).verdict is Verdict.REFUSE:
            return (
                f"column {declared.name} is declared as {declared.type}, which is an unknown type, and the table has "
                f"{type_json(old)}"
            )
    return None


def _relaxed(source: SourceSchema, schema: TableSchema, rules: ColumnRules) -> tuple[str, ...]:
    """Return the NOT NULL columns for which the source, if it declares nullability, allows nulls or has no column."""
    # Most formats do not declare nullability, and then nothing follows from a missing declaration.
    if all(field.nullable is None for field in source.fields):
        return ()
    filled = rules.made | {rules.name(field.name) for field in source.fields if field.nullable is False}
    keys = {*schema.primary_keys, *schema.partition_keys}
    return tuple(
        field.name
        for field in schema.fields
        if not field.type.nullable and field.name not in filled and field.name not in keys
    )


def _widens(table: str, schema: TableSchema, wanted: DeclaredColumn, rules: ColumnRules) -> bool:
    column = schema.field(wanted.name)
    change = change_of(column.type, wanted.type, rules.mapping)
    fixed = wanted.name in schema.primary_keys or wanted.name in schema.partition_keys
    if change.verdict is Verdict.REFUSE and not fixed and not rules.policy.is_lenient:
        raise _refused(table, wanted, column.type)
    if change.verdict is not Verdict.WIDEN:
        return False
    # Keys, partition columns and columns that decide the bucket of a row cannot change: the table keeps its type, and
    # values that fit are written.
    return not fixed and not has_other_buckets(schema, wanted.name, column.type, change.type)


def _refused(table: str, wanted: DeclaredColumn, old: DataType) -> SchemaConflict:
    return SchemaConflict(
        f"Cannot convert field {wanted.name} from type {type_json(old)} to {type_json(wanted.type)} of Paimon table "
        f"{table}.",
        table=table,
        column=wanted.name,
        hint=_as_instants(wanted, old) or _OTHER_CONVERSIONS,
    )


_OTHER_CONVERSIONS = (
    "allow more conversions with --type-mapping, in a file  sink: {type-mapping: [...]} :"
    " allow-non-string-to-string, allow-lossless; or exclude the table"
)


def _as_instants(wanted: DeclaredColumn, old: DataType) -> str | None:
    """Return a hint for times without a zone and a column with instants, which Flink CDC makes of MySQL's TIMESTAMP."""
    match old, wanted.type:
        case AtomicType("TIMESTAMP_LTZ"), AtomicType("TIMESTAMP"):
            cast = f"CAST({wanted.name} AS TIMESTAMP_LTZ({old.precision or 0})) AS {wanted.name}"
            return (
                f"if the source has them in UTC (server-time-zone: UTC), write  projection: '*, {cast}'  in a transform"
            )
    return None


def fold(drifts: Iterable[Drift], schema: TableSchema, mapping: TypeMapping) -> list[SchemaChange]:
    """Return the changes, as one schema version, after which all of the drifting source schemas fit."""
    types: dict[str, DataType] = {column.name: column.type for column in schema.fields}
    added: dict[str, DeclaredColumn] = {}
    relaxed: dict[str, None] = {}
    for drift in drifts:
        relaxed |= dict.fromkeys(drift.relaxed)
        for wanted in (*drift.added, *drift.widened):
            old = types.get(wanted.name)
            if old is None:
                # Always nullable: the rows that the table has already get null in a new column.
                types[wanted.name] = replace(wanted.type, nullable=True)
                added[wanted.name] = wanted
                continue
            change = change_of(old, wanted.type, mapping)
            if change.verdict is Verdict.REFUSE:
                raise _refused(drift.table, wanted, old)
            types[wanted.name] = change.type
    changes: list[SchemaChange] = []
    for column in schema.fields:
        changes += _retyped((column.name,), column.type, types[column.name])
        if column.name in relaxed:
            changes.append(UpdateColumnNullability(column.name, nullable=True))
    # A path of one part: a dot in a source's column name does not refer to a nested column.
    changes += [AddColumn((name,), types[name], wanted.comment or None) for name, wanted in added.items()]
    return changes


def comment_changes(sources: Sequence[SourceSchema], schema: TableSchema, rules: ColumnRules) -> list[SchemaChange]:
    """Return the changes of comments that make a table and its columns follow its sources, given their newest schemas.

    When several source tables have different comments, a current comment that one of them has is kept.
    """
    wanted: dict[str, str] = {}
    seen: set[str] = set()
    table = [source.comment for source in sources if source.comment is not None and source.comments_follow]
    for source in sources:
        differing = {comment.name for comment in drift_of(source, "", schema, rules).comments}
        for column in rules.wanted(source):
            if column.name in differing:
                wanted[column.name] = column.comment or ""
            elif column.comment is not None:
                seen.add(column.name)
    changes: list[SchemaChange] = [
        UpdateColumnComment(name, text or None) for name, text in wanted.items() if name not in seen
    ]
    if table and (schema.comment or "") not in table and not rules.policy.ignores:
        changes.append(UpdateComment(table[-1] or None))
    return changes


def _retyped(path: tuple[str, ...], old: DataType, new: DataType) -> Iterator[SchemaChange]:
    """Yield the changes of a type. Nested types change member by member, since Paimon cannot replace them."""
    match old, new:
        case ArrayType(), ArrayType():
            yield from _retyped((*path, "element"), old.element, new.element)
        case MapType(), MapType():
            yield from _retyped((*path, "value"), old.value, new.value)
        case RowType(), RowType():
            existing = {member.name: member for member in old.fields}
            for member in new.fields:
                if member.name in existing:
                    yield from _retyped((*path, member.name), existing[member.name].type, member.type)
                else:
                    yield AddColumn((*path, member.name), member.type, member.description)
        case _ if old != new:
            yield UpdateColumnType(path, new)
