"""Partition values as texts: in folder names, as users write them, and as system tables display them."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence
from decimal import Decimal
from typing import TypeAlias, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.table.values.internal import from_internal
from penstock.table.values.texts import float_text, to_text
from penstock.table.values.types import AtomicType, DataType, Field

DEFAULT_NAME = "__DEFAULT_PARTITION__"

_ESCAPED = re.compile(r"""[\x01-\x1f\x7f"#%'*/:=?\\{}\[\]^]""")
_BILLION = 1_000_000_000
_MOST_GROWTH = 3  # an escaped character takes up three characters
Rows: TypeAlias = npt.NDArray[np.int64]
_EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - the clock of no zone
_DAY = 86_400
_CYCLE = 146_097 * _DAY  # 400 years, after which the calendar repeats
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896  # the years 1 to 9999, the range of Python's dates


def partition_texts(
    values: Sequence[object], fields: Sequence[Field], legacy: bool = True, default_name: str = DEFAULT_NAME
) -> dict[str, str]:
    """Return the text of each partition column. Null, empty and blank texts are `default_name`.

    `legacy` is the table's `partition.legacy-name`.
    """
    texts = {}
    for value, field in zip(values, fields, strict=True):
        text = legacy_text(value, field.type) if legacy else value_text(value, field.type)
        texts[field.name] = text if text and not text.isspace() else default_name
    return texts


def listed_text(value: object, type_: DataType, default_name: str) -> str:
    """Return the text of a partition value in a list of partitions: a null has the default name."""
    text = value_text(value, type_)
    return default_name if text is None else text


def partition_path(
    values: Sequence[object], fields: Sequence[Field], legacy: bool = True, default_name: str = DEFAULT_NAME
) -> str:
    """Return the partition's folder, `dt=2024-05-06/hour=7`; an empty text for an unpartitioned table.

    Several partitions may share a path: null, empty and blank texts do. Never parse partition values from a path.
    """
    texts = partition_texts(values, fields, legacy, default_name)
    return "/".join(f"{escaped(name)}={escaped(text)}" for name, text in texts.items())


def no_folder(column: pa.Array, field: Field, longest: int) -> tuple[Rows, str] | None:
    """Return the rows of a partition column with values that cannot be folder names, and the reason for the first.

    A value cannot be a folder name if it contains a NUL, is not UTF-8, or makes a name of more than `longest` bytes.
    Only texts and bytes can have such values. Return None if all values are valid.
    """
    if not (pa.types.is_string(column.type) or pa.types.is_binary(column.type)) or not len(column):
        return None
    room = longest - len(f"{escaped(field.name)}=".encode())
    # Checks of whole columns first: values are examined singly only if one of these finds something.
    long = (pc.max(pc.binary_length(column)).as_py() or 0) * _MOST_GROWTH > room
    if not long and not _has_zero(column) and _is_utf8(column):
        return None
    # A batch has few distinct partition values, so each is examined once.
    encoded = column.dictionary_encode()
    raws = encoded.dictionary.cast(pa.binary()).to_pylist()
    reasons = [_no_name(raw, pa.types.is_string(column.type), room) for raw in raws]
    if not any(reasons):
        return None
    bad = pa.array([reason is not None for reason in reasons], pa.bool_()).take(encoded.indices)
    rows = np.flatnonzero(pc.fill_null(bad, fill_value=False).to_numpy(zero_copy_only=False))
    if not len(rows):  # the dictionary may contain values that no row uses
        return None
    reason = reasons[encoded.indices[int(rows[0])].as_py()]
    return rows, f"a partition value {reason} the name of a folder, which has {longest} bytes at most"


def _has_zero(column: pa.Array) -> bool:
    offsets = np.frombuffer(column.buffers()[1], np.int32)[column.offset : column.offset + len(column) + 1]
    content = column.buffers()[2]
    if content is None:
        return False
    return bool((np.frombuffer(content, np.uint8)[offsets[0] : offsets[-1]] == 0).any())


def _is_utf8(column: pa.Array) -> bool:
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _no_name(raw: bytes, is_text: bool, room: int) -> str | None:
    if b"\0" in raw:
        return "has a NUL and cannot be"
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        if is_text:
            return "is not UTF-8 text and cannot be"
        text = raw.decode("utf-8", "replace")
    if len(escaped(text).encode()) > room:
        return "is too long for"
    return None


def escaped(name: str) -> str:
    """Return a name or value as it appears in a path, where characters with a meaning in paths are `%XX`."""
    return _ESCAPED.sub(lambda match: f"%{ord(match[0]):02X}", name)


def legacy_text(value: object, type_: DataType) -> str | None:
    """Return the text that Java's toString gives for the internal value; a DATE becomes its number of days."""
    # Java keeps a DATE as a number of days and a TIME as milliseconds, and toString shows the number.
    match value, type_:
        case int(), AtomicType("TIMESTAMP" | "TIMESTAMP_LTZ"):
            return _iso_text(value)
        case int(), AtomicType("DATE" | "TIME"):
            return str(value)
    return value_text(value, type_)


def _moment(nanos: int) -> tuple[dt.datetime, int]:
    """Return the second as a datetime, and the nanoseconds within it.

    Python's dates cover the years 1 to 9999. Other years are shifted by a multiple of 400 years, after which the
    calendar repeats; `_with_year` restores the true year.
    """
    seconds, rest = divmod(nanos, _BILLION)
    if not _FIRST_DAY <= seconds // _DAY <= _LAST_DAY:
        seconds %= _CYCLE
    return _EPOCH + dt.timedelta(seconds=seconds), rest


def _with_year(text: str, nanos: int) -> str:
    """Return the text of a moment with its true year, written as Java does.

    Java adds a sign if the year has more than four digits or is negative.
    """
    seconds = nanos // _BILLION
    if _FIRST_DAY <= seconds // _DAY <= _LAST_DAY:
        return text
    year = int(text[:4]) + 400 * (seconds // _CYCLE)
    return f"{'-' if year < 0 else '+' if year > 9999 else ''}{abs(year):04d}{text[4:]}"


def _iso_text(nanos: int) -> str:
    moment, rest = _moment(nanos)
    # As LocalDateTime.toString: without seconds if they are zero, and with three, six or nine digits of a fraction.
    if not rest:
        return _with_year(moment.isoformat(timespec="seconds" if moment.second else "minutes"), nanos)
    digits = f"{rest:09d}"
    while digits.endswith("000"):
        digits = digits[:-3]
    return _with_year(f"{moment.isoformat(timespec='seconds')}.{digits}", nanos)


def value_text(value: object, type_: DataType) -> str | None:
    """Return the text that Java's cast to STRING gives for one internal value; None for null."""
    match value, type_:
        case ((None | str()), _):
            return value
        # Before int, because a bool is an int too.
        case bool(), _:
            return "true" if value else "false"
        case int(), AtomicType("TINYINT" | "SMALLINT" | "INT" | "BIGINT"):
            return str(value)
        case Decimal(), _:
            return format(value, "f")
        case float(), AtomicType("DOUBLE"):
            return float_text(Decimal(repr(value)))
        case int(), AtomicType("DATE") if _FIRST_DAY <= value <= _LAST_DAY:
            return (_EPOCH.date() + dt.timedelta(days=value)).isoformat()
        case int(), AtomicType("TIMESTAMP"):
            moment, rest = _moment(value)
            fraction = f".{rest:09d}"[: type_.precision + 1] if type_.precision else ""
            return _with_year(moment.isoformat(" ", "seconds"), value) + fraction
    # The cases above only avoid building an Arrow array for one value; the text would be the same.
    return cast("str | None", to_text(from_internal([value], type_), type_)[0].as_py())


def row_text(values: Sequence[object], types: Sequence[DataType], frame: str = "{}") -> str:
    """Return `{a, b}`, as system tables display partitions, or `[a, b]` with the frame `[]`, as they display keys.

    Null values are written as `null`.
    """
    texts = [value_text(value, type_) for value, type_ in zip(values, types, strict=True)]
    return frame[0] + ", ".join("null" if text is None else text for text in texts) + frame[1]
