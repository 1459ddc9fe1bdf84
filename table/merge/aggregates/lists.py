"""listagg, collect, merge_map and nested_update: functions whose result consists of elements of the rows of a key."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.table.merge.aggregates.function import Inputs
from penstock.table.merge.aggregates.list_elements import ListElements, firsts_of_equal, lasts_of_equal, offsets_of
from penstock.table.merge.engine_rows import combined, identities, valid_rows
from penstock.table.values.buffers import Flags, Ints
from penstock.table.values.types import ArrayType, DataType, MapType, RowType


def listagg(inputs: Inputs) -> pa.Array:
    """Return the texts of each key joined; empty texts count. (Java 1.3.1 has the option `distinct` but ignores it.)"""
    order = inputs.in_merge_order()
    counted = inputs.valid_adds()
    chosen = order[counted[order]]
    texts = inputs.values().take(pa.array(chosen))
    # The order goes key by key, so the texts of a key are adjacent, and lists of them need only offsets.
    counts = np.add.reduceat(counted, inputs.work.starts, dtype=np.int64)
    lists = pa.ListArray.from_arrays(pa.array(offsets_of(counts), pa.int32()), texts, mask=pa.array(counts == 0))
    return pc.binary_join(lists, inputs.aggregate.delimiter)


def collect(inputs: Inputs) -> pa.Array:
    """Return the array of all elements of each key's rows, without duplicates if the option `distinct` is set.

    Elements are in order of arrival. With `ignore-retract`, those of a late row precede the others, as in Java.
    """
    order = inputs.in_merge_order() if inputs.aggregate.ignore_retract else np.arange(inputs.work.size)
    elements = ListElements.of(inputs, order)
    distinct = inputs.aggregate.distinct
    retracted = inputs.any_of(elements.retracting)
    ids = identities(elements.items, _element_type(inputs.type)) if distinct or retracted.any() else None
    chosen = elements.bulk(retracted)
    if ids is not None and distinct:
        chosen = firsts_of_equal(chosen, elements.key, ids)
    # Keys without retracts are done in bulk above. A retract removes an element that is in the list at that moment, so
    # its key is processed row by row.
    made: dict[int, list[int] | None] = {}
    if ids is not None:
        made = {key: _collect_one(elements, key, ids, distinct=distinct) for key in np.flatnonzero(retracted).tolist()}
    return elements.lists(chosen, made)


def _collect_one(elements: ListElements, key: int, ids: Ints, *, distinct: bool) -> list[int] | None:
    result: list[int] | None = None
    for row, retracts in elements.events(key):
        brought = elements.of_row(row)
        if not retracts:
            result = [*(result or []), *brought]
            if distinct:
                # A dict keeps the last value of a key. Filled backwards, it keeps the first of equal elements.
                result = list({ids[e]: e for e in reversed(result)}.values())[::-1]
        elif result is not None:
            gone = [ids[e] for e in brought]
            result = [e for e in result if not _take_out(gone, ids[e])]
    return result


def _element_type(type_: DataType) -> DataType:
    if isinstance(type_, ArrayType):
        return type_.element
    raise TypeError(f"{type_} has no elements")


def _map_key_type(type_: DataType) -> DataType:
    if isinstance(type_, MapType):
        return type_.key
    raise TypeError(f"{type_} has no keys")


def _take_out(gone: list[int], id_: int) -> bool:
    if id_ in gone:
        gone.remove(id_)
        return True
    return False


def merge_map(inputs: Inputs) -> pa.Array:
    """Return the union of each key's maps. Later entries replace earlier entries of the same map key."""
    elements = ListElements.of(inputs, inputs.in_merge_order())
    retracted = inputs.any_of(elements.retracting)
    ids = identities(elements.items.field(0), _map_key_type(inputs.type))
    chosen = lasts_of_equal(elements.bulk(retracted), elements.key, ids)
    made = {key: _merge_map_one(elements, key, ids) for key in np.flatnonzero(retracted).tolist()}
    return elements.lists(chosen, made)


def _merge_map_one(elements: ListElements, key: int, ids: Ints) -> list[int] | None:
    result: dict[int, int] | None = None
    for row, retracts in elements.events(key):
        brought = {int(ids[e]): e for e in elements.of_row(row)}
        if not retracts:
            result = {**brought, **(result or {})} if elements.late[row] else {**(result or {}), **brought}
        elif result is not None:
            result = {id_: e for id_, e in result.items() if id_ not in brought}
    return None if result is None else list(result.values())


def nested_update(inputs: Inputs) -> pa.Array:
    """Return the nested table of each key: rows are appended, or replaced by their nested key.

    A single array is kept as it is.
    """
    elements = ListElements.of(inputs, inputs.in_merge_order())
    aggregate = inputs.aggregate
    retracted = inputs.any_of(elements.retracting)
    # Which elements a count limit cuts off depends on the order of arrival, so such columns are always processed row by
    # row.
    slow = inputs.any_of(elements.adding) if aggregate.count_limit is not None else retracted
    present = valid_rows(elements.items)
    ids = _nested_ids(elements.items, _element_type(inputs.type), aggregate.nested_key)
    chosen = elements.bulk(slow)
    several = np.add.reduceat(elements.adding, inputs.work.starts, dtype=np.int64) > 1
    # Java stores the only array of a key as it is, with null elements and duplicates. Merging drops the null
    # elements.
    alone = chosen[~several[elements.key[chosen]]]
    merged = chosen[several[elements.key[chosen]] & present[chosen]]
    if aggregate.nested_key:
        merged = lasts_of_equal(merged, elements.key, ids)
    made = {
        key: _nested_one(elements, key, ids, present, aggregate.count_limit, keyed=bool(aggregate.nested_key))
        for key in np.flatnonzero(slow).tolist()
    }
    return elements.lists(np.concatenate([alone, merged]), made)


def _nested_ids(items: pa.Array, row: DataType, nested_key: tuple[str, ...]) -> Ints:
    """Return ids of the nested rows by their nested key, or by all their members."""
    members = row.fields if isinstance(row, RowType) else ()
    keyed = [member for member in members if not nested_key or member.name in nested_key]
    return combined([identities(items.field(member.name), member.type) for member in keyed], len(items))


def _nested_one(
    elements: ListElements, key: int, ids: Ints, present: Flags, limit: int | None, *, keyed: bool
) -> list[int] | None:
    result: list[int] | None = None
    for row, retracts in elements.events(key):
        brought = elements.of_row(row)
        if retracts:
            if result is not None:
                gone = {ids[e] for e in brought if present[e]}
                result = [e for e in result if present[e] and ids[e] not in gone]
        elif result is None:
            result = brought
        else:
            first, second = (brought, result) if elements.late[row] else (result, brought)
            result = _nested_union(first, second, ids, present, limit, keyed=keyed)
    return result


def _nested_union(
    first: list[int], second: list[int], ids: Ints, present: Flags, limit: int | None, *, keyed: bool
) -> list[int]:
    room = len(second) if limit is None else limit - len(first)
    if room <= 0 and limit is not None:
        return first
    union = [e for e in first if present[e]] + [e for e in second if present[e]][:room]
    return list({int(ids[e]): e for e in union}.values()) if keyed else union
