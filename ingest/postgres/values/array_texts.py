"""Arrays as the server prints them: `{1,NULL,"a b"}`, `[0:1]={7,8}`, `{{1,2},{3,4}}`."""

from __future__ import annotations

import re

_BOUNDS = re.compile(r"(?:\[[-\d]+:[-\d]+\])+=")
_ELEMENT = re.compile(r'"((?:[^"\\]|\\.)*)"|((?:[^",{}\\]|\\.)+)', re.DOTALL)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)


def elements_of(text: str) -> list[str | None] | None:
    """Return the elements of an array with one dimension, None for an array with several.

    ValueError if the text is not an array.
    """
    bounds = _BOUNDS.match(text)
    body = text[bounds.end() :] if bounds else text
    if not (body.startswith("{") and body.endswith("}")):
        raise ValueError(f"{text[:80]!r} is not an array")
    if body.startswith("{{"):
        return None
    found: list[str | None] = []
    at, end = 1, len(body) - 1
    while at < end:
        element = _ELEMENT.match(body, at, end)
        if element is None:
            raise ValueError(f"{text[:80]!r} is not an array")
        quoted, plain = element.groups()
        content = _ESCAPE.sub(r"\1", plain if quoted is None else quoted)
        found.append(None if quoted is None and plain.upper() == "NULL" else content)
        at = element.end() + 1  # after the comma
    return found
