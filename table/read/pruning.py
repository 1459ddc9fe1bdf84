"""Which files, partitions and buckets a filter can be true for, decided from their statistics.

Arrow simplifies an expression under what is known of a fragment; a fragment here stands for a file, a partition or a
bucket, and is never opened.
"""

from __future__ import annotations

import functools
import itertools
import json
import operator
import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import fs

from penstock.table.values.arrow_types import to_arrow
from penstock.table.values.types import AtomicType, Field

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of one column somewhere, in internal values. `nulls`: None when it is not known whether any."""

    field: Field
    least: object
    greatest: object
    nulls: int | None
    rows: int


def possible(items: Sequence[T], facts: Sequence[Sequence[Known]], schema: pa.Schema, where: pc.Expression) -> list[T]:
    """The items for which `where` may hold for some row; `facts` stands parallel to `items`."""
    import pyarrow.dataset as ds  # it imports pandas, which takes as long as a small scan

    text = str(where)
    form = ds.ParquetFileFormat()
    files = fs.LocalFileSystem()
    fragments = []
    for place, known in enumerate(facts):
        guarantees = [guarantee for fact in known if fact.field.name in text for guarantee in _guarantees(fact)]
        if guarantees:
            guarantee = functools.reduce(operator.and_, guarantees)
            fragments.append(form.make_fragment(str(place), filesystem=files, partition_expression=guarantee))
        else:
            fragments.append(form.make_fragment(str(place), filesystem=files))
    dataset = ds.FileSystemDataset(fragments, schema, form, files)
    try:
        return [items[int(fragment.path)] for fragment in dataset.get_fragments(where)]
    except pa.ArrowException:  # what has no order with the column: nothing is ruled out
        return list(items)


def _guarantees(known: Known) -> list[pc.Expression]:
    column = pc.field(known.field.name)
    if known.nulls is not None and known.nulls == known.rows:
        return [column.is_null()]
    if known.least is None or known.greatest is None or not isinstance(known.field.type, AtomicType):
        return [column.is_valid()] if known.nulls == 0 else []
    least, greatest = (arrow_scalar(value, known.field.type) for value in (known.least, known.greatest))
    bounds = [column >= least, column <= greatest]
    # Arrow understands a bound with nulls only when each comparison carries its own way out.
    return bounds if known.nulls == 0 else [bound | column.is_null() for bound in bounds]


def arrow_scalar(value: object, type_: AtomicType) -> pa.Scalar:
    """An internal value as the Arrow scalar that a filter compares with."""
    target = to_arrow(type_)
    if value is None:
        return pa.scalar(None, target)
    match type_.root:
        case "DATE" | "TIME":
            return pa.scalar(value, pa.int32()).cast(target)
        case "TIMESTAMP" | "TIMESTAMP_LTZ":
            per_unit = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1000, "ns": 1}[target.unit]
            return pa.scalar(int(str(value)) // per_unit, pa.int64()).cast(target)
        case "DECIMAL":
            return pa.scalar(Decimal(str(value)), target)
    return pa.scalar(value, target)


_CANDIDATES = 64


def required_values(field: Field, schema: pa.Schema, where: pc.Expression) -> Sequence[object] | None:
    """The values one column must have for `where` to hold, when it names a few; None when it leaves the column open.

    Candidates are read off the expression's text; that no other value can satisfy it is then proven by Arrow on the
    gaps between them.
    """
    import pyarrow.dataset as ds

    candidates = _literals(field, str(where))
    if not candidates or len(candidates) > _CANDIDATES:
        return None
    column = pc.field(field.name)
    scalars = [pa.scalar(value, to_arrow(field.type)) for value in candidates]
    gaps = [column.is_null(), column < scalars[0], column > scalars[-1]]
    gaps += [(column > low) & (column < high) for low, high in itertools.pairwise(scalars)]
    form = ds.ParquetFileFormat()
    files = fs.LocalFileSystem()
    fragments = [form.make_fragment(str(i), filesystem=files, partition_expression=gap) for i, gap in enumerate(gaps)]
    try:
        if any(True for _ in ds.FileSystemDataset(fragments, schema, form, files).get_fragments(where)):
            return None
    except pa.ArrowException:  # it compares the column with what has no order with it: nothing is proven
        return None
    return candidates


def _literals(field: Field, text: str) -> Sequence[object]:
    if field.name not in text or not isinstance(field.type, AtomicType):
        return []
    match field.type.root:
        case "TINYINT" | "SMALLINT" | "INT" | "BIGINT":
            return sorted({int(number) for number in re.findall(r"(?<![\w.])-?\d+(?![\w.])", text)})
        case "CHAR" | "VARCHAR":
            return sorted({found for quoted in _QUOTED.findall(text) if (found := _unescaped(quoted)) is not None})
    return []


_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"')


def _unescaped(quoted: str) -> str | None:
    try:
        return str(json.loads(quoted, strict=False))
    except ValueError:  # an escape that only Arrow knows: the proof will then fail, and nothing is pruned
        return None
