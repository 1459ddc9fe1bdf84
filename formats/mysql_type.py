"""MySQL's declared type texts as canal and Debezium send them: `int(11) unsigned`, `enum('a','b')`, in any case."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

_CHARSET = re.compile(r"\s(?:CHARACTER SET|CHARSET|COLLATE)\b.*")
_OPTIONS_APART = re.compile(r"'\s*,\s*'")


@dataclass(frozen=True, slots=True)
class MysqlType:
    """A parsed type. `name` is upper case and includes the words after the bracket: INT UNSIGNED.

    `options` are the labels of ENUM and SET.
    """

    name: str
    length: int | None = None
    scale: int | None = None
    options: tuple[str, ...] = ()


@lru_cache(maxsize=8192)
def parse_mysql_type(text: str) -> MysqlType:
    """Parse a declared type text."""
    opening, closing = text.find("("), text.rfind(")")
    if opening < 0 or closing < opening:
        return MysqlType(_name(text, ""))
    name, inside = _name(text[:opening], text[closing + 1 :]), text[opening + 1 : closing]
    if "'" in inside:
        return MysqlType(name, options=_options(inside))
    numbers = [int(part) if part.strip().isdecimal() else None for part in inside.split(",")]
    return MysqlType(name, numbers[0], numbers[1] if len(numbers) > 1 else None)


def _name(before: str, after: str) -> str:
    return _CHARSET.sub("", " ".join(f"{before} {after}".upper().split()))


def _options(inside: str) -> tuple[str, ...]:
    between = inside[inside.find("'") + 1 : inside.rfind("'")]
    return tuple(option.replace("''", "'") for option in _OPTIONS_APART.split(between))
