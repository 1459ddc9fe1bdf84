"""Documents of one collection as rows: a column per name, or the columns that the user specified."""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from penstock.byte_buffers import Int64s
from penstock.formats.change import SourceField, SourceSchema
from penstock.ingest.mongodb.bson.documents import at_path, columns_and_keys
from penstock.ingest.mongodb.bson.elements import Block
from penstock.ingest.mongodb.bson.value_types import STRING
from penstock.ingest.mongodb.server.collections import TableName

log = logging.getLogger(__name__)

KEY = "_id"
Path = tuple[str, ...]
_MIXED = "two identifiers of different types may be the same text, and then one row overwrites the other"


@dataclass(frozen=True, slots=True)
class ColumnChoice:
    """How documents become columns. `fields` are names with their paths; without any, all names become columns.

    With `hex_ids` an ObjectId in `_id` is only its 24 digits.
    """

    hex_ids: bool = True
    fields: tuple[tuple[str, Path], ...] = ()


@dataclass(slots=True)
class DocumentRows:
    """Makes rows of documents, and remembers which types of `_id` each collection has."""

    choice: ColumnChoice
    oddities: Counter[str]
    _kinds: dict[TableName, frozenset[int]] = field(default_factory=dict)
    _schemas: dict[tuple[TableName, tuple[str, ...]], SourceSchema] = field(default_factory=dict)

    def rows(self, block: Block, at: Int64s, table: TableName) -> pa.RecordBatch:
        """Return the documents at these positions as rows, with `_id` first."""
        if self.choice.fields:
            return self._specified(block, at, table)
        keys, kinds, columns = columns_and_keys(block, at, self.oddities, hex_ids=self.choice.hex_ids)
        self._note(table, kinds)
        return pa.RecordBatch.from_arrays([keys, *columns.values()], names=[KEY, *columns])

    def keys(self, block: Block, at: Int64s, table: TableName) -> pa.Array:
        """Return only the `_id` of the documents at these positions."""
        keys, kinds, _ = columns_and_keys(block, at, self.oddities, hex_ids=self.choice.hex_ids, only_keys=True)
        self._note(table, kinds)
        return keys

    def schema(self, table: TableName, names: list[str]) -> SourceSchema:
        """Return the schema of rows with these columns, which are all texts.

        Other documents may have other columns, unless the user specified them.
        """
        found = self._schemas.get((table, tuple(names)))
        if found is None:
            fields = tuple(SourceField(name) for name in names)
            found = self._schemas[table, tuple(names)] = SourceSchema(
                "text", *table, fields, (KEY,), is_partial=not self.choice.fields
            )
        return found

    def _specified(self, block: Block, at: Int64s, table: TableName) -> pa.RecordBatch:
        arrays = [self.keys(block, at, table)]
        names = [KEY]
        for name, path in self.choice.fields:
            if name != KEY:
                arrays.append(at_path(block, at, path, self.oddities, hex_ids=self.choice.hex_ids))
                names.append(name)
        return pa.RecordBatch.from_arrays(arrays, names=names)

    def _note(self, table: TableName, kinds: frozenset[int]) -> None:
        before = self._kinds.get(table, frozenset())
        now = before | kinds
        if STRING in now and len(now) > 1 and now != before:
            log.warning("event=mixed_key_types collection=%s.%s note=%s", *table, _MIXED)
        self._kinds[table] = now


def with_keys(rows: pa.RecordBatch, keys: pa.Array, order: Int64s) -> pa.RecordBatch:
    """Return the rows, and further ones that have only a key, in this order."""
    if not len(keys):
        return rows if np.array_equal(order, np.arange(len(order))) else rows.take(pa.array(order))
    index = pa.array(order)
    arrays = [pa.concat_arrays([rows.column(0), keys]).take(index)]
    missing = pa.nulls(len(keys), pa.string())
    arrays += [pa.concat_arrays([column, missing]).take(index) for column in rows.columns[1:]]
    return pa.RecordBatch.from_arrays(arrays, names=rows.schema.names)
