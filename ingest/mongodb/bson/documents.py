"""Documents as columns of text: nested documents and arrays as JSON, and values at a path."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.byte_buffers import Int64s
from penstock.errors import SourceError
from penstock.ingest.database.buffers import unsigned_at
from penstock.ingest.mongodb.bson.binaries import object_ids
from penstock.ingest.mongodb.bson.elements import Block, ElementSegment, check_places, segments
from penstock.ingest.mongodb.bson.text_columns import in_places, joined, repeated
from penstock.ingest.mongodb.bson.texts import MEMBERS, json_quoted, json_texts, plain_texts, quoted_texts
from penstock.ingest.mongodb.bson.value_types import ARRAY, DOCUMENT, NULL, OBJECT_ID, SCOPED_CODE, STRING

# The server refuses documents that are nested more deeply.
_DEEPEST = 200


def columns_and_keys(
    block: Block, at: Int64s, oddities: Counter[str], *, hex_ids: bool = True, only_keys: bool = False
) -> tuple[pa.Array, frozenset[int], dict[str, pa.Array]]:
    """Return the `_id` of each document as text, the types met among them, and a column for each other name.

    With `hex_ids` an ObjectId in `_id` is only its digits.
    """
    by_name: dict[bytes, list[ElementSegment]] = {}
    for segment in segments(block, at):
        by_name.setdefault(segment.name, []).append(segment)
    ids = by_name.pop(b"_id", [])
    keys = _keys(block, ids, len(at), oddities, hex_ids=hex_ids)
    columns = {
        name.decode("utf-8", "replace"): column_of(block, elements, len(at), oddities)
        for name, elements in ({} if only_keys else by_name).items()
    }
    return keys, frozenset(segment.kind for segment in ids), columns


def column_of(block: Block, elements: Sequence[ElementSegment], count: int, oddities: Counter[str]) -> pa.Array:
    """Return the values of these elements as a column of `count` texts, null where no element is."""
    pieces, places = [], []
    for kind, lanes, start, length in _by_kind(elements):
        if kind == NULL:
            continue
        if kind in _NESTED:
            pieces.append(_nested(block, kind, start, length, oddities))
        else:
            pieces.append(plain_texts(block, kind, start, length, oddities))
        places.append(lanes)
    return in_places(pieces, places, count)


def _keys(
    block: Block, elements: Sequence[ElementSegment], count: int, oddities: Counter[str], *, hex_ids: bool
) -> pa.Array:
    pieces, places = [], []
    for kind, lanes, start, length in _by_kind(elements):
        if kind == OBJECT_ID and hex_ids:
            pieces.append(object_ids(block.data, start))
        elif kind == NULL:
            pieces.append(repeated("null", len(start)))
        elif kind in _NESTED:
            pieces.append(_nested(block, kind, start, length, oddities))
        else:
            pieces.append(plain_texts(block, kind, start, length, oddities))
        places.append(lanes)
    return in_places(pieces, places, count)


def at_path(block: Block, at: Int64s, path: Sequence[str], oddities: Counter[str], *, hex_ids: bool = True) -> pa.Array:
    """Return the value at a path of names, and of numbers in arrays, for each document, otherwise null.

    The last name may name a value in extended JSON, as `$date`.
    """
    if tuple(path) == ("_id",):
        return columns_and_keys(block, at, oddities, hex_ids=hex_ids, only_keys=True)[0]
    lanes, places = np.arange(len(at), dtype=np.int64), np.asarray(at, np.int64)
    named: list[ElementSegment] = []
    pieces, owners = [], []
    for depth, name in enumerate(path):
        named = [segment for segment in segments(block, places) if segment.name == name.encode()]
        if depth == len(path) - 2:
            for kind, within, start, _ in _by_kind(named):
                if (member := MEMBERS.get((kind, path[-1]))) is not None:
                    pieces.append(member(block.data, start))
                    owners.append(lanes[within])
        if depth < len(path) - 1:
            inner = [segment for segment in named if segment.kind in {DOCUMENT, ARRAY}]
            chosen = np.concatenate([segment.lanes for segment in inner]) if inner else np.empty(0, np.int64)
            order = np.argsort(chosen, kind="stable")
            places = np.concatenate([segment.start for segment in inner])[order] if inner else np.empty(0, np.int64)
            lanes = lanes[chosen[order]]
    pieces.append(column_of(block, named, len(places), oddities))
    return in_places(pieces, [*owners, lanes], len(at))


def _by_kind(elements: Iterable[ElementSegment]) -> Iterable[tuple[int, Int64s, Int64s, Int64s]]:
    """Yield type, lanes, positions and lengths of the elements of each type, in the order of lanes."""
    by_kind: dict[int, list[ElementSegment]] = {}
    for segment in elements:
        by_kind.setdefault(segment.kind, []).append(segment)
    for kind, group in by_kind.items():
        if len(group) == 1:
            yield kind, group[0].lanes, group[0].start, group[0].length
            continue
        lanes = np.concatenate([segment.lanes for segment in group])
        order = np.argsort(lanes, kind="stable")
        start, length = _concatenated(group)
        yield kind, lanes[order], start[order], length[order]


def _concatenated(elements: Sequence[ElementSegment]) -> tuple[Int64s, Int64s]:
    """Return positions and lengths of the elements, segment by segment."""
    return np.concatenate([segment.start for segment in elements]), np.concatenate(
        [segment.length for segment in elements]
    )


def _nested(block: Block, kind: int, start: Int64s, length: Int64s, oddities: Counter[str], depth: int = 0) -> pa.Array:
    """Return documents, arrays or code with a scope as JSON."""
    if depth > _DEEPEST:
        raise SourceError(
            "a document is nested too deeply",
            depth=depth,
            hint="find it with a filter on its deepest member and flatten it, or exclude its collection",
        )
    if kind == SCOPED_CODE:
        size = unsigned_at(block.data, start + 4, 4)
        # The code has a zero byte at its end, and the scope is a document.
        check_places((size > 0) & (13 + size <= length), start)
        code = quoted_texts(plain_texts(block, STRING, start + 4, size + 4, oddities))
        scope = start + 8 + size
        scope_length = unsigned_at(block.data, scope, 4)
        check_places(8 + size + scope_length == length, start)
        inner = _nested(block, DOCUMENT, scope, scope_length, oddities, depth + 1)
        return joined('{"$code":', code, ',"$scope":', inner, "}")
    members = segments(block, start)
    count = len(start)
    if not members:
        return repeated("{}" if kind == DOCUMENT else "[]", count)
    if len(members) == members[-1].step + 1 and all(len(segment.lanes) == count for segment in members):
        return _alike(block, kind, members, oddities, depth)
    values = _values(block, members, oddities, depth)
    if kind == DOCUMENT:
        names, numbers = np.unique(np.array([segment.name for segment in members], object), return_inverse=True)
        prefixes = pa.array([f"{json_quoted(name.decode('utf-8', 'replace'))}:" for name in names], pa.string())
        name_numbers = np.repeat(numbers, [len(segment.lanes) for segment in members])
        values = joined(prefixes.take(pa.array(name_numbers)), values)
    lanes = np.concatenate([segment.lanes for segment in members])
    # Segments are in the order of their steps, and the sort is stable: the members of a document stay in order.
    ordered = values.take(pa.array(np.argsort(lanes, kind="stable")))
    offsets = np.zeros(count + 1, np.int32)
    np.cumsum(np.bincount(lanes, minlength=count), out=offsets[1:])
    lists = pa.ListArray.from_arrays(pa.array(offsets), ordered)
    inside = pc.binary_join(lists, ",")
    return joined("{", inside, "}") if kind == DOCUMENT else joined("[", inside, "]")


def _alike(block: Block, kind: int, elements: Sequence[ElementSegment], oddities: Counter[str], depth: int) -> pa.Array:
    """Return nested documents that all have the same names and types, in the same order."""
    parts: list[pa.Array | str] = []
    for number, segment in enumerate(elements):
        name = f"{json_quoted(segment.name.decode('utf-8', 'replace'))}:" if kind == DOCUMENT else ""
        parts += [("," if number else "{" if kind == DOCUMENT else "[") + name, _json(block, segment, oddities, depth)]
    return joined(*parts, "}" if kind == DOCUMENT else "]")


def _values(block: Block, elements: Sequence[ElementSegment], oddities: Counter[str], depth: int) -> pa.Array:
    """Return the JSON of all elements, in the order of the segments."""
    begins = np.cumsum([0, *(len(segment.lanes) for segment in elements)])
    by_kind: dict[int, list[int]] = {}
    for number, segment in enumerate(elements):
        by_kind.setdefault(segment.kind, []).append(number)
    pieces, places = [], []
    for kind, numbers in by_kind.items():
        start, length = _concatenated([elements[number] for number in numbers])
        pieces.append(_json(block, ElementSegment(0, kind, b"", start, start, length), oddities, depth))
        places.append(np.concatenate([np.arange(begins[number], begins[number + 1]) for number in numbers]))
    return in_places(pieces, places, int(begins[-1]))


def _json(block: Block, segment: ElementSegment, oddities: Counter[str], depth: int) -> pa.Array:
    if segment.kind == NULL:
        return repeated("null", len(segment.start))
    if segment.kind in _NESTED:
        return _nested(block, segment.kind, segment.start, segment.length, oddities, depth + 1)
    made = json_texts(block, segment.kind, segment.start, segment.length, oddities)
    return made.fill_null("null") if made.null_count else made


_NESTED = frozenset({DOCUMENT, ARRAY, SCOPED_CODE})
