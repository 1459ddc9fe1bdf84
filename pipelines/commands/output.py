"""Answers of commands: as text for people, with --json as one JSON value for programs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from math import isfinite
from unicodedata import combining, east_asian_width

from penstock.pipelines.commands.arguments import Flags

# Control characters, line separators, marks that change the direction of text, and surrogates, which cannot be
# encoded.
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def answer(flags: Flags, facts: Mapping[str, object], said: str | None = None) -> int:
    """Print the facts as JSON if requested, otherwise the sentence."""
    if wants_json(flags):
        print(json_text(dict(facts)))
    elif said is not None:
        print(said)
    else:
        print_facts(facts)
    return 0


def json_text(value: object) -> str:
    """Return a JSON value that any program can read: NaN and infinities, which JSON does not have, become texts."""
    try:
        return json.dumps(value, default=plain, allow_nan=False)
    except ValueError:
        return json.dumps(_finite(value), default=plain)


def _finite(value: object) -> object:
    match value:
        case float() if not isfinite(value):
            return str(value)
        case dict():
            return {name: _finite(member) for name, member in value.items()}
        case list() | tuple():
            return [_finite(member) for member in value]
    return value


def wants_json(flags: Flags) -> bool:
    return flags.get("json", ["false"])[-1].lower() == "true"


def print_facts(facts: Mapping[str, object]) -> None:
    width = max(map(len, facts), default=0)
    for name, value in facts.items():
        print(f"{name:<{width}}  {harmless(shown(value))}")


def print_rows(names: Sequence[str], rows: Iterable[Sequence[object]], indent: str = "", null: str = "") -> None:
    """Print lines with the columns below their names, and numbers aligned to the right; `null` stands for no value."""
    values = [list(row) for row in rows]
    names = [harmless(name) for name in names]
    texts = [[null if cell is None else harmless(shown(cell)) for cell in row] for row in values]
    widths = [max(cells(name), *(cells(row[place]) for row in texts), 0) for place, name in enumerate(names)]
    right = [all(isinstance(row[place], int | float | Decimal | None) for row in values) for place in range(len(names))]

    def line(row: Sequence[str]) -> str:
        blanks = (" " * (width - cells(cell)) for cell, width in zip(row, widths, strict=True))
        places = zip(row, blanks, right, strict=True)
        return "  ".join(blank + cell if to_right else cell + blank for cell, blank, to_right in places)

    print(indent + line(names).rstrip())
    print(indent + "  ".join("-" * width for width in widths))
    for row in texts:
        print(indent + line(row).rstrip())


def print_text(text: str) -> None:
    """Print a text of several lines, such as a statement or a plan, with its line breaks."""
    print("\n".join(harmless(line) for line in text.split("\n")))


def harmless(text: str) -> str:
    """Return a text that is safe for a terminal: characters that move the cursor or reverse the text are escaped."""
    return _CONTROLS.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def cells(text: str) -> int:
    """Return the number of columns that the text occupies in a terminal."""
    if text.isascii():
        return len(text)
    # Wide letters of East Asia occupy two columns, and combining marks no column.
    return sum((east_asian_width(letter) in "WF") + (combining(letter) == 0) for letter in text)


def shown(value: object) -> str:
    match value:
        case None:
            return ""
        case bool():
            return str(value).lower()
        case bytes():
            return "0x" + value.hex()
        case dict() | list():
            return json.dumps(value, default=plain, ensure_ascii=False)
    return str(value)


def plain(value: object) -> object:
    """Return a value that JSON cannot represent as text, without loss."""
    match value:
        case datetime() | date() | time():
            return value.isoformat()
        case bytes():
            return value.hex()
        case Decimal() | timedelta():
            return str(value)
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")


def committed(flags: Flags, snapshots: Sequence[int], nothing: str, note: str = "") -> int:
    """Print the ids of the snapshots that a command has made, or `nothing` if there are none."""
    said = f"committed as snapshot {snapshots[0]}{note}" if snapshots else nothing
    return answer(flags, {"snapshots": list(snapshots)}, said)
