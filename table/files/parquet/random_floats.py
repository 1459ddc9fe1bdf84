"""Floats that a codec hardly makes smaller, such as measurements with all their digits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from penstock.table.files.columns import source_of
from penstock.table.files.encoding import Encoding
from penstock.table.values.buffers import fixed_values, one_array
from penstock.table.values.types import Field

# The codec saves a sixteenth of random doubles and a tenth of random floats: their exponents. With it, writing takes
# three to four times as long, and reading six to ten times. Of floats with few digits it saves half or more.
_WORTH_COMPRESSING = 0.89
_PAGE_ROWS, _FEW_ROWS = 16_384, 4_096


@dataclass(frozen=True, slots=True)
class RandomFloats:
    """The columns of a file whose floats are random in its first row group, and are not compressed."""

    encoding: Encoding
    fields: Sequence[Field] = ()

    @classmethod
    def among(cls, fields: Sequence[Field], encoding: Encoding, group: pa.Table) -> RandomFloats:
        """Return those of the columns whose floats are random in a row group."""
        if encoding.codec == "none" or encoding.packs_floats:
            return cls(encoding)
        packer = _packer(encoding)
        return cls(encoding, [field for field in fields if _is_random(packer, group.column(source_of(field)))])

    def are_random_in(self, rows: pa.Table) -> bool:
        """Return whether the columns are random in another row group, too, as far as a few of its rows show."""
        if not self.fields:
            return True
        packer, begin = _packer(self.encoding), max(len(rows) - _FEW_ROWS, 0) // 2
        few = rows.slice(begin, _FEW_ROWS)
        return not any(_is_worth_it(packer, few.column(source_of(field))) for field in self.fields)


def _packer(encoding: Encoding) -> pa.Codec:
    return pa.Codec(encoding.codec, encoding.zstd_level if encoding.codec == "zstd" else None)


def _is_random(packer: pa.Codec, column: pa.ChunkedArray) -> bool:
    if not pa.types.is_floating(column.type) or column.null_count == len(column):
        return False
    return not any(_is_worth_it(packer, part) for part in _parts(column))


def _parts(column: pa.ChunkedArray) -> Iterator[pa.ChunkedArray]:
    """Yield the first and the last rows, and as many between them as are in a page, which is compressed by itself.

    A whole page shows what repeats over long distances.
    """
    yield column.slice(0, _FEW_ROWS)
    yield column.slice(max(len(column) - _FEW_ROWS, 0))
    yield column.slice(max(len(column) - _PAGE_ROWS, 0) // 2, _PAGE_ROWS)


def _is_worth_it(packer: pa.Codec, column: pa.ChunkedArray) -> bool:
    values = fixed_values(one_array(column.drop_null(), column.type), f"f{column.type.bit_width // 8}")
    return len(packer.compress(values)) < _WORTH_COMPRESSING * values.nbytes
