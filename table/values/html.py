"""Small HTML tables of facts and rows for notebooks. All texts are escaped, because names and values come from data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape

MOST_ROWS = 50
_CELL = ' style="text-align:left"'


def facts_html(title: str, facts: Mapping[str, object]) -> str:
    """Return a heading and a table with one line per fact. Empty facts are left out."""
    lines = (
        f"<tr><th{_CELL}>{escape(name)}</th><td{_CELL}>{_text(value)}</td></tr>"
        for name, value in facts.items()
        # Zero and false are facts and are shown.
        if value not in (None, "", (), [], {})
    )
    return f"<b>{escape(title)}</b><table>{''.join(lines)}</table>"


def rows_html(names: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table of the first rows, and a last line with the number of rows that are not shown."""
    all_rows = list(rows)
    head = "".join(f"<th{_CELL}>{escape(name)}</th>" for name in names)
    body = "".join(
        "<tr>" + "".join(f"<td{_CELL}>{_text(cell)}</td>" for cell in row) + "</tr>" for row in all_rows[:MOST_ROWS]
    )
    more = len(all_rows) - MOST_ROWS
    rest = f"<tr><td colspan={len(names)}>and {more} more</td></tr>" if more > 0 else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}{rest}</tbody></table>"


def _text(value: object) -> str:
    match value:
        case None:
            return ""
        # Before int, because a bool is an int too.
        case bool():
            return str(value).lower()
        case int():
            return f"{value:,}"
        case list() | tuple():
            return escape(", ".join(map(str, value)))
    return escape(str(value))
