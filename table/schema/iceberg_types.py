"""The changes of a column's type after which readers of Iceberg still understand older files."""

from __future__ import annotations

from penstock.table.schema.table_schema import TableSchema
from penstock.table.values.types import ArrayType, AtomicType, DataType, MapType, RowType

# Each type may become a later one of its group: readers widen the values of older files.
_WIDENED = (("TINYINT", "SMALLINT", "INT", "BIGINT"), ("FLOAT", "DOUBLE"))


def iceberg_follows(old: DataType, new: DataType) -> bool:
    """Return whether Iceberg reads files with a column of the type `old` as the type `new`."""
    match old, new:
        case AtomicType(), AtomicType():
            return _follows(old, new)
        case ArrayType(before), ArrayType(after):
            return iceberg_follows(before, after)
        case MapType(), MapType():
            return iceberg_follows(old.key, new.key) and iceberg_follows(old.value, new.value)
        case RowType(before_), RowType(after_):
            members = {member.id: member.type for member in before_}
            return all(iceberg_follows(members[member.id], member.type) for member in after_ if member.id in members)
    return False


def unfollowed(old: TableSchema, new: TableSchema) -> list[str]:
    """Return the columns of `new` that Iceberg cannot read from files with the schema `old`."""
    types = {column.id: column.type for column in old.fields}
    return [
        field.name for field in new.fields if field.id in types and not iceberg_follows(types[field.id], field.type)
    ]


def _follows(old: AtomicType, new: AtomicType) -> bool:
    if old.root == new.root:
        if old.root == "DECIMAL":
            return old.scale == new.scale and old.precision <= new.precision
        # A shorter text would be cut by the table's own readers, and not by Iceberg's.
        return old.length <= new.length and old.precision == new.precision
    for group in _WIDENED:
        if old.root in group and new.root in group:
            return group.index(old.root) < group.index(new.root)
    return False
