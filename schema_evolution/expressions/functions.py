"""The functions of projections and filters: their argument counts, documentation and implementations on whole columns.

A null argument makes the result null, except for functions about nulls. The functions follow SQL and Flink CDC.
Those of computed columns in `computed_functions.py` have some of the same names with Paimon's rules: there `substring`
counts from 0 and has an end position, here it counts from 1 and has a length.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import DecodeError
from penstock.schema_evolution.expressions import text_functions as texts_of
from penstock.schema_evolution.expressions import time_functions as times
from penstock.schema_evolution.expressions.arithmetic import as_doubles, remainder
from penstock.schema_evolution.expressions.operators import aligned, common, stamps, texts, whole
from penstock.schema_evolution.expressions.time_functions import Moment, constant, formatted, read_time

Values = Any  # an Arrow array, or a scalar when the expression is constant
MANY = 64


@dataclass(frozen=True, slots=True)
class Function:
    """A function of expressions. `form` and `does` are its entry in the documentation."""

    least: int
    most: int
    form: str
    does: str
    values: Callable[[Sequence[Values], Moment], Values]


# Functions of Flink CDC and MySQL that are refused, with the reason and a hint.
REFUSED = {
    "uuid": (
        "uuid() returns other values when a batch is read again, so one row could get two values",
        "use a stable value, for example  md5(concat_ws('/', __table_name__, id))",
    ),
    "date_add": ("date_add returns a text in Flink CDC and a date elsewhere", "write  timestampadd(day, n, x)"),
    "extract": ("EXTRACT(unit FROM x) is not supported", "write  year(x), month(x), day(x), hour(x) or the like"),
    "position": ("POSITION(a IN b) is not supported", "write  locate(a, b)"),
    "rand": ("rand() returns other values when a batch is read again", "use a hash of the key, for example  md5(id)"),
}


def _hashed(kind: str) -> Callable[[Sequence[Values], Moment], Values]:
    return lambda arguments, moment: hashed(texts(arguments[0]), kind)


def hashed(column: Values, kind: str) -> Values:
    """Return hexadecimal digests of UTF-8 texts; each distinct text is hashed once."""
    if isinstance(column, pa.Scalar):
        text = column.as_py()
        return pa.scalar(None if text is None else hashlib.new(kind, text.encode()).hexdigest(), pa.string())
    encoded = column.dictionary_encode()
    digests = [hashlib.new(kind, text.encode()).hexdigest() for text in encoded.dictionary.to_pylist()]
    return pa.array(digests, pa.string()).take(encoded.indices)


def _round(arguments: Sequence[Values], moment: Moment) -> Values:
    digits = whole(arguments[1], "round") if len(arguments) > 1 else 0
    value = arguments[0]
    if pa.types.is_decimal(value.type):
        return _of_decimals(value, lambda wide: pc.round(wide, digits, round_mode="half_towards_infinity"))
    if not pa.types.is_floating(value.type) or not 0 <= digits <= _EXACT_POWER:
        return pc.round(value, digits, round_mode="half_towards_infinity")
    if isinstance(value, pa.Scalar):
        return _rounded_doubles(pa.array([value]), digits)[0]
    return _rounded_doubles(value, digits)


_EXACT_POWER = 22  # the largest power of 10 that is exact as a double


def _rounded_doubles(values: pa.Array, digits: int) -> pa.Array:
    """Round the decimal texts of the numbers: 1.005 becomes 1.01, although the double is a little less than 1.005."""
    doubles = pc.fill_null(values, 0.0).to_numpy(zero_copy_only=False)
    size, power = np.abs(doubles), 10.0**digits
    with np.errstate(invalid="ignore", over="ignore"):
        floor = np.floor(size.astype(np.float64) * power)
        half = ((floor + 0.5) / power).astype(doubles.dtype)
        rounded = np.copysign(np.where(size >= half, floor + 1, floor) / power, doubles).astype(doubles.dtype)
        changes = floor < 1 << 52  # larger ones have no fraction; neither have infinity and NaN
    nulls = pc.is_null(values).to_numpy(zero_copy_only=False)
    return pa.array(np.where(changes, rounded, doubles), values.type, mask=nulls)


def _of_decimals(values: Values, change: Callable[[Values], Values]) -> Values:
    """Return rounded decimals in their type; DecodeError if rounding gives a number another digit, as 9.95 gets."""
    kind = values.type
    # Without room for that digit, Arrow returns 0 where a column has nulls.
    wide = pc.cast(values, pa.decimal256(kind.precision + 1, kind.scale))
    try:
        return pc.cast(change(wide), kind)
    except pa.ArrowInvalid as reason:
        raise DecodeError(
            f"a number is out of the range of its type: {reason}",
            hint=f"cast it to more digits first: cast(x as decimal({min(kind.precision + 1, 38)}, {kind.scale}))",
        ) from reason


def _to_whole(change: Callable[[Values], Values]) -> Callable[[Sequence[Values], Moment], Values]:
    def result(arguments: Sequence[Values], moment: Moment) -> Values:
        value = arguments[0]
        if pa.types.is_decimal(value.type):
            return _of_decimals(value, change)
        return value if pa.types.is_integer(value.type) else change(value)

    return result


def _coalesce(arguments: Sequence[Values], moment: Moment) -> Values:
    return pc.coalesce(*common(arguments))


def _nullif(arguments: Sequence[Values], moment: Moment) -> Values:
    left, right = aligned(arguments[0], arguments[1])
    same = pc.fill_null(pc.equal(left, right), pa.scalar(value=False))
    return pc.if_else(same, pa.scalar(None, arguments[0].type), arguments[0])


def _if(arguments: Sequence[Values], moment: Moment) -> Values:
    yes, no = common(arguments[1:])
    return pc.if_else(pc.fill_null(arguments[0], pa.scalar(value=False)), yes, no)


def _extreme(choose: Callable[..., Values]) -> Callable[[Sequence[Values], Moment], Values]:
    return lambda arguments, moment: choose(*common(arguments), skip_nulls=False)


def _field(extract: Callable[[Values], Values]) -> Callable[[Sequence[Values], Moment], Values]:
    return lambda arguments, moment: pc.cast(extract(stamps(arguments[0])), pa.int32())


def _date_format(arguments: Sequence[Values], moment: Moment) -> Values:
    return formatted(stamps(arguments[0]), constant(arguments[1], "date_format"))


def _to_date(arguments: Sequence[Values], moment: Moment) -> Values:
    return pc.cast(pc.floor_temporal(read_time(arguments, "to_date"), 1, unit="day"), pa.date32())


def _to_timestamp(arguments: Sequence[Values], moment: Moment) -> Values:
    return read_time(arguments, "to_timestamp")


def _mod(arguments: Sequence[Values], moment: Moment) -> Values:
    return remainder(arguments[0], arguments[1])


def _sign(arguments: Sequence[Values], moment: Moment) -> Values:
    return pc.cast(pc.sign(arguments[0]), pa.int32())


FUNCTIONS: dict[str, Function] = {
    "upper": Function(1, 1, "upper(text)", "the text in upper case", texts_of.changed(pc.utf8_upper)),
    "lower": Function(1, 1, "lower(text)", "the text in lower case", texts_of.changed(pc.utf8_lower)),
    "trim": Function(1, 2, "trim(text[, characters])",
        "removes characters, or blanks, at both ends; `trim(leading 'x' from text)` also works",
        texts_of.trimmed(pc.utf8_trim)),
    "ltrim": Function(1, 2, "ltrim(text[, characters])", "removes them at the beginning",
        texts_of.trimmed(pc.utf8_ltrim)),
    "rtrim": Function(1, 2, "rtrim(text[, characters])", "removes them at the end", texts_of.trimmed(pc.utf8_rtrim)),
    "btrim": Function(1, 2, "btrim(text[, characters])", "the same as trim", texts_of.trimmed(pc.utf8_trim)),
    "lpad": Function(3, 3, "lpad(text, n, fill)",
        "the text filled at its beginning, or cut, to n characters", texts_of.padded(before=True)),
    "rpad": Function(3, 3, "rpad(text, n, fill)",
        "the text filled at its end, or cut, to n characters", texts_of.padded(before=False)),
    "repeat": Function(2, 2, "repeat(text, n)", "the text n times", texts_of.repeated),
    "reverse": Function(1, 1, "reverse(text)", "the text reversed", texts_of.changed(pc.utf8_reverse)),
    "char_length": Function(1, 1, "char_length(text)", "the number of characters", texts_of.changed(pc.utf8_length)),
    "length": Function(1, 1, "length(text)", "the same as char_length", texts_of.changed(pc.utf8_length)),
    "concat": Function(1, MANY, "concat(a, b, ...)", "joins the texts; `a || b` is the same", texts_of.concat),
    "concat_ws": Function(2, MANY, "concat_ws(sep, a, ...)",
        "joins the texts with a separator and skips nulls", texts_of.concat_ws),
    "substring": Function(2, 3, "substring(text, from[, length])",
        "a part of the text; the first character has position 1", texts_of.substring),
    "substr": Function(2, 3, "substr(text, from[, length])", "the same as substring", texts_of.substring),
    "left": Function(2, 2, "left(text, n)", "the first n characters", texts_of.left),
    "right": Function(2, 2, "right(text, n)", "the last n characters", texts_of.right),
    "replace": Function(3, 3, "replace(text, 'old', 'new')", "replaces each occurrence", texts_of.replaced),
    "regexp_replace": Function(3, 3, "regexp_replace(text, 'regex', 'new')", "replaces each match",
        texts_of.regexp_replace),
    "regexp_like": Function(2, 2, "regexp_like(text, 'regex')",
        "whether the text contains a match of the regex", texts_of.regexp_like),
    "regexp_extract": Function(2, 3, "regexp_extract(text, 'regex'[, group])",
        "the first match of the regex, or a group of it; null without a match", texts_of.regexp_extract),
    "regexp_substr": Function(2, 2, "regexp_substr(text, 'regex')",
        "the first match of the regex; null without a match", texts_of.regexp_extract),
    "regexp_count": Function(2, 2, "regexp_count(text, 'regex')", "the number of matches", texts_of.regexp_count),
    "locate": Function(2, 2, "locate('part', text)",
        "the position of the first occurrence, from 1; 0 without one", texts_of.locate),
    "instr": Function(2, 2, "instr(text, 'part')", "the same, with the text first", texts_of.instr),
    "startswith": Function(2, 2, "startswith(text, 'part')",
        "whether the text begins with the part", texts_of.startswith),
    "endswith": Function(2, 2, "endswith(text, 'part')", "whether the text ends with the part", texts_of.endswith),
    "md5": Function(1, 1, "md5(text)", "digest as hexadecimal text", _hashed("md5")),
    "sha256": Function(1, 1, "sha256(text)", "digest as hexadecimal text", _hashed("sha256")),
    "abs": Function(1, 1, "abs(x)", "the absolute value", lambda arguments, _: pc.abs_checked(arguments[0])),
    "sign": Function(1, 1, "sign(x)", "the sign: -1, 0 or 1", _sign),
    "ceil": Function(1, 1, "ceil(x)", "rounds up to a whole number", _to_whole(pc.ceil)),
    "ceiling": Function(1, 1, "ceiling(x)", "the same as ceil", _to_whole(pc.ceil)),
    "floor": Function(1, 1, "floor(x)", "rounds down to a whole number", _to_whole(pc.floor)),
    "round": Function(1, 2, "round(x[, digits])", "rounds to this number of digits, halves up", _round),
    "mod": Function(2, 2, "mod(a, b)", "the remainder of a / b, with the sign of a; `a % b` is the same", _mod),
    "power": Function(2, 2, "power(x, y)", "x to the power of y, a double", lambda arguments, _: pc.power(
        as_doubles(arguments[0]), as_doubles(arguments[1]))),
    "sqrt": Function(1, 1, "sqrt(x)", "the square root", lambda arguments, _: pc.sqrt(as_doubles(arguments[0]))),
    "greatest": Function(2, MANY, "greatest(a, b, ...)",
        "the greatest value; null if any is null", _extreme(pc.max_element_wise)),
    "least": Function(2, MANY, "least(a, b, ...)",
        "the least value; null if any is null", _extreme(pc.min_element_wise)),
    "coalesce": Function(1, MANY, "coalesce(a, b, ...)", "the first value that is not null", _coalesce),
    "ifnull": Function(2, 2, "ifnull(a, b)", "b if a is null, else a", _coalesce),
    "nullif": Function(2, 2, "nullif(a, b)", "null if a = b, else a", _nullif),
    "if": Function(3, 3, "if(condition, a, b)", "a if the condition is true, else b", _if),
    "year": Function(1, 1, "year(time)", "of a date or a timestamp", _field(pc.year)),
    "quarter": Function(1, 1, "quarter(time)", "1 to 4", _field(pc.quarter)),
    "month": Function(1, 1, "month(time)", "1 to 12", _field(pc.month)),
    "day": Function(1, 1, "day(time)", "of the month", _field(pc.day)),
    "hour": Function(1, 1, "hour(time)", "0 to 23", _field(pc.hour)),
    "minute": Function(1, 1, "minute(time)", "0 to 59", _field(pc.minute)),
    "second": Function(1, 1, "second(time)", "0 to 59", _field(pc.second)),
    "date_format": Function(2, 2, "date_format(time, 'yyyy-MM-dd')",
        "a time as text, with a pattern of Java", _date_format),
    "to_date": Function(1, 2, "to_date(x[, pattern])", "the date of a time or text, with a pattern of Java", _to_date),
    "to_timestamp": Function(1, 2, "to_timestamp(x[, pattern])",
        "a text as a timestamp, with a pattern of Java", _to_timestamp),
    "timestampdiff": Function(3, 3, "timestampdiff(unit, a, b)",
        "the whole units from a to b: `second` to `year`", times.difference),
    "timestamp_diff": Function(3, 3, "timestamp_diff(unit, a, b)", "the same as timestampdiff", times.difference),
    "timestampadd": Function(3, 3, "timestampadd(unit, n, time)",
        "the time n units later: `second` to `year`", times.added),
    "unix_timestamp": Function(0, 2, "unix_timestamp([x[, pattern]])",
        "seconds since 1970: of the batch, of a time, or of a text in `local-time-zone`", times.unix_timestamp),
    "from_unixtime": Function(1, 2, "from_unixtime(seconds[, pattern])",
        "seconds since 1970 as text in `local-time-zone`, by default as `yyyy-MM-dd HH:mm:ss`", times.from_unixtime),
    "now": Function(0, 0, "now()", "the instant of the batch in UTC, the same when it is read again", times.now),
    "current_timestamp": Function(0, 0, "current_timestamp", "the same as now()", times.now),
    "localtimestamp": Function(0, 0, "localtimestamp",
        "the instant of the batch in `local-time-zone`", times.local_timestamp),
    "localtime": Function(0, 0, "localtime",
        "the time of day of the batch in `local-time-zone`, `TIME(0)`", times.local_time),
    "current_time": Function(0, 0, "current_time", "the same as localtime", times.local_time),
    "current_date": Function(0, 0, "current_date", "the date of the batch in `local-time-zone`", times.today),
}  # fmt: skip
