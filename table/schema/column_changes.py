"""Changes of single columns.

Each function returns the changed schema, or raises ConfigError if Paimon refuses the change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from penstock.errors import ConfigError
from penstock.table.options.buckets import BUCKET, BUCKET_FUNCTION_TYPE, BUCKET_KEY
from penstock.table.options.definition import ALTER_COLUMN_NULL_TO_NOT_NULL_DISABLED, DISABLE_EXPLICIT_TYPE_CASTING
from penstock.table.options.iceberg import ICEBERG_STORAGE
from penstock.table.options.merge_engines import FIELDS_DEFAULT_AGGREGATE_FUNCTION
from penstock.table.schema.iceberg_types import iceberg_follows
from penstock.table.schema.members import Path, edit_field, edit_members, edit_type, number_members, place_of
from penstock.table.schema.table_schema import TableSchema
from penstock.table.schema.type_text import written
from penstock.table.schema.validation import check_default
from penstock.table.values.cast_rules import can_cast, has_same_hashes
from penstock.table.values.types import AtomicType, DataType, Field, with_nullability

_POSITIONS = "set one of first, last, after and before"
# Options whose value is a list of columns.
_LISTS = (
    "bucket-key",
    "changelog-producer.row-deduplicate-ignore-fields",
    "clustering.columns",
    "partial-update.remove-record-on-sequence-group",
    "record-level.time-field",
    "rowkind.field",
    "sequence.field",
    "upsert-key",
)


def rename_in_options(options: Mapping[str, str], old: str, new: str) -> dict[str, str]:
    """Return the options with the column renamed in keys and values."""

    def renamed(names: str) -> str:
        return ",".join(new if name.strip() == old else name for name in names.split(","))

    found = {}
    # Columns are named in three places: in keys such as fields.a,b.sequence-group, in values that are lists of
    # columns, and in keys such as file-index.bloom-filter.a.items.
    for key, value in options.items():
        # fields.default-aggregate-function is the only key of this form without a column.
        if key.startswith("fields.") and key != FIELDS_DEFAULT_AGGREGATE_FUNCTION.key:
            _, columns, *rest = key.split(".")
            key = ".".join(["fields", renamed(columns), *rest])
            value = renamed(value) if rest == ["sequence-group"] else value
        elif key in _LISTS:
            value = renamed(value)
        elif key.startswith("file-index.") and key.endswith(".columns"):
            value = ",".join(_indexed(name, old, new) for name in value.split(","))
        elif key.startswith("file-index.") and key.count(".") > 2:
            prefix, kind, column = key.split(".", 2)
            key = f"{prefix}.{kind}.{_indexed(column, old, new)}"
        found[key] = value
    return found


def _indexed(text: str, old: str, new: str) -> str:
    """Return a text that begins with the name of an indexed column, with the column renamed.

    The name may be followed by the key of a map column in brackets, `col[key]`, or a dot and an option of the index.
    """
    rest = text.strip().removeprefix(old)
    return new + rest if text.strip() == old + rest and rest[:1] in {"", "[", "."} else text


@dataclass(frozen=True, slots=True)
class Place:
    """The position of a column: `first`, `last`, or next to another column. The default is the end."""

    first: bool = False
    last: bool = False
    after: str | None = None
    before: str | None = None

    def __post_init__(self) -> None:
        if self._given > 1:
            raise ConfigError("a column has one position", hint=_POSITIONS)

    @property
    def _given(self) -> int:
        return sum([self.first, self.last, self.after is not None, self.before is not None])

    @property
    def is_given(self) -> bool:
        return self._given > 0

    def among(self, fields: Sequence[Field]) -> int:
        """Return the index of this position in a list of columns."""
        if self.first:
            return 0
        if self.after is not None:
            return place_of(fields, (self.after,)) + 1
        return len(fields) if self.before is None else place_of(fields, (self.before,))


def add_column(schema: TableSchema, path: Path, type_: DataType, comment: str | None, place: Place) -> TableSchema:
    """Return the schema with a new column. It must be nullable, because existing rows have no value for it."""
    if not type_.nullable:
        raise ConfigError(
            f"the new column {'.'.join(path)!r} cannot be NOT NULL: rows that are already written have no value",
            hint="add it as nullable",
        )
    # Ids are never used twice, so that rows of a dropped column cannot appear in a new one.
    own = schema.highest_field_id + 1
    type_, highest = number_members(type_, own)
    column = Field(own, path[-1], type_, comment)

    def insert(fields: tuple[Field, ...]) -> tuple[Field, ...]:
        _check_free(fields, path)
        at = place.among(fields)
        return (*fields[:at], column, *fields[at:])

    return replace(schema, fields=edit_members(schema.fields, path, insert), highest_field_id=highest)


def drop_column(schema: TableSchema, path: Path) -> TableSchema:
    """Return the schema without the column. Keys and the last column of a ROW or table cannot be dropped."""
    if len(path) == 1:
        _refuse_keys(schema, path[0], (*schema.partition_keys, *schema.primary_keys), "dropped")

    def without(fields: tuple[Field, ...]) -> tuple[Field, ...]:
        # Options that still name the column are found by check_schema, after the changes that may remove them.
        at = place_of(fields, path)
        if len(fields) == 1:
            raise ConfigError(
                f"{'.'.join(path)!r} is the only column and cannot be dropped",
                hint="add another column first, or drop the table",
            )
        return (*fields[:at], *fields[at + 1 :])

    return replace(schema, fields=edit_members(schema.fields, path, without))


def rename_column(schema: TableSchema, path: Path, to: str) -> TableSchema:
    """Return the schema with the column renamed, also in the primary key and in the options that name columns."""

    def rename(fields: tuple[Field, ...]) -> tuple[Field, ...]:
        at = place_of(fields, path)
        _check_free(fields, (*path[:-1], to))
        return (*fields[:at], replace(fields[at], name=to), *fields[at + 1 :])

    fields = edit_members(schema.fields, path, rename)
    if len(path) > 1:
        return replace(schema, fields=fields)
    _refuse_keys(schema, path[0], schema.partition_keys, "renamed")
    return replace(
        schema,
        fields=fields,
        primary_keys=tuple(to if key == path[0] else key for key in schema.primary_keys),
        options=rename_in_options(schema.options, path[0], to),
    )


def move_column(schema: TableSchema, name: str, place: Place) -> TableSchema:
    """Return the schema with the column at another position."""
    if not place.is_given:
        raise ConfigError("the new position of the column is not set", column=name, hint=_POSITIONS)
    if name in {place.after, place.before}:
        raise ConfigError("a column cannot be moved before or after itself", column=name, hint="name another column")
    column = schema.fields[place_of(schema.fields, (name,))]
    # The new position is counted among the other columns, so that it does not depend on the old one.
    others = tuple(field for field in schema.fields if field is not column)
    at = place.among(others)
    return replace(schema, fields=(*others[:at], column, *others[at:]))


def retype_column(
    schema: TableSchema, path: Path, wanted: DataType, keep_nullability: bool, has_snapshots: bool = True
) -> TableSchema:
    """Return the schema with another type for the column, if `can_cast` allows the change."""
    if len(path) == 1:
        _refuse_keys(schema, path[0], (*schema.partition_keys, *schema.primary_keys), "given another type")
    explicit = not schema.typed[DISABLE_EXPLICIT_TYPE_CASTING]

    def retype(old: DataType) -> DataType:
        new = with_nullability(wanted, old.nullable) if keep_nullability else wanted
        _check_nullability(schema, path, old, nullable=new.nullable)
        # Members keep the ids by which they are found in files.
        if _without_ids(old) == _without_ids(with_nullability(new, old.nullable)):
            return with_nullability(old, new.nullable)
        if not can_cast(old, new, explicit):
            raise ConfigError(
                f"column {'.'.join(path)!r} cannot become {written(new)}: it is {written(old)}",
                hint="add a new column, or change its members one by one" if explicit else _EXPLICIT,
            )
        if schema.typed[ICEBERG_STORAGE] != "disabled" and not iceberg_follows(old, new):
            raise ConfigError(
                f"column {'.'.join(path)!r} cannot become {written(new)}: Iceberg's readers cannot convert"
                f" {written(old)}",
                hint=_NO_ICEBERG,
            )
        if has_snapshots:
            _refuse_other_buckets(schema, path, old, new)
        return new

    return replace(schema, fields=edit_type(schema.fields, path, retype))


_ANOTHER_TABLE = "create another table with the columns and the key that it should have, and insert the rows into it"
_NO_ICEBERG = (
    "add a new column; or remove metadata.iceberg.storage, change the type, rewrite all files by a full compaction, and"
    " set the option again"
)
_EXPLICIT = "set disable-explicit-type-casting = false to allow casts that may lose digits"


def has_other_buckets(schema: TableSchema, name: str, old: DataType, new: DataType) -> bool:
    """Return whether values of a column of the type `old` would belong to other buckets as values of the type `new`."""
    options = schema.typed
    if name not in options[BUCKET_KEY] or options[BUCKET] <= 0 or has_same_hashes(old, new):
        return False
    # The remainder of a number is the same in both types.
    return options[BUCKET_FUNCTION_TYPE] != "mod" or new != AtomicType("BIGINT", new.nullable)


def _refuse_other_buckets(schema: TableSchema, path: Path, old: DataType, new: DataType) -> None:
    """Refuse a type for a bucket key in which a condition on it would look for older rows in the wrong bucket.

    Java allows it.
    """
    if has_other_buckets(schema, path[0], old, new):
        raise ConfigError(
            f"the bucket key {path[0]!r} cannot become {written(new)}: rows that are already written are in the buckets"
            f" of its values as {written(old)}",
            column=path[0],
            hint=_ANOTHER_TABLE,
        )


def _without_ids(type_: DataType) -> DataType:
    # With ids from the same start, types are equal if they have the same members.
    return number_members(type_, 0)[0]


def set_nullability(schema: TableSchema, path: Path, nullable: bool) -> TableSchema:
    """Return the schema with the column nullable or NOT NULL. A primary key column cannot become nullable."""
    if nullable and len(path) == 1:
        _refuse_keys(schema, path[0], schema.primary_keys, "made nullable")

    def change(old: DataType) -> DataType:
        _check_nullability(schema, path, old, nullable=nullable)
        return with_nullability(old, nullable)

    return replace(schema, fields=edit_type(schema.fields, path, change))


def describe_column(schema: TableSchema, path: Path, comment: str | None) -> TableSchema:
    """Return the schema with another comment for the column."""
    return replace(schema, fields=edit_field(schema.fields, path, lambda field: replace(field, description=comment)))


def set_default(schema: TableSchema, path: Path, default: str | None) -> TableSchema:
    """Return the schema with another default for the column. The default must be castable to the column's type."""

    def change(field: Field) -> Field:
        changed = replace(field, default=default)
        check_default(changed)
        return changed

    return replace(schema, fields=edit_field(schema.fields, path, change))


def _check_free(fields: tuple[Field, ...], path: Path) -> None:
    if any(field.name == path[-1] for field in fields):
        raise ConfigError(
            f"there is a column {'.'.join(path)!r} already",
            hint="choose another name, or drop or rename that column first",
        )


def _refuse_keys(schema: TableSchema, name: str, keys: Sequence[str], done: str) -> None:
    if name in keys:
        kind = "partition" if name in schema.partition_keys else "primary key"
        raise ConfigError(f"a {kind} column cannot be {done}", column=name, hint=_ANOTHER_TABLE)


def _check_nullability(schema: TableSchema, path: Path, old: DataType, *, nullable: bool) -> None:
    disabled = schema.typed[ALTER_COLUMN_NULL_TO_NOT_NULL_DISABLED]
    if disabled and old.nullable and not nullable:
        raise ConfigError(
            f"column {'.'.join(path)!r} is nullable and cannot become NOT NULL: rows that are already written may"
            " contain null",
            hint="set alter-column-null-to-not-null.disabled = false to allow it",
        )
