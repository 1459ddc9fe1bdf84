"""Columns of texts with few different values, read as indices into the dictionaries of the file.

A Parquet file stores such a column as a dictionary and the index of each value in it. To read the indices costs half as
much as to read the texts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from penstock.table.values.types import AtomicType, Field

_TEXTS = frozenset({"CHAR", "VARCHAR", "BINARY", "VARBINARY"})
# Bytes of a column per value, with its dictionary. A text that is written out has a length of four bytes, so below four
# bytes per value nearly all values are in a dictionary. With more values in it, making the dictionary costs as much as
# it saves.
_MOST_BYTES = 2.5


def texts_of_few_values(metadata: Any, fields: Sequence[Field], groups: Iterable[int]) -> list[str]:
    """Return the texts among the columns that have few different values and no null in these row groups.

    Nulls make the places as dear to read as the texts.
    """
    names = {field.name for field in fields if isinstance(field.type, AtomicType) and field.type.root in _TEXTS}
    if not names:
        return []
    paths = [metadata.schema.column(place).path for place in range(metadata.num_columns)]
    places = {path: place for place, path in enumerate(paths) if path in names}
    for number in groups:
        group = metadata.row_group(number)
        places = {path: place for path, place in places.items() if _has_few_values(group.column(place))}
        if not places:
            break
    return list(places)


def _has_few_values(column: Any) -> bool:
    if column.physical_type != "BYTE_ARRAY" or not column.has_dictionary_page or not column.is_stats_set:
        return False
    if column.total_uncompressed_size > _MOST_BYTES * column.num_values:
        return False
    statistics = column.statistics
    return bool(statistics.has_null_count and statistics.null_count == 0)
