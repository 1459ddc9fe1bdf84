"""Columns from cells in either format. Values that are not of their type are an error with table and column."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.ingest.postgres.errors import UnexpectedMessage
from penstock.ingest.postgres.values.binary import binary_column
from penstock.ingest.postgres.values.text import text_column

if TYPE_CHECKING:
    from penstock.ingest.database.cells import Cells
    from penstock.ingest.postgres.relation import Column, Relation


def value_column(cells: Cells, relation: Relation, column: Column, oddities: Counter[str], *, binary: bool) -> pa.Array:
    """Return the column; UnexpectedMessage if a value is not of the column's type.

    Values that Arrow or Paimon cannot represent become null and are counted.
    """
    try:
        return (binary_column if binary else text_column)(cells, column.type, oddities)
    except (ValueError, ArithmeticError, LookupError) as reason:
        raise UnexpectedMessage(
            "the server sent a value that is not of its column's type",
            table=relation.qualified,
            column=column.name,
            type=str(column.type),
            reason=f"{reason!r:.200}",
        ) from reason
