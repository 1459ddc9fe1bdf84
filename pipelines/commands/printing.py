"""Answers of commands: as text for people, with --json as one JSON value for programs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from math import isfinite

from penstock.pipelines.commands.arguments import Given


def answer(given: Given, facts: Mapping[str, object], said: str | None = None) -> int:
    """The facts, or for people the sentence that tells them."""
    if wants_json(given):
        print(json_text(dict(facts)))
    elif said is not None:
        print(said)
    else:
        print_facts(facts)
    return 0


def json_text(value: object) -> str:
    """One JSON value that any program reads: NaN and the infinities, for which JSON has no form, are texts."""
    try:
        return json.dumps(value, default=plain, allow_nan=False)
    except ValueError:
        return json.dumps(_finite(value), default=plain)


def _finite(value: object) -> object:
    match value:
        case float() if not isfinite(value):
            return str(value)
        case dict():
            return {name: _finite(one) for name, one in value.items()}
        case list() | tuple():
            return [_finite(one) for one in value]
    return value


def wants_json(given: Given) -> bool:
    return given.get("json", ["false"])[-1].lower() == "true"


def print_facts(facts: Mapping[str, object]) -> None:
    width = max(map(len, facts), default=0)
    for name, value in facts.items():
        print(f"{name:<{width}}  {shown(value)}")


def print_rows(names: Sequence[str], rows: Iterable[Sequence[object]], indent: str = "") -> None:
    """Columns under their names; numbers to the right."""
    values = [list(row) for row in rows]
    texts = [[shown(cell) for cell in row] for row in values]
    widths = [max(len(name), *(len(row[place]) for row in texts), 0) for place, name in enumerate(names)]
    right = [all(isinstance(row[place], int | float | Decimal | None) for row in values) for place in range(len(names))]

    def line(cells: Sequence[str]) -> str:
        places = zip(cells, widths, right, strict=True)
        return "  ".join(cell.rjust(width) if to_right else cell.ljust(width) for cell, width, to_right in places)

    print(indent + line(list(names)).rstrip())
    print(indent + "  ".join("-" * width for width in widths))
    for row in texts:
        print(indent + line(row).rstrip())


def shown(value: object) -> str:
    match value:
        case None:
            return ""
        case bool():
            return str(value).lower()
        case bytes():
            return "0x" + value.hex()
        case dict() | list():
            return json.dumps(value, default=plain)
    return str(value)


def plain(value: object) -> object:
    """What JSON has no form for, as text that loses nothing."""
    match value:
        case datetime() | date() | time():
            return value.isoformat()
        case bytes():
            return value.hex()
        case Decimal() | timedelta():
            return str(value)
    raise TypeError(f"{type(value).__name__} has no form in JSON")
