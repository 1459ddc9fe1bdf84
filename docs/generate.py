"""Write the parts of the pages that follow from the code: python docs/generate.py. A test holds them current."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from penstock.schema_evolution.expressions.functions import FUNCTIONS
from penstock.schema_evolution.masks import FORMS

DOCS = Path(__file__).resolve().parent


def functions() -> str:
    return _table("function | gives", ([f"`{one.form}`", one.does] for one in FUNCTIONS.values()))


def masks() -> str:
    return _table("mask | gives", ([f"`{form}`", does] for form, does in FORMS))


def _table(head: str, rows: Iterable[Sequence[str]]) -> str:
    lines = [f"| {head} |", "|---" * (head.count("|") + 1) + "|", *(f"| {' | '.join(row)} |" for row in rows)]
    return "\n" + "\n".join(lines) + "\n\n"


PARTS = {"transforms.md": {"functions": functions, "masks": masks}}


def generated(page: str) -> str:
    """The page with its generated parts as they should be."""
    text = (DOCS / page).read_text(encoding="utf-8")
    for name, part in PARTS[page].items():
        pattern = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end -->)", re.DOTALL)
        text, count = pattern.subn(lambda found, part=part: found[1] + part() + found[2], text)
        if count != 1:
            raise ValueError(f"{page} has no place for {name}")
    return text


if __name__ == "__main__":
    for page in PARTS:
        (DOCS / page).write_text(generated(page), encoding="utf-8")
