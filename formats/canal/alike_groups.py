"""Groups of messages with the same columns, such as those of the parts of a table, whose rows are decoded together.

Each column of a group has a fixed cost, which is high beside the few messages that each of many tables has.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol, TypeAlias, TypeVar

import msgspec
import numpy as np

from penstock.errors import DecodeError
from penstock.formats.canal.bulk import BulkMessages, decode_bulk
from penstock.formats.canal.groups import CanalGroup, declared_columns
from penstock.formats.canal.same_layout import MOST_BYTES, same_layout_rows
from penstock.formats.change import DecodeOptions, DecodeResult, ImageRule, Messages, SourceSchema
from penstock.formats.json_envelope import UNREADABLE

# A group with more messages than the first is decoded alone, and at most the second number is decoded together: because
# of one odd row, all groups with it are decoded alone.
MOST_ALONE, MOST_TOGETHER = 1_000, 4_000
# The same-layout path pays off for fewer rows than Arrow's reader, because it has no parser to set up. Before images
# have a further fixed cost.
SAME_LAYOUT_SHARE = 0.6


# Bytes, or the part of a message that has them.
Buffer: TypeAlias = bytes | msgspec.Raw


class DeclaredGroup(Protocol):
    """The messages of one table with one declaration: `mysqlType` and `pkNames` as they were sent."""

    @property
    def database(self) -> str | None: ...
    @property
    def table(self) -> str | None: ...
    @property
    def types(self) -> Buffer: ...
    @property
    def keys(self) -> Buffer: ...
    @property
    def count(self) -> int: ...


G = TypeVar("G", bound=DeclaredGroup)


def fewest_alike(rule: ImageRule, bulk_rows: int) -> int:
    """Return the fewest rows of one layout that are cheaper to cut out together than to parse one by one."""
    return 2 * bulk_rows if rule.before_images == "all" else int(bulk_rows * SAME_LAYOUT_SHARE)


def add_alike(
    groups: list[CanalGroup], messages: Messages, options: DecodeOptions, decoded: DecodeResult
) -> list[CanalGroup]:
    """Add the rows of groups that are decoded together; return the other groups."""
    others: list[CanalGroup] = []
    for rule, together in groups_together(groups, options):
        if rule is None or not _added(rule, together, options.bulk_rows, messages, decoded):
            others += together
    return others


def groups_together(groups: Iterable[G], options: DecodeOptions) -> Iterator[tuple[ImageRule | None, list[G]]]:
    """Yield groups that may be decoded together, with the image rule of all; None if a group is decoded alone."""
    by_columns: dict[tuple[bytes, bytes], list[G]] = {}
    for group in groups:
        if group.count > MOST_ALONE:
            yield None, [group]
        else:
            by_columns.setdefault((bytes(group.types), bytes(group.keys)), []).append(group)
    for (types, keys), alike in by_columns.items():
        yield from _together(alike, types, keys, options)


def _together(
    alike: list[G], types: bytes, keys: bytes, options: DecodeOptions
) -> Iterator[tuple[ImageRule | None, list[G]]]:
    try:
        fields, names = declared_columns(types, keys)
    except (*UNREADABLE, DecodeError):
        fields, names = None, ()
    if len(alike) == 1 or not fields:
        yield None, alike
        return
    by_rule: dict[ImageRule, list[G]] = {}
    for group in alike:
        by_rule.setdefault(options.rule(group.database, group.table, names), []).append(group)
    for rule, same in by_rule.items():
        run: list[G] = []
        count = 0
        for group in same:
            if run and count + group.count > MOST_TOGETHER:
                yield rule, run
                run, count = [], 0
            run.append(group)
            count += group.count
        yield rule, run


def _added(
    rule: ImageRule, groups: list[CanalGroup], bulk_rows: int, messages: Messages, decoded: DecodeResult
) -> bool:
    members = [member for group in groups for member in group.members]
    if len(groups) == 1 or len(members) < fewest_alike(rule, bulk_rows):
        return False
    documents = [member.data for member in members]
    fields, keys = declared_columns(bytes(groups[0].types), bytes(groups[0].keys))
    if fields is None or sum(map(len, documents)) > MOST_BYTES:
        return False
    parsed = same_layout_rows(documents, [field.name for field in fields])
    if parsed is None:
        return False
    bulk = BulkMessages.of(members, np.concatenate([group.numbers for group in groups]))
    tables = [
        (SourceSchema("mysql", group.database, group.table, fields, keys, states_no_key=group.states_no_key), end)
        for group, end in zip(groups, np.cumsum([len(group.members) for group in groups]).tolist(), strict=True)
    ]
    decode_bulk(bulk, parsed, tables, rule, messages, decoded)
    return True
