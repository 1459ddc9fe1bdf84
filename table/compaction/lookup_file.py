"""The format of lookup files: the rows of a data file as raw Arrow batches, and its sort keys, mapped into memory."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.table.values.buffers import Ints, Words, fixed_values, rows_at
from penstock.table.values.key_layout import ColumnLayout, KeyLayout, key_layout
from penstock.table.values.sort_keys import Keys, comparable_keys, sort_keys
from penstock.table.values.types import DataType, parse_atomic, type_text

# A file of another version is deleted when it is opened, and written again.
VERSION = 2
CHUNK_ROWS = 131_072
# Sort keys beyond this size would be far larger than the rows. They are not stored but computed at each lookup.
_WIDEST_KEYS = 256 << 20


@dataclass(frozen=True, slots=True)
class StoredFile:
    """The rows of a data file, in its order. `keys` is None if the sort keys are too large to store.

    `words` is for keys of many bytes: the eight bytes after the first `shared` bytes, which are equal in all keys.
    Searching them reads a quarter of the memory, and almost always finds the row.
    """

    batches: tuple[pa.RecordBatch, ...]
    starts: Ints  # the row number of the first row of each batch
    keys: Keys | None
    layout: KeyLayout
    key_names: tuple[str, ...]
    words: Words | None = None
    shared: int = 0

    def find(self, probes: Sequence[pa.Array]) -> tuple[Ints, Ints]:
        """Return which probes exist, and the row number of each. Fastest for probes in key order."""
        types: list[DataType] = [column.type for column in self.layout.columns]
        if self.keys is None:
            stored = [pa.chunked_array([batch.column(name) for batch in self.batches]) for name in self.key_names]
            keys, wanted = comparable_keys([stored, probes], types)
            which = np.arange(len(wanted))
        else:
            which = np.flatnonzero(_fits(probes, self.layout))
            chosen = [column.take(pa.array(which)) for column in probes] if len(which) < len(probes[0]) else probes
            keys, wanted = self.keys, sort_keys(chosen, types, layout=self.layout)
            if self.words is not None:
                places = self._by_words(keys, wanted, self.words)
                return which[places >= 0], places[places >= 0]
        places = _search(keys, wanted)
        return which[places >= 0], places[places >= 0]

    def _by_words(self, keys: Keys, wanted: Keys, words: Words) -> Ints:
        # Probes without the bytes that all keys share are not in the file. For the others, the next eight bytes are
        # searched as integers, and only where these are equal the whole key is read.
        ours = np.flatnonzero(_heads(wanted, self.shared) == _heads(keys[:1], self.shared))
        places = np.full(len(wanted), -1, np.int64)
        candidates = wanted if len(ours) == len(wanted) else wanted[ours]
        probes = _words(candidates, self.shared)
        at = np.searchsorted(words, probes)
        # A probe behind the last key is compared with the last key, which differs.
        near = np.minimum(at, len(keys) - 1)
        alike = np.flatnonzero(words[near] == probes)
        near = near[alike]
        hit = _same(keys.take(near), candidates if len(alike) == len(candidates) else candidates[alike])
        places[ours[alike]] = np.where(hit, near, -1)
        # If several keys share these bytes, the match may not be the first of them.
        tied = alike[~hit]
        if len(tied):
            places[ours[tied]] = _search(keys, candidates[tied])
        return places

    def rows(self, places: Ints, keys: Sequence[pa.Array] = ()) -> pa.Table:
        """Return the rows with these ascending numbers.

        `keys` are the probes that found these rows; their texts are reused and not read a second time.
        """
        schema, texts = self.batches[0].schema, self._texts(keys)
        fetched = [name for name in schema.names if name not in texts]
        # Where each batch ends in `places`, which ascend. The last batch has no successor and ends at the greatest
        # number.
        cuts = np.searchsorted(places, np.append(self.starts[1:], np.iinfo(np.int64).max))
        parts, begin = [], 0
        for batch, start, end in zip(self.batches, self.starts, cuts, strict=True):
            if end > begin:
                parts.append(rows_at(batch.select(fetched) if texts else batch, places[begin:end] - start))
            begin = int(end)
        if not texts:
            return pa.Table.from_batches(parts, schema)
        rest = pa.Table.from_batches(parts)
        return pa.table([texts[name] if name in texts else rest.column(name) for name in schema.names], schema=schema)

    def _texts(self, keys: Sequence[pa.Array]) -> dict[str, pa.Array]:
        """Return the key columns that can be reused: equal texts have equal bytes, equal numbers need not."""
        schema = self.batches[0].schema
        named = zip(self.key_names, keys, self.layout.columns, strict=True) if keys else ()
        return {name: key for name, key, part in named if part.is_text and key.type.equals(schema.field(name).type)}


def _search(keys: Keys, wanted: Keys) -> Ints:
    places = np.searchsorted(keys, wanted)
    found = places < len(keys)
    found[found] = keys[places[found]] == wanted[found]
    return np.where(found, places, -1)


def _same(keys: Keys, others: Keys) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Return which keys are equal.

    Comparing all at once first needs a tenth of the time, and nearly always succeeds.
    """
    if np.array_equal(_matrix(keys), _matrix(others)):
        return np.ones(len(keys), np.bool_)
    return np.asarray(keys == others)


def _heads(keys: Keys, width: int) -> np.ndarray[Any, Any]:
    """Return the first bytes of each key; equal values if `width` is 0."""
    if width == 0:
        return np.zeros(len(keys), "V1")
    return np.ascontiguousarray(_matrix(keys)[:, :width]).view(f"V{width}").ravel()


def _words(keys: Keys, start: int) -> Words:
    """Return eight bytes of each key as integers with the same order."""
    padded = np.zeros((len(keys), 8), np.uint8)
    part = _matrix(keys)[:, start : start + 8]
    padded[:, : part.shape[1]] = part
    # Read as big endian, the integers are in the order of the bytes.
    return padded.view(">u8").ravel().astype(np.uint64)


def _matrix(keys: Keys) -> np.ndarray[Any, np.dtype[np.uint8]]:
    return np.ascontiguousarray(keys).view(np.uint8).reshape(len(keys), keys.dtype.itemsize)


def _shared_width(keys: Keys) -> int:
    """Return how many first bytes all keys share: as many as the least and the greatest key."""
    if len(keys) == 0:
        return 0
    least, greatest = _matrix(keys[:1])[0], _matrix(keys[-1:])[0]
    other = np.flatnonzero(least != greatest)
    return int(other[0]) if len(other) else 0


def _fits(probes: Sequence[pa.Array], layout: KeyLayout) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Return which probes have text lengths that exist in the file; others cannot be encoded in its key layout."""
    fits = np.ones(len(probes[0]), np.bool_)
    for column, part in zip(probes, layout.columns, strict=True):
        if part.is_text:
            lengths = np.asarray(fixed_values(pc.binary_length(column), np.int32))
            fits &= lengths == part.width if part.uniform else lengths <= part.width
    return fits


def write_rows(path: Path, batches: Iterable[pa.RecordBatch]) -> None:
    """Write rows in chunks that are large enough for fast random reads."""
    held: list[pa.RecordBatch] = []
    with ExitStack() as stack:
        writer = None
        for batch in batches:
            writer = writer or stack.enter_context(pa.ipc.new_file(str(path), batch.schema))
            held.append(batch)
            if sum(batch.num_rows for batch in held) >= CHUNK_ROWS:
                writer.write_table(pa.Table.from_batches(held).combine_chunks())
                held.clear()
        if held and writer is not None:
            writer.write_table(pa.Table.from_batches(held).combine_chunks())


def map_rows(path: Path) -> tuple[pa.RecordBatch, ...]:
    """Return the rows of a lookup file, mapped into memory: pages are read when they are needed."""
    with pa.memory_map(str(path)) as source:
        file = pa.ipc.open_file(source)
        return tuple(file.get_batch(number) for number in range(file.num_record_batches))


def write_keys(path: Path, batches: Sequence[pa.RecordBatch], names: Sequence[str], types: Sequence[DataType]) -> None:
    """Write a line of JSON, then the sort keys in their memory layout."""
    columns = [pa.chunked_array([batch.column(name) for batch in batches]) for name in names]
    layout = key_layout(columns, types)
    rows = len(columns[0])
    keys = None if layout.size * rows > _WIDEST_KEYS else sort_keys(columns, types, layout=layout)
    head: dict[str, object] = {"version": VERSION, "names": list(names), "rows": rows}
    head["dtype"] = None if keys is None else keys.dtype.str
    head["layout"] = [
        {"type": type_text(column.type), "width": column.width, "uniform": column.uniform, "nullable": column.nullable}
        for column in layout.columns
    ]
    long = keys is not None and keys.dtype.kind == "S" and keys.dtype.itemsize > 8 and len(keys) > 0
    head["shared"] = _shared_width(keys) if keys is not None and long else None
    line = json.dumps(head).encode()
    with path.open("wb") as file:
        # Padded so that the integers after it are aligned.
        file.write(line + b" " * (-(len(line) + 1) % 64) + b"\n")
        if keys is not None and long:
            _words(keys, _shared_width(keys)).tofile(file)
        if keys is not None:
            np.ascontiguousarray(keys).tofile(file)


def map_file(data: Path, key_file: Path) -> StoredFile:
    """Return a lookup file, with its rows and its sorted keys mapped into memory."""
    batches = map_rows(data)
    with key_file.open("rb") as file:
        line = file.readline()
    head = json.loads(line)
    if head["version"] != VERSION:
        raise ValueError(f"a lookup file of version {head['version']}")
    # Probes are encoded in the layout of the stored keys, or their bytes could not be compared.
    columns = [
        ColumnLayout(
            parse_atomic(node["type"]),
            descending=False,
            nullable=node["nullable"],
            width=node["width"],
            uniform=node["uniform"],
        )
        for node in head["layout"]
    ]
    keys: Keys | None = None
    words: Words | None = None
    if head["dtype"] is not None:
        begin = len(line)
        if head["shared"] is not None:
            words = np.memmap(key_file, np.uint64, "r", begin, (head["rows"],))
            begin += 8 * head["rows"]
        keys = np.memmap(key_file, head["dtype"], "r", begin, (head["rows"],))
    starts = np.append(0, np.cumsum([batch.num_rows for batch in batches]))[:-1]
    return StoredFile(
        batches, starts, keys, KeyLayout(tuple(columns)), tuple(head["names"]), words, head["shared"] or 0
    )
