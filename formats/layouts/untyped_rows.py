"""Messages of formats that declare no types, by layout: their columns are texts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from penstock.formats.change import DecodeOptions, DecodeResult, Int64s, Messages, SourceField, SourceSchema
from penstock.formats.json_bytes import Mask
from penstock.formats.layouts.layout_rows import ReadMember, RowMembers, add_by_layout
from penstock.formats.layouts.layout_tables import LayoutTables
from penstock.formats.layouts.member_columns import MemberColumns
from penstock.formats.layouts.member_values import LayoutRows
from penstock.formats.layouts.message_groups import KnownLayouts
from penstock.row_kinds import RowKinds

AddLayout: TypeAlias = Callable[[LayoutRows, Messages, DecodeOptions, DecodeResult], Mask]
DecodeRecords: TypeAlias = Callable[[Messages, DecodeOptions, DecodeResult], None]
TableName: TypeAlias = tuple[str | None, str | None]


def decode_by_layout(
    messages: Messages,
    options: DecodeOptions,
    known: KnownLayouts,
    add_layout: AddLayout,
    decode_records: DecodeRecords,
) -> DecodeResult:
    """Decode messages that have layouts by `add_layout`, which returns the accepted ones, and the others one by one."""
    decoded = DecodeResult()
    others = add_by_layout(messages, options, known, lambda rows: add_layout(rows, messages, options, decoded))
    if len(others):
        decode_records(others, options, decoded)
    return decoded


@dataclass(frozen=True, slots=True)
class UntypedRows:
    """Messages of one layout, with their row kinds and event times.

    `keys` are the primary key that the messages state; None if they say nothing about keys.
    """

    columns: MemberColumns
    members: RowMembers
    kinds: RowKinds
    times: Int64s
    keys: tuple[str, ...] | None

    def add(
        self,
        named_by: Sequence[int | None],
        name_of: Callable[..., TableName],
        messages: Messages,
        options: DecodeOptions,
        decoded: DecodeResult,
    ) -> Mask:
        """Append the rows by source table; return which of the messages were accepted.

        `name_of` returns database and table from the values of the members `named_by`.
        """
        tables = LayoutTables(self.columns, self.members, self.kinds, self.times, read_text(self.columns))
        fields, keys = text_fields(self.members.names), self.keys or ()
        for values, places in self.columns.groups(named_by):
            database, table = name_of(*values)
            schema = SourceSchema("text", database, table, fields, keys, states_no_key=self.keys == ())
            tables.note(schema, places, options.rule(database, table, keys))
        return tables.add(messages, decoded)


def text_fields(names: Sequence[str]) -> tuple[SourceField, ...]:
    """Return the columns of a format that declares no types."""
    return tuple(SourceField(name) for name in names)


def read_text(columns: MemberColumns) -> ReadMember:
    """Return the function that reads the members of formats that declare no types."""
    return lambda _, member, places, __: columns.text(member, places)
