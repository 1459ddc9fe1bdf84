"""The time in a partition's values, parsed like Java's DateTimeFormatter.

Times are wall-clock milliseconds, encoded as if they were UTC.
"""

from __future__ import annotations

import calendar
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta

from penstock.errors import ConfigError
from penstock.table.buckets.layout import Layout
from penstock.table.options.partitions import PARTITION_TIMESTAMP_FORMATTER, PARTITION_TIMESTAMP_PATTERN
from penstock.table.options.table_options import TableOptions
from penstock.table.values.partition_text import value_text

_PARTS = re.compile(r"([A-Za-z])\1*|'((?:[^']|'')*)'|\[|\]|[^A-Za-z'\[\]]+")
_LETTERS = {
    "y": "year", "u": "year", "M": "month", "d": "day", "H": "hour", "m": "minute", "s": "second", "S": "fraction",
}  # fmt: skip
_OPTIONAL = {"[": "(?:", "]": ")?"}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class TimeForm:
    """A format of times. With `lenient`, month 13 is January of the next year, and day 32 a day of the next month."""

    pattern: re.Pattern[str]
    lenient: bool = False

    @classmethod
    def of(cls, formatter: str) -> TimeForm:
        """Build from a Java pattern. Widths are significant: the month `202411` does not match `yyyyMMdd`."""
        pattern = "".join(_piece(match) for match in _PARTS.finditer(formatter))
        try:
            # A letter that occurs twice would be two groups of one name, which `re` refuses.
            form = cls(re.compile(pattern))
        except re.error as reason:
            raise _unknown(formatter) from reason
        if not {"year", "month", "day"} <= set(form.pattern.groupindex):
            raise ConfigError(
                f"times of the form {formatter!r} contain no day",
                hint="name year, month and day; partition.timestamp-pattern can add what the values lack: '$month-01'",
            )
        return form

    def millis(self, text: str) -> int | None:
        """Return the time, None for a text in another format or a time that does not exist."""
        match = self.pattern.fullmatch(text)
        if match is None:
            return None
        parts = {name: found for name, found in match.groupdict().items() if found is not None}
        fraction = int(parts.pop("fraction", "").ljust(3, "0")[:3])
        numbers = {name: int(found) for name, found in parts.items()}
        # As in Java, a year of two digits is one from 2000 to 2099.
        if len(parts["year"]) == 2:
            numbers["year"] += 2000
        moment = _lenient(numbers) if self.lenient else _smart(numbers)
        return None if moment is None else (moment - _EPOCH) // timedelta(milliseconds=1) + fraction


def _piece(match: re.Match[str]) -> str:
    letter, width = match[1], len(match[0])
    if letter is None:
        return _OPTIONAL.get(match[0]) or re.escape(
            match[0] if match[2] is None else match[2].replace("''", "'") or "'"
        )
    name = _LETTERS.get(letter)
    if name is None or (width > 2 and name not in {"year", "fraction"}):
        raise _unknown(match[0])
    widths = str(width)
    if width == 1 and name != "fraction":
        widths = "1,9" if name == "year" else "1,2"
    return f"(?P<{name}>[0-9]{{{widths}}})"


def _unknown(formatter: str) -> ConfigError:
    return ConfigError(
        f"{formatter!r} of the timestamp formatter is not known", hint="use y, M, d, H, m, s, S and literals, each once"
    )


def _smart(numbers: Mapping[str, int]) -> datetime | None:
    """Return the time, or None when a number is out of range.

    The 31st of a shorter month is its last day, and 24:00 is midnight of the next day.
    """
    if not (1 <= numbers["month"] <= 12 and 1 <= numbers["day"] <= 31 and 1 <= numbers["year"] <= 9999):
        return None
    last = calendar.monthrange(numbers["year"], numbers["month"])[1]
    day = datetime(numbers["year"], numbers["month"], min(numbers["day"], last), tzinfo=UTC)
    clock = [numbers.get(name, 0) for name in ("hour", "minute", "second")]
    if clock == [24, 0, 0]:
        return day + timedelta(days=1)
    try:
        return datetime.combine(day, time(clock[0], clock[1], clock[2]), UTC)
    except ValueError:
        return None


def _lenient(numbers: Mapping[str, int]) -> datetime | None:
    # Months are counted from year 0, so that month 13 becomes January of the next year without a special case.
    months = numbers["year"] * 12 + numbers["month"] - 1
    clock = {f"{name}s": numbers.get(name, 0) for name in ("hour", "minute", "second")}
    try:
        return datetime(months // 12, months % 12 + 1, 1, tzinfo=UTC) + timedelta(days=numbers["day"] - 1, **clock)
    except (OverflowError, ValueError):
        return None


_DIGITS = {"year": "1,10", "month": "1,2", "day": "1,2", "hour": "1,2", "minute": "1,2", "second": "1,2"}
_YEAR, _MONTH, _DAY, _HOUR, _MINUTE, _SECOND = (f"(?P<{name}>[0-9]{{{width}}})" for name, width in _DIGITS.items())
DEFAULT_FORM = TimeForm(
    re.compile(rf"{_YEAR}-{_MONTH}-{_DAY}(?: {_HOUR}:{_MINUTE}:{_SECOND}(?:\.(?P<fraction>[0-9]{{1,9}}))?)?"),
    lenient=True,
)


@dataclass(frozen=True, slots=True)
class PartitionTimes:
    """The wall-clock times of partitions: `pattern` combines their values into one text, `form` parses it.

    `formatter` is the text of the form, None for the default one.
    """

    pattern: str | None
    form: TimeForm
    formatter: str | None = None

    @classmethod
    def of(cls, values: Mapping[str, str]) -> PartitionTimes:
        """Build from the options of a table."""
        options = TableOptions(values)
        formatter = options[PARTITION_TIMESTAMP_FORMATTER]
        form = DEFAULT_FORM if formatter is None else TimeForm.of(formatter)
        return cls(options[PARTITION_TIMESTAMP_PATTERN], form, formatter)

    def of_partition(self, layout: Layout, partition: bytes) -> int | None:
        """Return the time of the partition's values, None when they contain no time."""
        text = self._text(layout, partition)
        return None if text is None else self.form.millis(text)

    def _text(self, layout: Layout, partition: bytes) -> str | None:
        texts = self.texts(layout, partition)
        if self.pattern is None:
            return next(iter(texts.values()))
        # A name that is not a partition column stays in the text, which then is not a time.
        return re.sub(r"\$(\w+)", lambda match: str(texts.get(match[1], match[0])), self.pattern)

    def unreadable(self, layout: Layout, partition: bytes) -> ConfigError:
        """Return the error for a table whose partitions contain no time. This partition is the example."""
        return ConfigError(
            f"no partition contains a time that can be read, so none can expire: {self._text(layout, partition)!r} is "
            f"not of the form {self.formatter or 'yyyy-MM-dd[ HH:mm:ss]'}",
            hint="set partition.timestamp-pattern and partition.timestamp-formatter (timestamp_pattern and "
            "timestamp_formatter) to the form of the values, or partition.expiration-strategy = update-time",
        )

    def check(self, columns: Sequence[str]) -> None:
        """Raise ConfigError if the pattern names no column, or others than these: no partition has a time by it."""
        named = re.findall(r"\$(\w+)", self.pattern or "")
        if self.pattern is not None and not named:
            raise ConfigError(
                "the pattern of partition times names no partition column, so it is the same for all partitions",
                pattern=self.pattern,
                hint=f"partition columns are {', '.join(columns)}; write them as ${columns[0]}",
            )
        unknown = [column for column in named if column not in columns]
        if unknown:
            raise ConfigError(
                f"the pattern of partition times names {unknown[0]!r}, which is not a partition column",
                pattern=self.pattern,
                hint=f"partition columns are {', '.join(columns)}; write them as ${columns[0]}",
            )

    @staticmethod
    def texts(layout: Layout, partition: bytes) -> dict[str, str | None]:
        """Return the partition's values as text by column name."""
        values = zip(layout.partition_fields, layout.partition_values(partition), strict=True)
        return {field.name: value_text(value, field.type) for field, value in values}
