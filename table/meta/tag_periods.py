"""The names of automatic tags, and the period of time each name represents.

Times are wall-clock milliseconds encoded as if they were UTC: tags are named by local time.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from penstock.errors import ConfigError
from penstock.table.options.partitions import (
    TAG_CREATION_DELAY,
    TAG_CREATION_PERIOD,
    TAG_CREATION_PERIOD_DURATION,
    TAG_PERIOD_FORMATTER,
)
from penstock.table.options.table_options import TableOptions

MINUTE = 60_000
HOUR = 60 * MINUTE
DAY = 24 * HOUR
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_PERIODS = {"daily": DAY, "hourly": HOUR, "two-hours": 2 * HOUR}
_DAYS = {"with_dashes": "%Y-%m-%d", "without_dashes": "%Y%m%d", "without_dashes_and_spaces": "%Y%m%d"}
_HOURS = {"with_dashes": "%Y-%m-%d %H", "without_dashes": "%Y%m%d %H", "without_dashes_and_spaces": "%Y%m%d%H"}
_MINUTES = "%Y%m%d%H%M"
_PARTS = {"%Y": r"(?P<year>\d{1,10})", "%m": r"(?P<month>\d\d)", "%d": r"(?P<day>\d\d)"}
_CLOCK = {"%H": r"(?P<hour>\d\d)", "%M": r"(?P<minute>\d\d)"}


@dataclass(frozen=True, slots=True)
class TagPeriod:
    """The periods of automatic tags.

    A tag is created `delay` after the end of its period of `millis`, and is named by the begin of the period.
    """

    millis: int
    form: str
    delay: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.delay < self.millis:
            raise ConfigError(
                "tag.creation-delay is longer than the period of the tags", hint="lower tag.creation-delay"
            )

    @classmethod
    def of(cls, values: Mapping[str, str]) -> TagPeriod:
        """Build from the options of a table."""
        options = TableOptions(values)
        delay = options[TAG_CREATION_DELAY]
        length = options[TAG_CREATION_PERIOD_DURATION]
        if length is not None:
            return cls(length, _MINUTES, delay)
        period = options[TAG_CREATION_PERIOD]
        style = options[TAG_PERIOD_FORMATTER]
        if period == "two-hours":  # Java ignores the formatter for this period
            return cls(_PERIODS[period], _HOURS["with_dashes"], delay)
        return cls(_PERIODS[period], (_DAYS if period == "daily" else _HOURS)[style], delay)

    def before(self, local: int) -> int:
        """Return the begin of the newest period that has ended at that time."""
        return local // self.millis * self.millis - self.millis

    def after(self, begin: int) -> int:
        """Return the begin of the next period."""
        return begin + self.millis

    def name(self, begin: int) -> str:
        """Return the name of the tag of the period that begins at `begin`."""
        return (EPOCH + timedelta(milliseconds=begin)).strftime(self.form)

    def begin(self, name: str) -> int | None:
        """Return the begin of a tag's period; None for a name that is not an automatic tag's.

        As lenient as Java: day 32 is the first of the next month, and anything after a daily name and a space is
        ignored.
        """
        pattern = re.escape(self.form)
        for letter, part in (_PARTS | _CLOCK).items():
            pattern = pattern.replace(re.escape(letter), part)
        match = re.fullmatch(pattern, name.split(" ", maxsplit=1)[0] if self.form in _DAYS.values() else name)
        if match is None:
            return None
        found = {part: int(text) for part, text in match.groupdict().items()}
        months = found["year"] * 12 + found["month"] - 1
        try:
            first = datetime(months // 12, months % 12 + 1, 1, tzinfo=UTC)
        except ValueError:
            return None
        clock = timedelta(days=found["day"] - 1, hours=found.get("hour", 0), minutes=found.get("minute", 0))
        return (first + clock - EPOCH) // timedelta(milliseconds=1)
