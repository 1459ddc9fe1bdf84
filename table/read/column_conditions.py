"""Conditions on single columns that follow from a filter: Arrow proves them by the filter between its literals."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import fs

from penstock.table.files.conditions import ColumnCondition
from penstock.table.values.arrow_types import to_arrow
from penstock.table.values.types import AtomicType, Field

_CANDIDATES = 64
_BITS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}


def required_values(field: Field, schema: pa.Schema, where: pc.Expression) -> Sequence[object] | None:
    """Return the few values the column must have for `where` to be true, or None.

    None when `where` allows other values. Candidates are the literals in the expression's text. Arrow then proves that
    no other value satisfies the expression, by evaluating it on the gaps between the candidates.
    """
    candidates, open_gaps = _candidates(field, schema, where)
    return candidates if candidates and not open_gaps else None


def column_conditions(fields: Sequence[Field], schema: pa.Schema, where: pc.Expression) -> list[ColumnCondition]:
    """Return conditions on single columns that hold for every row for which `where` is true.

    They are the values a column must have, or its least and its greatest value, as far as Arrow can prove them.
    """
    found = []
    for field in fields:
        candidates, open_gaps = _candidates(field, schema, where)
        if not candidates or _NULL in open_gaps:
            continue
        if not open_gaps:
            found.append(ColumnCondition(field.name, "in", tuple(candidates)))
            continue
        if _BELOW not in open_gaps:
            found.append(ColumnCondition(field.name, ">=", (candidates[0],)))
        if _ABOVE not in open_gaps:
            found.append(ColumnCondition(field.name, "<=", (candidates[-1],)))
    return found


# The first three gaps; those between neighbouring candidates follow.
_NULL, _BELOW, _ABOVE = range(3)


def _candidates(field: Field, schema: pa.Schema, where: pc.Expression) -> tuple[Sequence[Any], set[int]]:
    """Return the literals that a column may be compared with, and the gaps around them that `where` allows.

    Nothing when nothing can be proven.
    """
    import pyarrow.dataset as ds

    candidates = _literals(field, str(where))
    if not candidates or len(candidates) > _CANDIDATES:
        return (), set()
    column = pc.field(field.name)
    scalars = [pa.scalar(value, to_arrow(field.type)) for value in candidates]
    # Every value that is not a candidate is in one of these gaps, null included.
    gaps = [column.is_null(), column < scalars[0], column > scalars[-1]]
    gaps += [(column > low) & (column < high) for low, high in itertools.pairwise(scalars)]
    form = ds.ParquetFileFormat()
    files = fs.LocalFileSystem()
    fragments = [form.make_fragment(str(i), filesystem=files, partition_expression=gap) for i, gap in enumerate(gaps)]
    try:
        allowed = ds.FileSystemDataset(fragments, schema, form, files).get_fragments(where)
        return candidates, {int(fragment.path) for fragment in allowed}
    except pa.ArrowException:  # the filter compares values Arrow cannot order, so nothing is proven
        return (), set()


def _literals(field: Field, text: str) -> Sequence[object]:
    if field.name not in text or not isinstance(field.type, AtomicType):
        return []
    match field.type.root:
        case "TINYINT" | "SMALLINT" | "INT" | "BIGINT":
            numbers = {int(number) for number in re.findall(r"(?<![\w.])-?\d+(?![\w.])", text)}
            # Numbers that other columns are compared with may be greater than this type allows.
            most = 1 << (_BITS[field.type.root] - 1)
            return sorted(number for number in numbers if -most <= number < most)
        case "CHAR" | "VARCHAR":
            return sorted({found for quoted in _QUOTED.findall(text) if (found := _unescaped(quoted)) is not None})
    return []


_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"')


def _unescaped(quoted: str) -> str | None:
    try:
        return str(json.loads(quoted, strict=False))
    except ValueError:  # an escape only Arrow knows: without this candidate the proof fails, and nothing is pruned
        return None
