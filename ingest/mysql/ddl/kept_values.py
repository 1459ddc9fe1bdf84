"""The changes of a column that keep the values of its rows: the binlog has the statement, but not the new values."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.ingest.mysql.ddl import alter_changes
from penstock.ingest.mysql.ddl.column_changes import renamed_column
from penstock.ingest.mysql.definition import (
    BLOBS,
    BYTES,
    INTEGER_BYTES,
    TEMPORAL,
    TEXTS,
    MySqlColumn,
    MySqlType,
    TableDefinition,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

# The characters of all other sets are in these.
_UNICODE = frozenset({"utf8mb4", "utf16", "utf16le", "utf32", "gb18030"})
_TEXT_BITS = {**dict(zip(TEXTS, (8, 16, 24, 32), strict=True)), **dict(zip(BLOBS, (8, 16, 24, 32), strict=True))}
_MILLIS = 3
_ALL_CHARACTERS = 4  # the largest number of bytes of a character in any character set
# Two bytes and more for each character. The others have ASCII in one byte, and swe7 lacks some of it.
_WIDE = frozenset({"ucs2", "utf16", "utf16le", "utf32"})


def rewritten_columns(
    before: TableDefinition,
    after: TableDefinition,
    changes: Sequence[alter_changes.Change] = (),
    *,
    is_strict: bool = False,
    spelled: Collection[str] = (),
) -> tuple[str, ...]:
    """Return the columns, by their names in `after`, that may have other values in older rows than in `before`.

    `changes` are the clauses of the statement, if it is one. A strict session gets an error where another one would
    get a value that fits. Values of the types `spelled` are texts with the digits of their type.
    """
    names = {column.name.lower(): column.name for column in before.columns}
    types = {column.name.lower(): column.type.base for column in before.columns}
    renamed: Mapping[str, str] = dict(filter(None, (renamed_column(change, names) for change in changes)))
    unknown = {
        change.parsed.column.name
        for change in changes
        if isinstance(change, alter_changes.ChangeColumn)
        and _may_be_others(change, types.get(change.old.lower()), is_strict=is_strict)
    }
    dropped = {change.name.lower() for change in changes if isinstance(change, alter_changes.DropColumnClause)}
    added = [change.parsed.column.name for change in changes if isinstance(change, alter_changes.AddColumnClause)]
    # A column that was added under the name of a column that the same statement dropped or renamed is a new column.
    left = (dropped & names.keys()) | {old.lower() for old in renamed}
    found = [name for name in added if name.lower() in left]
    generated, has_other_types = [], False
    for column in before.columns:
        now = None if column.name.lower() in dropped else after.column(renamed.get(column.name, column.name))
        if now is not None and (
            now.name in unknown or not keeps_values(column, now, is_strict=is_strict, spelled=spelled)
        ):
            found.append(now.name)
        elif now is not None:
            has_other_types = has_other_types or (now.type, now.charset) != (column.type, column.charset)
            if now.is_generated:
                generated.append(now.name)
    # They may be computed from the spelling, the bytes or the number of a value, which is the same otherwise.
    return tuple([*found, *generated] if has_other_types or found else found)


def _may_be_others(change: alter_changes.ChangeColumn, before: str | None, *, is_strict: bool) -> bool:
    """Return whether definitions may hide a change of values.

    They do for generated columns, unsigned fractions, and a DOUBLE with digits that was a FLOAT.
    """
    parsed = change.parsed
    if parsed.has_digits and parsed.column.type.base == "double" and before == "float":
        return True
    loses_sign = parsed.is_unsigned and parsed.column.type.base not in INTEGER_BYTES and not is_strict
    return parsed.is_generated or loses_sign


def keeps_values(
    before: MySqlColumn, after: MySqlColumn, *, is_strict: bool = False, spelled: Collection[str] = ()
) -> bool:
    """Return whether all values of a column are the same after its change."""
    if before.type.base in spelled and not _is_spelled_alike(before.type, after.type):
        return False
    if before.nullable and not after.nullable and not is_strict:
        return False
    # Where nulls are allowed, zero dates and times outside of a day are null. MariaDB makes the current time of a null.
    if before.nullable != after.nullable and before.type.base in TEMPORAL:
        return False
    if before.type == after.type and before.charset == after.charset:
        return True
    old, new = before.type, after.type
    if old.base in INTEGER_BYTES and new.base in INTEGER_BYTES:
        # A number that does not fit is an error of a strict session.
        return is_strict or _has_range_of(old, new)
    if old.base in {"enum", "set"} or new.base in {"enum", "set"}:
        return old.base == new.base and _has_labels_of(old, new, is_strict=is_strict) and _has_characters(before, after)
    if before.charset is not None and after.charset is not None:
        if not is_strict and before.type.base in TEXTS and not _has_bytes_of(before.charset, after.charset):
            old = replace(old, base=TEXTS[min(TEXTS.index(old.base) + 1, len(TEXTS) - 1)])
        return _has_characters(before, after) and _has_room_for(old, new, _ALL_CHARACTERS)
    return _widens(old, new)


def _is_spelled_alike(old: MySqlType, new: MySqlType) -> bool:
    """Return whether texts of the values have the same digits; those of DATETIME have three or six."""
    if old.base != new.base:
        return False
    if old.base == "datetime":
        return ((old.size or 0) > _MILLIS) == ((new.size or 0) > _MILLIS)
    return (old.scale or 0) == (new.scale or 0) if old.base == "decimal" else old.size == new.size


def _widens(old: MySqlType, new: MySqlType) -> bool:
    """Return whether values without characters fit into the new type unchanged."""
    match old.base, new.base:
        case ("float", "double"):
            return True
        case ("decimal", "decimal"):
            scale, digits = (new.scale or 0) - (old.scale or 0), (new.size or 0) - (old.size or 0)
            return scale >= 0 and digits >= scale
        case ("bit", "bit"):
            # In bytes, and a single bit is true or false.
            least, most = old.size or 1, new.size or 1
            return least <= most and (least + 7) // 8 == (most + 7) // 8 and (least == 1) == (most == 1)
        case ("datetime", "datetime") | ("timestamp", "timestamp") | ("time", "time"):
            return (new.size or 0) >= (old.size or 0)
        # With a larger size, zeros are added to a BINARY.
        case ("binary" | "varbinary" | "tinyblob" | "blob" | "mediumblob" | "longblob", _) if new.base in BYTES - {
            "binary"
        }:
            return _has_room_for(old, new, 1)
    return old.base == new.base and old.size == new.size


def _has_range_of(old: MySqlType, new: MySqlType) -> bool:
    more = INTEGER_BYTES[new.base] - INTEGER_BYTES[old.base]
    if new.unsigned:
        return old.unsigned and more >= 0
    return more > 0 if old.unsigned else more >= 0


def _has_labels_of(old: MySqlType, new: MySqlType, *, is_strict: bool) -> bool:
    """Return whether values are the same texts. Texts of SET have their labels in the order of the definition."""
    if not set(old.labels) <= set(new.labels) and not (is_strict and _only_removes(old.labels, new.labels)):
        return False
    kept = [label for label in new.labels if label in old.labels]
    return old.base == "enum" or kept == [label for label in old.labels if label in kept]


def _only_removes(old: Sequence[str], new: Sequence[str]) -> bool:
    """Return whether a strict session finds the rows that lose their label.

    It does not find those whose label is equal to another one in the new collation, as `a` and `A` are.
    """
    return set(new) <= set(old) and len({label.casefold() for label in old}) == len(old)


def _has_characters(before: MySqlColumn, after: MySqlColumn) -> bool:
    if before.charset is None or after.charset is None or before.charset == "binary" or after.charset == "binary":
        return before.charset == after.charset
    old, new = before.charset, after.charset
    has_plane = new in {"utf8mb3", "ucs2"} and old not in _UNICODE
    return old == new or (old == "ascii" and new != "swe7") or new in _UNICODE or has_plane


def _has_bytes_of(old: str, new: str) -> bool:
    """Return whether texts in the old character set need as many bytes in the new one."""
    return old == new or (old, new) == ("utf8mb3", "utf8mb4") or (old == "ascii" and new not in _WIDE)


def _has_room_for(old: MySqlType, new: MySqlType, width: int) -> bool:
    """Return whether texts or bytes fit. Blanks at the end of a value are lost when it becomes a CHAR."""
    if new.base == "char":
        return old.base == "char" and (new.size or 1) >= (old.size or 1)
    most, room = _TEXT_BITS.get(old.base), _TEXT_BITS.get(new.base)
    if most is not None:
        return room is not None and room >= most
    size = old.size or 1
    if room is not None:
        return size * width < 1 << room
    return new.size is not None and new.size >= size and new.base in {"varchar", "varbinary"}
