"""Sorting of rows across files (plain, z-order or Hilbert) in bounded memory.

Rows that fit are sorted in memory. Otherwise sorted chunks are written to local disk, and read back range by range of
the first eight bytes of the rows' codes.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import ConfigError
from penstock.table.options.compaction import ZORDER_VAR_LENGTH_CONTRIBUTION
from penstock.table.schema.table_schema import TableSchema
from penstock.table.values.buffers import Bytes, Words
from penstock.table.values.curves import WORD, code_order, hilbert_codes, leading_words, value_codes, z_codes
from penstock.table.values.types import AtomicType, Field

STRATEGIES = ("order", "zorder", "hilbert")
SAMPLES = 1024  # samples of each chunk
BATCH_ROWS = 65_536
_CODE = "_code"


@dataclass(frozen=True, slots=True)
class RowOrder:
    """The columns to sort by, the strategy, and how many bytes of a text the curves use."""

    strategy: str
    fields: tuple[Field, ...]
    text_width: int = WORD

    @classmethod
    def of(cls, schema: TableSchema, strategy: str, columns: Sequence[str]) -> RowOrder:
        """Return the order. ConfigError for columns that do not exist or cannot be ordered."""
        wanted = {"z-order": "zorder"}.get(strategy.strip().lower(), strategy.strip().lower())
        if wanted not in STRATEGIES:
            raise ConfigError(f"rows cannot be ordered by {strategy!r}", hint=f"choose {', '.join(STRATEGIES)}")
        known = {field.name: field for field in schema.fields}
        missing = [name for name in columns if name not in known]
        if missing or not columns:
            message = f"the table has no column {missing[0]!r}" if missing else "no columns to order the rows by"
            raise ConfigError(message, hint=f"set order_by (--order-by) to columns: {','.join(list(known)[:2])}")
        fields = tuple(known[name] for name in columns)
        nested = [
            field.name for field in fields if not isinstance(field.type, AtomicType) or field.type.root == "VARIANT"
        ]
        if nested:
            raise ConfigError(
                f"rows cannot be ordered by {nested[0]!r}: the column has nested values",
                hint="order by columns of atomic types",
            )
        if wanted == "hilbert" and len(fields) < 2:
            raise ConfigError(
                "Hilbert sort needs at least two columns", hint="use the strategy order or zorder for one column"
            )
        width = schema.typed[ZORDER_VAR_LENGTH_CONTRIBUTION]
        return cls(wanted, fields, width)

    def sorted(self, rows: pa.Table) -> tuple[pa.Table, Words]:
        """Return the sorted rows, and the first eight bytes of each row's code as an integer; these never decrease."""
        columns = [rows.column(field.name).combine_chunks() for field in self.fields]
        codes = [
            value_codes(column, field.type, self.text_width) for column, field in zip(columns, self.fields, strict=True)
        ]
        if self.strategy == "order":
            keys = {str(number): key for number, key in enumerate(map(_key, columns, codes))}
            by = [(name, "ascending", "at_start") for name in keys]
            order = pc.sort_indices(pa.table(keys), sort_keys=by)
            words = leading_words(codes[0])[order.to_numpy()]
        else:
            curve = z_codes(codes) if self.strategy == "zorder" else hilbert_codes(codes)
            places = code_order(curve)
            order, words = pa.array(places), leading_words(curve)[places]
        return rows.take(order), words


def _key(column: pa.Array, codes: Bytes) -> pa.Array:
    """Return a sort key. Floats are ordered by their codes, with NaN the greatest, as in Java."""
    return pa.array(leading_words(codes)) if pa.types.is_floating(column.type) else column


def ordered_rows(batches: Iterable[pa.RecordBatch], order: RowOrder, most_bytes: int) -> Iterator[pa.Table]:
    """Yield all rows of `batches` in order.

    Holds twice `most_bytes` in memory, more only if more rows share their first eight bytes.
    """
    held: list[pa.RecordBatch] = []
    size = 0
    with tempfile.TemporaryDirectory(prefix="penstock-sort-") as folder:
        spill = _Spill(Path(folder), order)
        for batch in batches:
            held.append(batch)
            size += batch.nbytes
            if size > most_bytes:
                spill.add(pa.Table.from_batches(held))
                held, size = [], 0
        if not spill.chunks:
            if held:
                yield order.sorted(pa.Table.from_batches(held))[0]
            return
        if held:
            spill.add(pa.Table.from_batches(held))
        held = []
        for rows in spill.ranges(most_bytes):
            yield order.sorted(rows)[0]


@dataclass(slots=True)
class _Spill:
    """Sorted chunks on local disk."""

    folder: Path
    order: RowOrder
    chunks: list[Path] = field(default_factory=list)
    size: int = 0
    _samples: list[Words] = field(default_factory=list)

    def add(self, rows: pa.Table) -> None:
        """Write a chunk of rows."""
        rows, words = self.order.sorted(rows)
        self.size += rows.nbytes
        self._samples.append(words[:: max(1, len(words) // SAMPLES)])
        path = self.folder / str(len(self.chunks))
        coded = rows.append_column(_CODE, pa.array(words))
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, coded.schema) as writer:
            writer.write_table(coded, max_chunksize=BATCH_ROWS)
        self.chunks.append(path)

    def ranges(self, most_bytes: int) -> Iterator[pa.Table]:
        """Yield the rows of ascending ranges of code prefixes; each range is complete but not sorted."""
        samples = np.sort(np.concatenate(self._samples))
        # One range more than the size requires, because bounds that are estimated from samples make ranges of
        # unequal size.
        count = -(-self.size // max(1, most_bytes)) + 1
        bounds = np.unique(samples[np.linspace(0, len(samples) - 1, count + 1).astype(np.int64)[1:-1]])
        opened = [pa.ipc.open_file(pa.memory_map(str(path))).read_all() for path in self.chunks]
        places = []
        for chunk in opened:
            words = chunk.column(_CODE).to_numpy()
            # All rows of a word are in the same range, and the rest of their code orders them within it.
            places.append([0, *np.searchsorted(words, bounds, side="left").tolist(), len(words)])
        for number in range(len(bounds) + 1):
            parts = [
                chunk.slice(at[number], at[number + 1] - at[number]) for chunk, at in zip(opened, places, strict=True)
            ]
            rows = pa.concat_tables(parts).drop_columns([_CODE])
            if len(rows):
                yield rows
