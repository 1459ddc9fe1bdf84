"""The keys of messages, read by layout: the names of key columns, and whether an update changes their values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow.compute as pc

from penstock.formats.change import Int64s
from penstock.formats.debezium.schema_prefix import SchemaPrefixes
from penstock.formats.json_bytes import Mask
from penstock.formats.layouts.member_columns import MemberColumns
from penstock.formats.layouts.member_values import LayoutRows
from penstock.formats.layouts.message_groups import KnownLayouts, group_messages

NO_KEY, UNREAD = -1, -2
_known = KnownLayouts()
_prefixes = SchemaPrefixes()


@dataclass(frozen=True, slots=True)
class KeyGroup:
    """Keys of one layout: the names of the columns, and their values in the order of the messages."""

    names: tuple[str, ...]
    columns: MemberColumns

    def differs(self, name: str, at: Int64s, rows: MemberColumns, member: int, places: Int64s) -> Mask:
        """Return which messages have another value in a member of their row than in this column of their key.

        `at` are the places of their keys, and `places` the places of the messages in `rows`.
        """
        key_member = self.names.index(name)
        keys = self.columns.rows
        left, right = self.columns.text(key_member, at), rows.text(member, places)
        same = pc.or_(pc.fill_null(pc.equal(left, right), fill_value=False), pc.and_(left.is_null(), right.is_null()))
        quoted_alike = keys.is_quoted(key_member)[at] == rows.rows.is_quoted(member)[places]
        different: Mask = ~(np.asarray(same) & quoted_alike)
        return different


@dataclass(frozen=True, slots=True)
class MessageKeys:
    """The group of each message's key, NO_KEY or UNREAD, and the place of the key in its group."""

    groups: list[KeyGroup]
    group: Int64s
    place: Int64s

    def names(self, group: int) -> tuple[str, ...] | None:
        """Return the key columns of a group, None for messages without key."""
        return None if group == NO_KEY else self.groups[group].names


def message_keys(keys: Sequence[bytes | None] | None, count: int, fewest_rows: int) -> MessageKeys:
    """Return the keys of `count` messages."""
    group, place = np.full(count, NO_KEY, np.int64), np.zeros(count, np.int64)
    if keys is None:
        return MessageKeys([], group, place)
    payloads = _prefixes.split(keys)
    present = np.flatnonzero([bool(key) for key in keys])
    group[present] = UNREAD
    readable = present[[bool(payloads.texts[number]) for number in present.tolist()]]
    groups: list[KeyGroup] = []
    texts = [payloads.texts[number] or b"" for number in readable.tolist()]
    for found in group_messages(texts, _known, fewest_rows).groups:
        rows = found.renumbered(readable)
        if rows.layout.has_others:
            continue
        group[rows.numbers], place[rows.numbers] = len(groups), np.arange(len(rows))
        groups.append(_key_group(rows))
    return MessageKeys(groups, group, place)


def _key_group(rows: LayoutRows) -> KeyGroup:
    members = range(len(rows.layout.paths))
    return KeyGroup(tuple(name for (name,) in rows.layout.paths), MemberColumns(rows, members))
