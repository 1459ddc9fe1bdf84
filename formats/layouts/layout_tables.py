"""The messages of one layout by source table. Tables that are alike are cut out together.

Each column of a table has a fixed cost, which is high beside the few messages that each of many tables has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from penstock.formats.change import DecodeResult, ImageRule, Int64s, Messages, SourceSchema
from penstock.formats.json_bytes import Mask
from penstock.formats.layouts.layout_rows import Kinds, ReadMember, RowMembers, TableMessages
from penstock.formats.layouts.member_columns import MemberColumns


@dataclass(slots=True)
class AlikeTables:
    """Tables with the same columns and the same image rule, and the places of the messages of each; None for all."""

    rule: ImageRule
    schemas: list[SourceSchema]
    places: list[Int64s | None]


@dataclass(frozen=True, slots=True)
class LayoutTables:
    """Messages of one layout with their row kinds and event times. `read` returns the column of a field."""

    columns: MemberColumns
    members: RowMembers
    kinds: Kinds
    times: Int64s
    read: ReadMember
    _alike: list[AlikeTables] = field(default_factory=list)
    _latest: dict[ImageRule, AlikeTables] = field(default_factory=dict)

    def note(self, schema: SourceSchema, places: Int64s | None, rule: ImageRule, *, alone: bool = False) -> None:
        """Note the places of the messages of a table; None for all. A table may have to be read `alone`."""
        latest = self._latest.get(rule)
        if alone or latest is None or latest.schemas[0].fields != schema.fields:
            latest = AlikeTables(rule, [], [])
            self._alike.append(latest)
            if not alone:
                self._latest[rule] = latest
        latest.schemas.append(schema)
        latest.places.append(places)

    def add(self, messages: Messages, decoded: DecodeResult) -> Mask:
        """Append the rows of all tables; return which of the messages were accepted."""
        accepted: Mask = np.zeros(len(self.kinds), bool)
        for alike in self._alike:
            places = _together(alike.places)
            chosen = slice(None) if places is None else places
            counts = [len(self.kinds) if of_table is None else len(of_table) for of_table in alike.places]
            tables = list(zip(alike.schemas, counts, strict=True))
            kinds, times = self.kinds[chosen], self.times[chosen]
            rows = TableMessages(self.columns, places, self.members, kinds, times, tables, self.read)
            accepted[chosen] = rows.add(alike.rule, messages, decoded)
        return accepted


def _together(places: Sequence[Int64s | None]) -> Int64s | None:
    """Return the places of all tables, one after the other; None if they are those of all messages."""
    parts = [of_table for of_table in places if of_table is not None]
    return np.concatenate(parts) if len(parts) == len(places) else None
