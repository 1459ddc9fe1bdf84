"""Names of columns that differ only in the case of letters: documents of one collection may spell a name differently.

In a catalog with lower-case names they are one column. So rows are divided by the spellings that they have, and the
columns of a batch differ in more than case, except if one document has two of the spellings.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from penstock.formats.change import Bools, ChangeBatch, Int64s
from penstock.ingest.mongodb.rows import DocumentRows


def by_spelling(batch: ChangeBatch, documents: DocumentRows) -> list[ChangeBatch]:
    """Return the batch, or one batch for the rows of each spelling."""
    groups = _spellings(batch.rows.schema.names)
    if not groups:
        return [batch]
    columns = np.concatenate(groups)
    filled = np.stack([batch.rows.column(int(column)).is_valid().to_numpy(zero_copy_only=False) for column in columns])
    patterns, pattern_of = np.unique(filled, axis=1, return_inverse=True)
    return [
        _with_columns(batch.filter(pattern_of.reshape(-1) == number), _unused(groups, columns[pattern]), documents)
        for number, pattern in enumerate(patterns.T)
    ]


def _spellings(names: list[str]) -> list[Int64s]:
    """Return the places of names that differ only in case, grouped by name."""
    if len({name.lower() for name in names}) == len(names):
        return []
    places: dict[str, list[int]] = {}
    for place, name in enumerate(names):
        places.setdefault(name.lower(), []).append(place)
    return [np.array(group) for group in places.values() if len(group) > 1]


def _unused(groups: list[Int64s], filled: Int64s) -> set[int]:
    """Return the columns that rows with values in only these columns can do without. One of each name stays."""
    unused: set[int] = set()
    for group in groups:
        empty: Bools = ~np.isin(group, filled)
        empty[0] &= not empty.all()
        unused.update(group[empty].tolist())
    return unused


def _with_columns(batch: ChangeBatch, unused: set[int], documents: DocumentRows) -> ChangeBatch:
    rows = batch.rows.select([place for place in range(batch.rows.num_columns) if place not in unused])
    name = str(batch.schema.database), str(batch.schema.table)
    return replace(batch, rows=rows, schema=documents.schema(name, rows.schema.names))
