"""Tables whose keys move between partitions, and rows written to them."""

from __future__ import annotations

from pathlib import Path

from penstock.table.handle import Table
from tests.unit.table.tables import new_table, rows

COLUMNS = [("id", "STRING NOT NULL"), ("p", "STRING NOT NULL"), ("v", "INT")]


def moving_table(folder: Path, **options: str) -> Table:
    named = {name.replace("_", "-"): value for name, value in options.items()}
    return new_table(folder, COLUMNS, partitions=("p",), options={"bucket": "-1", **named})


def write(table: Table, *values: tuple[str, str, int | None], kinds: list[str] | None = None) -> None:
    with table.writer() as writer:
        writer.write(rows(table, *values), kinds)
        writer.commit()
