"""The text functions of expressions, on whole columns."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import ConfigError
from penstock.schema_evolution.expressions.operators import texts, whole
from penstock.schema_evolution.expressions.time_functions import Moment, constant

Values = Any  # an Arrow array, or a scalar when the expression is constant
MOST_PADDED = 1000
# A bracket that opens a group of a regular expression, or something in which a bracket opens none.
_QUOTED = r"\\Q.*?(?:\\E|\Z)"
_CLASS = r"\[\^?\]?(?:\\.|\[:\^?\w+:\]|[^\]\\])*\]"
_GROUP = re.compile(rf"{_QUOTED}|\\.|{_CLASS}|\((?!\?)", re.DOTALL)


def changed(change: Callable[[Values], Values]) -> Callable[[Sequence[Values], Moment], Values]:
    return lambda arguments, moment: change(texts(arguments[0]))


def trimmed(trim: Callable[..., Values]) -> Callable[[Sequence[Values], Moment], Values]:
    """Return a function that removes the characters of its second argument, or spaces without it."""

    def result(arguments: Sequence[Values], moment: Moment) -> Values:
        return trim(texts(arguments[0]), constant(arguments[1], "trim") if len(arguments) > 1 else " ")

    return result


def concat(arguments: Sequence[Values], moment: Moment) -> Values:
    return pc.binary_join_element_wise(*map(texts, arguments), "", null_handling="emit_null")


def concat_ws(arguments: Sequence[Values], moment: Moment) -> Values:
    first, *more = map(texts, arguments[1:])
    empty = pc.is_null(first)
    for value in more:
        empty = pc.and_(empty, pc.is_null(value))
    # Arrow leaves a row whose values are all null out of its result, so that the following rows would move up.
    first = pc.if_else(empty, "", first)
    return pc.binary_join_element_wise(first, *more, texts(arguments[0]), null_handling="skip")


def substring(arguments: Sequence[Values], moment: Moment) -> Values:
    """Return part of a text, as in SQL: the first character is 1, a negative position counts from the end.

    A position before the first character gives an empty text.
    """
    begin = whole(arguments[1], "substring")
    length = whole(arguments[2], "substring") if len(arguments) > 2 else None
    value = texts(arguments[0])
    if begin < 0:
        stop = None if length is None or begin + length >= 0 else begin + max(length, 0)
        part = pc.utf8_slice_codeunits(value, begin, stop)
        return pc.if_else(pc.less(pc.utf8_length(value), -begin), pc.utf8_slice_codeunits(value, 0, 0), part)
    start = max(begin, 1) - 1
    return pc.utf8_slice_codeunits(value, start, None if length is None else max(start + length, start))


def left(arguments: Sequence[Values], moment: Moment) -> Values:
    return pc.utf8_slice_codeunits(texts(arguments[0]), 0, max(0, whole(arguments[1], "left")))


def right(arguments: Sequence[Values], moment: Moment) -> Values:
    # A start of -0 would be the beginning of the text.
    count, value = whole(arguments[1], "right"), texts(arguments[0])
    return pc.utf8_slice_codeunits(value, -count) if count > 0 else pc.utf8_slice_codeunits(value, 0, 0)


def padded(*, before: bool) -> Callable[[Sequence[Values], Moment], Values]:
    """Return a function that fills a text up to a length, or cuts it to that length."""

    def result(arguments: Sequence[Values], moment: Moment) -> Values:
        of = "lpad" if before else "rpad"
        length, pad = whole(arguments[1], of), constant(arguments[2], of)
        if not 0 <= length <= MOST_PADDED or not pad:
            raise ConfigError(
                f"{of} needs a length from 0 to {MOST_PADDED} and a text to fill with",
                hint=f"for example {of}(c, 10, '0')",
            )
        value = texts(arguments[0])
        filled, missing = value, pc.subtract(length, pc.utf8_length(value))
        fill = pad * length
        for count in pc.unique(pa.array([missing]) if isinstance(missing, pa.Scalar) else missing).to_pylist():
            if count is not None and count > 0:
                more = [fill[:count], value] if before else [value, fill[:count]]
                longer = pc.binary_join_element_wise(*more, "")
                filled = pc.if_else(pc.equal(missing, count), longer, filled)
        return pc.utf8_slice_codeunits(filled, 0, length)

    return result


def repeated(arguments: Sequence[Values], moment: Moment) -> Values:
    return pc.binary_repeat(texts(arguments[0]), max(0, whole(arguments[1], "repeat")))


def replaced(arguments: Sequence[Values], moment: Moment) -> Values:
    return pc.replace_substring(
        texts(arguments[0]), constant(arguments[1], "replace"), constant(arguments[2], "replace")
    )


def position(value: Values, wanted: str) -> Values:
    """Return the position of the first occurrence, counted in characters from 1, or 0."""
    if not wanted:
        return pc.if_else(pc.is_valid(value), pa.scalar(1, pa.int32()), pa.scalar(None, pa.int32()))
    before = pc.list_element(pc.split_pattern(value, wanted, max_splits=1), 0)
    at = pc.add(pc.utf8_length(before), pa.scalar(1, pa.int32()))
    return pc.if_else(pc.match_substring(value, wanted), at, pa.scalar(0, pa.int32()))


def locate(arguments: Sequence[Values], moment: Moment) -> Values:
    return position(texts(arguments[1]), constant(arguments[0], "locate"))


def instr(arguments: Sequence[Values], moment: Moment) -> Values:
    return position(texts(arguments[0]), constant(arguments[1], "instr"))


def startswith(arguments: Sequence[Values], moment: Moment) -> Values:
    return pc.starts_with(texts(arguments[0]), constant(arguments[1], "startswith"))


def endswith(arguments: Sequence[Values], moment: Moment) -> Values:
    return pc.ends_with(texts(arguments[0]), constant(arguments[1], "endswith"))


def regexp_replace(arguments: Sequence[Values], moment: Moment) -> Values:
    pattern = constant(arguments[1], "regexp_replace")
    return pc.replace_substring_regex(texts(arguments[0]), pattern, constant(arguments[2], "regexp_replace"))


def regexp_like(arguments: Sequence[Values], moment: Moment) -> Values:
    return pc.match_substring_regex(texts(arguments[0]), constant(arguments[1], "regexp_like"))


def regexp_count(arguments: Sequence[Values], moment: Moment) -> Values:
    return pc.count_substring_regex(texts(arguments[0]), constant(arguments[1], "regexp_count"))


def regexp_extract(arguments: Sequence[Values], moment: Moment) -> Values:
    """Return the first match, or a group of it; null without a match."""
    group = whole(arguments[2], "regexp_extract") if len(arguments) > 2 else 0
    pattern = constant(arguments[1], "regexp_extract")
    if "(?P<" in pattern or "(?<" in pattern:
        raise ConfigError("regexp_extract counts groups, and this pattern names them", hint="write ( for (?<name>")
    names = itertools.count(1)
    named = "".join(_named_groups(pattern, names))
    groups = next(names) - 1
    if not 0 <= group <= groups:
        raise ConfigError(f"regexp_extract: the pattern has no group {group}", hint=f"it has the groups 0 to {groups}")
    found = pc.extract_regex(texts(arguments[0]), f"(?P<g0>{named})")
    return pc.struct_field(found, f"g{group}")


def _named_groups(pattern: str, names: Iterator[int]) -> Iterator[str]:
    """Yield the parts of a pattern whose groups have names, which Arrow asks for."""
    begin = 0
    for found in _GROUP.finditer(pattern):
        yield pattern[begin : found.start()]
        yield f"(?P<g{next(names)}>" if found.group() == "(" else found.group()
        begin = found.end()
    yield pattern[begin:]
