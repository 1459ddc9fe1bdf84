"""Values written under an older type as the values of a newer one: members by field id, the rest by cast (2.4, 2.5)."""

from __future__ import annotations

import pyarrow as pa

from penstock.errors import SchemaConflict
from penstock.table.files.relayout import nested
from penstock.table.values.arrow_types import to_arrow
from penstock.table.values.types import (
    ArrayType,
    DataType,
    MapType,
    MultisetType,
    RowType,
    type_json,
    with_nullability,
)


def same_type(old: DataType, new: DataType) -> bool:
    """Whether values need no change, nullability of the whole aside."""
    return with_nullability(old, nullable=True) == with_nullability(new, nullable=True)


def evolve(array: pa.Array, old: DataType, new: DataType) -> pa.Array:
    if same_type(old, new):
        return array
    match old, new:
        case ArrayType(), ArrayType():
            return nested(array, to_arrow(new), evolve(array.values, old.element, new.element))
        case MapType(), MapType():
            return _evolve_map(array, new, (old.key, old.value), (new.key, new.value))
        case MultisetType(), MultisetType():
            return _evolve_map(array, new, (old.element, None), (new.element, None))
        case RowType(), RowType():
            return _evolve_row(array, old, new)
    raise SchemaConflict(f"values of type {type_json(old)} cannot be read as {type_json(new)}")


def _evolve_map(
    array: pa.MapArray,
    type_: DataType,
    old: tuple[DataType, DataType | None],
    new: tuple[DataType, DataType | None],
) -> pa.Array:
    target = to_arrow(type_)
    keys = evolve(array.keys, old[0], new[0])
    values = array.items if old[1] is None or new[1] is None else evolve(array.items, old[1], new[1])
    entries = pa.StructArray.from_arrays([keys, values], fields=[target.key_field, target.item_field])
    return nested(array, target, entries)


def _evolve_row(array: pa.StructArray, old: RowType, new: RowType) -> pa.Array:
    places = {member.id: place for place, member in enumerate(old.fields)}
    target = to_arrow(new)
    members = []
    for member in new.fields:
        place = places.get(member.id)
        if place is None:
            members.append(pa.nulls(len(array), to_arrow(member.type)))
        else:
            members.append(evolve(array.field(place), old.fields[place].type, member.type))
    fields = [target.field(place) for place in range(target.num_fields)]
    return pa.StructArray.from_arrays(members, fields=fields, mask=array.is_null() if array.null_count else None)
