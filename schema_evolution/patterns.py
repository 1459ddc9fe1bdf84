"""Names of source tables as patterns: `shop.*`, `crm_([0-9]+).customer`, and Flink CDC's `app_\\.*.\\.*`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from penstock.errors import ConfigError

# A star after a character of a name stands for any text, as in a shell; after a bracket or a dot it repeats that.
_STAR = re.compile(r"(?<![\])}.\\*])\*")
_ESCAPED_DOT = "\\."


@dataclass(frozen=True, slots=True)
class TablePattern:
    """Matches `database.table` as a whole. The first dot that stands for itself parts the two."""

    text: str
    regex: re.Pattern[str]

    @classmethod
    def of(cls, text: str) -> TablePattern:
        database, table = _parted(text)
        try:
            return cls(text, re.compile(f"{_as_regex(database)}\\.{_as_regex(table)}"))
        except re.error as reason:
            raise ConfigError(f"{text!r} is no pattern of table names: {reason}") from reason

    @property
    def is_one_table(self) -> bool:
        """Whether it is a name, with nothing in it that stands for several."""
        return re.fullmatch(r"[\w$-]+\\?\.[\w$-]+", self.text) is not None

    def match(self, database: str | None, table: str | None) -> re.Match[str] | None:
        return self.regex.fullmatch(f"{database or ''}.{table or ''}")


def _parted(text: str) -> tuple[str, str]:
    """At the first bare dot; where each dot is escaped, at the first of those: then they are meant literally."""
    depth, place = 0, 0
    while place < len(text):
        letter = text[place]
        if letter == "\\":
            place += 2
            continue
        depth += (letter in "([{") - (letter in ")]}")
        quantified = text[place + 1 : place + 2] in {"*", "+", "?"} and "." in text[place + 1 :]
        if letter == "." and depth == 0 and not quantified:
            return text[:place], text[place + 1 :]
        place += 1
    if _ESCAPED_DOT in text:
        database, _, table = text.partition(_ESCAPED_DOT)
        return database, table
    raise ConfigError(f"{text!r} names no table", hint="write database.table; both may be regular expressions")


def _as_regex(part: str) -> str:
    """Flink CDC writes `\\.` where a regular expression has its dot."""
    return _STAR.sub(".*", part.replace(_ESCAPED_DOT, "."))
