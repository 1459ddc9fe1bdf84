"""Records that have a dead letter of an earlier batch: when they are read again, no second letter is written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from penstock.formats.change import BadRecord
from penstock.formats.row_message import new_row
from penstock.pipelines.tasks.bad_records import OnBad
from penstock.pipelines.tasks.dead_letter_table import source_position
from penstock.table.catalog.settings import CatalogSettings

_Columns: TypeAlias = tuple[str, ...]
_ABSENT = object()


def positions_with_letter(
    warehouse: CatalogSettings, on_bad: OnBad, place: str, records: Sequence[BadRecord]
) -> set[str]:
    """Return the source positions of the records that are in the dead-letter table."""
    from penstock.table.handle import Table  # seldom needed, and expensive to import

    if on_bad.table is None:
        return set()
    positions = [source_position(place, record) for record in records]
    ours = pc.field("source_position").isin(positions) & (pc.field("pipeline") == on_bad.pipeline)
    found = Table(warehouse.opened(on_bad.table)).scan(columns=["source_position"], where=ours).to_arrow()
    return set(found.column(0).to_pylist())


def rows_with_letter(
    warehouse: CatalogSettings, on_bad: OnBad, table: str, records: Sequence[BadRecord], now_millis: int
) -> set[int]:
    """Return the positions of the records whose row has a dead letter of this target table already.

    The letter may have more columns, because snapshots read only the columns that are needed. Letters received at
    `now_millis` do not count: this batch wrote them before it was repeated.
    """
    wanted: dict[_Columns, dict[tuple[Any, ...], list[int]]] = {}
    for record in records:
        found = new_row(record.raw)
        if found is not None:
            columns = tuple(sorted(found[1]))
            wanted.setdefault(columns, {}).setdefault(_values(*found, columns), []).append(record.pos)
    kept = set[int]()
    for message in _letters(warehouse, on_bad, table, now_millis) if wanted else ():
        if (letter := new_row(message)) is not None:
            for columns, positions in wanted.items():
                kept.update(positions.get(_values(*letter, columns), ()))
    return kept


def _values(source: tuple[str | None, str | None], row: Mapping[str, Any], columns: _Columns) -> tuple[Any, ...]:
    return *source, *(row.get(name, _ABSENT) for name in columns)


def _letters(warehouse: CatalogSettings, on_bad: OnBad, table: str, now_millis: int) -> Iterable[bytes]:
    """Yield the messages of the dead letters of this target table that other batches have written."""
    from penstock.table.handle import Table  # seldom needed, and expensive to import

    assert on_bad.table is not None
    ours = (pc.field("target_table") == table) & (pc.field("pipeline") == on_bad.pipeline)
    scan = Table(warehouse.opened(on_bad.table)).scan(columns=["raw_value", "received_at"], where=ours)
    for batch in scan.to_batches():
        times = batch.column("received_at").cast(pa.int64()).to_pylist()
        for message, time in zip(batch.column("raw_value").to_pylist(), times, strict=True):
            if message is not None and time != now_millis:
                yield message
