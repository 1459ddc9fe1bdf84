"""Docstrings and documentation use plain words: see docs/glossary.md.

The documentation must be free of the words below. Docstrings are compared with a budget per package, which only gets
smaller: lower it after a rewrite.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
# Words of a private dialect, and what to write instead.
WORDS = {
    r"anew": "again",
    r"whereof|thereof|whereby": "a relative clause with its noun",
    r"of which it": "a sentence with a subject",
    r"(it|that|which|who) tells?|is told|are told|tell of": "report, show, log, contain",
    r"there is none|is none|none of it": "does not exist, no",
    r"stands? (in|beside|for) (a|the) (log|file|table|checkpoint|message)": "is in",
    r"as ever|had better": "still, should",
    r"what (of|becomes of|came of) (it|them|the)": "a noun",
    r"the house|this room|that room|next door|higher floors?": "package, layer",
    r"puts? (it )?right": "correct, fix",
    r"said by|is said": "set by, is reported",
}
PATTERN = {word: re.compile(rf"\b(?:{word})\b", re.IGNORECASE) for word in WORDS}
_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"`[^`\n]*`")
# Tables made from the code: their texts are those of options.
_GENERATED = re.compile(r"^<!-- \w+ -->$.*?^<!-- end -->$", re.MULTILINE | re.DOTALL)
# Docstrings that begin with "Of", "Whether", "What" or "Where", or contain one of the words.
BUDGET = {
    "errors.py": 0,
    "references.py": 0,
    "row_kinds.py": 0,
    "penstock.py": 0,
    "storage": 0,
    "formats": 3,
    "ingest": 8,
    "schema_evolution": 1,
    "table": 10,
    "pipelines": 19,
}


def prose(page: Path) -> str:
    """Return the text of a page with code and generated tables blanked, line by line."""
    text = page.read_text(encoding="utf-8")
    for left_out in (_FENCE, _GENERATED):
        text = left_out.sub(lambda found: "\n" * found[0].count("\n"), text)
    return _CODE.sub("", text)


def docstrings(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            text = ast.get_docstring(node)
            if text:
                yield text


def violations(text: str) -> list[str]:
    found = ["begins with " + text.split()[0]] if text.startswith(("Of ", "Whether ", "What ", "Where ")) else []
    return found + [word for word, pattern in PATTERN.items() if pattern.search(text)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_uses_plain_words(page: Path) -> None:
    lines = enumerate(prose(page).splitlines(), 1)
    found = [
        (number, word, line) for number, line in lines for word, pattern in PATTERN.items() if pattern.search(line)
    ]
    assert [(number, line, "write: " + WORDS[word]) for number, word, line in found] == []


@pytest.mark.parametrize("package", BUDGET)
def test_docstrings_of_a_package_only_get_better(package: str) -> None:
    paths = [ROOT / package] if package.endswith(".py") else sorted((ROOT / package).rglob("*.py"))
    found = {
        f"{path.relative_to(ROOT)}: {text[:60]!r}": bad
        for path in paths
        for text in docstrings(path)
        if (bad := violations(text))
    }
    assert len(found) <= BUDGET[package], "\n".join(f"{place}: {', '.join(bad)}" for place, bad in found.items())
