"""debezium-json by layouts: messages that differ only in their values become rows without a Python object per row."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import msgspec
import numpy as np
import pyarrow as pa

from penstock.errors import DecodeError
from penstock.formats.change import DecodeOptions, DecodeResult, ImageRule, Int64s, Messages, SourceField, SourceSchema
from penstock.formats.debezium.connect import ZONED_TIMESTAMP, row_fields, table_schema
from penstock.formats.debezium.connect_values import integer_type, reader
from penstock.formats.debezium.key_layouts import UNREAD, MessageKeys, message_keys
from penstock.formats.debezium.schema_prefix import BARE, EmbeddedPayloads, SchemaPrefixes
from penstock.formats.faults import Faults
from penstock.formats.json_bytes import Mask
from penstock.formats.json_text import exact
from penstock.formats.layouts.layout import MessageLayout
from penstock.formats.layouts.layout_rows import (
    UNDECIDED,
    Kinds,
    RowMembers,
    add_by_layout,
    event_millis,
    fewest_rows,
    kinds_of,
)
from penstock.formats.layouts.layout_tables import LayoutTables
from penstock.formats.layouts.member_columns import MemberColumns
from penstock.formats.layouts.member_values import LayoutRows
from penstock.formats.layouts.message_groups import PIECE, KnownLayouts, have_many_layouts
from penstock.formats.row_builder import texts
from penstock.formats.unsent_values import ENCODED_TEXTS
from penstock.row_kinds import DELETE, INSERT, UPDATE_AFTER

_KINDS = {"c": INSERT, "r": INSERT, "u": UPDATE_AFTER, "d": DELETE}
# Members that change the meaning of a message.
_UNUSUAL = ("pkNames", "schema", "payload")

_SOURCE = ("version", "connector", "name", "snapshot", "db", "schema", "table")
_known = KnownLayouts(("op",), *(("source", name) for name in _SOURCE))
_prefixes = SchemaPrefixes()
_read_values = msgspec.json.Decoder(list, float_hook=exact).decode


def decode_by_layout(messages: Messages, options: DecodeOptions, decoded: DecodeResult) -> Messages:
    """Add the rows of messages that have layouts; return the other messages."""
    fewest = fewest_rows(options)
    if len(messages) < fewest or (fewest > 1 and have_many_layouts(messages.values[:PIECE])):
        return messages
    payloads = _prefixes.split(messages.values)
    keys = message_keys(messages.keys, len(messages), fewest)
    layouts = _LayoutDecoder(messages, options, decoded, payloads, keys)
    return add_by_layout(messages, options, _known, layouts.add, payloads.texts)


@dataclass(frozen=True, slots=True)
class DebeziumMembers:
    """The members of a layout: members of the rows and of the envelope, and objects that are null in these messages."""

    rows: RowMembers
    operation: int
    ts_ms: int | None
    database: int | None
    table: int | None
    texts: tuple[int, ...]
    nulls: tuple[int, ...]

    @classmethod
    def of(cls, layout: MessageLayout, name_from: str) -> DebeziumMembers | None:
        """Return the members of a layout, None if its messages need the record path."""
        rows = _row_members(layout)
        operation = layout.scalar("op")
        if rows is None or operation is None or any((name,) in layout.number for name in _UNUSUAL):
            return None
        if ("ts_ms",) in layout.number and layout.scalar("ts_ms") is None:
            return None
        named = [("source", part) for part in ("db", "schema", "table") if ("source", part) in layout.number]
        if any(layout.scalar(*path) is None for path in named) or ("source",) in layout.constants:
            return None
        nulls = [layout.scalar(name) for name in ("before", "after", "source")]
        texts = [operation, *(layout.scalar(*path) for path in named)]
        return cls(
            rows,
            operation,
            layout.scalar("ts_ms"),
            layout.scalar("source", name_from),
            layout.scalar("source", "table"),
            tuple(member for member in texts if member is not None),
            tuple(member for member in nulls if member is not None),
        )

    @property
    def read(self) -> list[int]:
        """Return every member whose values are always read, once each."""
        place = (self.ts_ms, *self.texts, *(self.rows.after or self.rows.deleted))
        return [member for member in dict.fromkeys(place) if member is not None]


def _row_members(layout: MessageLayout) -> RowMembers | None:
    before, after = layout.row("before"), layout.row("after")
    for name, row in (("before", before), ("after", after)):
        # A row with nested values, or a row that is neither an object nor null.
        if row is None and (name,) in layout.number and layout.scalar(name) is None:
            return None
    if before and after:
        return RowMembers(after[0], after[1], before[1]) if before[0] == after[0] else None
    if after:
        return RowMembers(*after)
    return RowMembers(before[0], (), before[1], deleted=before[1]) if before else None


@dataclass(frozen=True, slots=True)
class _LayoutDecoder:
    messages: Messages
    options: DecodeOptions
    decoded: DecodeResult
    payloads: EmbeddedPayloads
    keys: MessageKeys

    def add(self, rows: LayoutRows) -> Mask:
        """Add the messages of one layout; return which were accepted."""
        name_from = self.options.name_from
        members = rows.layout.derive(name_from, lambda layout: DebeziumMembers.of(layout, name_from))
        accepted: Mask = np.zeros(len(rows), bool)
        if members is None:
            return accepted
        columns = MemberColumns(rows, members.read, members.rows.before)
        times = event_millis(columns, members.ts_ms, 1)
        if times is None:
            return accepted
        kinds = self._kinds(columns, members)
        tables = LayoutTables(columns, members.rows, kinds, times, partial(_read_member, columns))
        for (database, table), places in columns.groups([members.database, members.table]):
            for part in self._parts(rows, places):
                number = rows.numbers[0 if part is None else part[0]]
                keys = self.keys.names(int(self.keys.group[number]))
                # An empty key counts as no key.
                schema = self._schema(members, (database, table), keys or None, int(self.payloads.schemas[number]))
                if schema is not None:
                    rule = self.options.rule(database, table, keys or ())
                    every = np.arange(len(rows)) if part is None else part
                    self._find_moves(columns, members.rows, every, kinds, rule)
                    tables.note(schema, part, rule, alone=_types_follow_values(schema))
        return tables.add(self.messages, self.decoded)

    def _kinds(self, columns: MemberColumns, members: DebeziumMembers) -> Kinds:
        rows = columns.rows
        kinds = kinds_of(columns, members.operation, _KINDS)
        kinds[~(rows.are_texts_or_null(members.texts) & rows.are_null(members.nulls))] = UNDECIDED
        kinds[self.keys.group[rows.numbers] == UNREAD] = UNDECIDED
        images = [*members.rows.after, *members.rows.before, *members.rows.deleted]
        if images:
            kinds[rows.have(images, ENCODED_TEXTS)] = UNDECIDED
        return kinds

    def _parts(self, rows: LayoutRows, places: Int64s | None) -> Iterator[Int64s | None]:
        """Yield the places of messages with the same key columns and schema; None for all messages."""
        numbers = rows.numbers if places is None else rows.numbers[places]
        groups, schemas = self.keys.group[numbers], self.payloads.schemas[numbers]
        if places is None:
            if (groups == groups[0]).all() and (schemas == schemas[0]).all():
                if groups[0] != UNREAD:
                    yield None
                return
            places = np.arange(len(rows))
        for group in np.unique(groups):
            for schema in np.unique(schemas[groups == group]):
                if group != UNREAD:
                    yield places[(groups == group) & (schemas == schema)]

    def _schema(
        self, members: DebeziumMembers, name: tuple[str | None, str | None], keys: tuple[str, ...] | None, number: int
    ) -> SourceSchema | None:
        try:
            declared = None if number == BARE else row_fields(_prefixes.schema(number))
        except DecodeError:
            return None
        return table_schema(name, keys, declared, members.rows.names)

    def _find_moves(
        self, columns: MemberColumns, members: RowMembers, places: Int64s, kinds: Kinds, rule: ImageRule
    ) -> None:
        """Leave updates undecided that have no row before, but a key whose values differ from the row."""
        numbers = columns.rows.numbers[places]
        group = int(self.keys.group[numbers[0]])
        if members.before or not members.after or group < 0 or not (kinds[places] == UPDATE_AFTER).any():
            return
        keys, watch = self.keys.groups[group], {name.lower() for name in rule.watch}
        after = dict(zip(members.names, members.after, strict=True))
        for name in keys.names:
            if name.lower() in watch:
                moved: Mask = np.ones(len(places), bool)
                if name in after:
                    moved = keys.differs(name, self.keys.place[numbers], columns, after[name], places)
                kinds[places[moved & (kinds[places] == UPDATE_AFTER)]] = UNDECIDED


def _types_follow_values(schema: SourceSchema) -> bool:
    """Return whether the values of a column decide its type, so that those of another table would change it."""
    return any(field.type is not None and ZONED_TIMESTAMP in field.type for field in schema.fields)


def _read_member(
    columns: MemberColumns, field: SourceField, member: int, places: Int64s | None, faults: Faults
) -> pa.Array:
    """Return a member as the column that `connect_values.reader` makes of its values."""
    read = reader(field.name, field.type)
    if read is texts:
        return columns.text(member, places)
    kind = None if field.type is None else integer_type(field.type)
    integers = None if kind is None else columns.integers(member, places)
    if integers is not None:
        try:
            return (integers.cast(pa.int32()) if kind == pa.date32() else integers).cast(kind)
        except pa.ArrowInvalid:
            pass  # `reader` names the value that does not fit
    return read(columns.rows.values(member, places, _read_values), faults)
