"""Docstrings, messages and documentation use plain words: see docs/glossary.md.

The documentation must be free of the words below. Docstrings and messages (errors, hints, log events, help) are
compared with a budget per package, which only gets smaller: lower it after a rewrite.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.source_trees import source_nodes

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
# Words of a private dialect, and what to write instead.
WORDS = {
    r"anew": "again",
    r"whereof|thereof|whereby": "a relative clause with its noun",
    r"of which it": "a sentence with a subject",
    r"(it|that|which|who) tells?|is told|are told|tell of": "report, show, log, contain",
    r"there is none|(?-i:is none)|none of it": "does not exist, no",
    r"stands? (in|beside|for) (a|the) (log|file|table|checkpoint|message)": "is in",
    r"as ever|had better": "still, should",
    r"what (of|becomes of|came of) (it|them|the)": "a noun",
    r"the house|this room|that room|next door|higher floors?": "package, layer",
    r"puts? (it )?right": "correct, fix",
    r"said by|is said": "set by, is reported",
    # Of places in a text or an order. A replica or a table may be behind its source.
    (
        r"behind (it|its name|ON|FROM|WITH|USING|that|a (table|word|comma|condition|range|snapshot|change)"
        r"|the (path|columns|name|beginning|end|statement|snapshot|alias|point|hint))"
    ): "after",
    r"comes? twice|unlike (kinds|types)": "is applied twice, different",
}
# Words that a message must not use either: errors, hints, log events and help are read without their context.
MESSAGE_WORDS = {
    r"tell|tells|told": "report, show, log",
    r"(take|takes|taken)(?! effect)": "accept, capture, read, need",
    r"(stand|stands)(?! for)": "is, exists",
    r"lie|lies": "is",
    r"give|gives|gave": "set, return, use",
    r"hold|holds|held": "contain, keep",
    r"goes on|go on": "continue",
    r"so many": "the number",
    r"of (its|our|their|his|your) own": "separate",
    r"(?<!there )(is|are) no (?!longer\b|such\b)\w+": "is not a",
    r"(one|rows|files|tasks|bytes|records|lines|keys|messages) an? (row|table|task|batch|key|bucket|file)": "per",
    r"leads? to another|wants? (a|the|[A-Z]+)|came with": "answers at the address, needs, was added in",
    r"vouch(es)?|refuses us|(our|my) (range|identity)": "a sentence about the server, the option or the pipeline",
}
# Words that the name of a test must not use.
TEST_NAME_WORDS = {
    "tell|tells|told|say|said": "report, show, log",
    "stand|stands|stood|lie|lies|lay": "is, exists",
    "hold|holds|held": "contain, keep",
    "goes|go|went|gone": "continue, is removed, is deleted",
    "take|takes|took|taken": "accept, read, use, need",
    "asked|wanted|heard|seen": "requested, configured, detected",
    "anew|whoever|whatever|whichever|wherever|however": "a condition with its noun",
    "nobody|somebody|nowhere": "a noun",
    "outlive|outlives|living|died|dies|dead": "survive, running, killed",
    "door|doors|house|room|floor_above": "entry point, package",
}
PATTERN = {word: re.compile(rf"\b(?:{word})\b", re.IGNORECASE) for word in WORDS}
MESSAGE_PATTERN = PATTERN | {word: re.compile(rf"\b(?:{word})\b", re.IGNORECASE) for word in MESSAGE_WORDS}
_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"`[^`\n]*`")
# Tables made from the code: their texts are those of options.
_GENERATED = re.compile(r"^<!-- \w+ -->$.*?^<!-- end -->$", re.MULTILINE | re.DOTALL)
# Docstrings that begin with "Of", "Whether", "What" or "Where", or contain one of the words.
BUDGET = {
    "errors.py": 0,
    "extensions.py": 0,
    "references.py": 0,
    "settings.py": 0,
    "table_pattern.py": 0,
    "penstock.py": 0,
    "storage": 0,
    "formats": 0,
    "ingest": 0,
    "schema_evolution": 0,
    "table": 0,
    "pipelines": 0,
}

# String literals that read as prose and contain one of the words, in messages and where messages are built from.
MESSAGE_BUDGET = {
    "errors.py": 0,
    "extensions.py": 0,
    "settings.py": 0,
    "table_pattern.py": 0,
    "references.py": 0,
    "penstock.py": 0,
    "pyspark_penstock.py": 0,
    "storage": 0,
    "formats": 0,
    "ingest": 0,
    "schema_evolution": 0,
    "table": 0,
    "pipelines/api": 0,
    "pipelines/commands": 0,
    "pipelines/config": 0,
    "pipelines/driver": 0,
    "pipelines/errors.py": 0,
    "pipelines/job": 0,
    "pipelines/ledger": 0,
    "pipelines/mapping": 0,
    "pipelines/table_source": 0,
    "pipelines/monitor": 0,
    "pipelines/spark": 0,
    "pipelines/spark_catalog": 0,
    "pipelines/spark_cdc": 0,
    "pipelines/spark_source": 0,
    "pipelines/spark_streams": 0,
    "pipelines/tasks": 0,
    "pipelines/__init__.py": 0,
}
_TEST = re.compile(r"^ *def (test_\w+)", re.MULTILINE)
# Two words in small letters beside each other. SQL and patterns of Java have none.
_PROSE = re.compile(r"[a-z]{2,},? [a-z]{2,}")


def prose(page: Path) -> str:
    """Return the text of a page with code and generated tables blanked, line by line."""
    text = page.read_text(encoding="utf-8")
    for left_out in (_FENCE, _GENERATED):
        text = left_out.sub(lambda found: "\n" * found[0].count("\n"), text)
    return _CODE.sub("", text)


def docstrings(path: Path) -> Iterator[str]:
    for node in source_nodes(path):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            text = ast.get_docstring(node)
            if text:
                yield text


def messages(path: Path) -> Iterator[tuple[int, str]]:
    """Yield each string literal of a module that reads as prose and is not a docstring, with its line."""
    nodes = source_nodes(path)
    # A bare string as a statement is documentation, and the parts of an f-string belong to one text.
    left_out = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    left_out |= {
        id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in ast.walk(node) if part != node
    }
    for node in nodes:
        if id(node) in left_out:
            continue
        if isinstance(node, ast.JoinedStr):
            text = "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = node.value
        else:
            continue
        if _PROSE.search(text):
            yield node.lineno, text


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


@pytest.mark.slow
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


@pytest.mark.parametrize("package", MESSAGE_BUDGET)
def test_messages_of_a_package_only_get_better(package: str) -> None:
    paths = [ROOT / package] if package.endswith(".py") else sorted((ROOT / package).rglob("*.py"))
    found = [
        f"{path.relative_to(ROOT)}:{line}: {text[:90]!r}: {word}"
        for path in paths
        for line, text in messages(path)
        for word, pattern in MESSAGE_PATTERN.items()
        if pattern.search(text)
    ]
    assert len(found) <= MESSAGE_BUDGET[package], "\n".join(found)


@pytest.mark.slow
def test_names_of_tests_use_plain_words() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {name}: write {plain}"
        for path in sorted((ROOT / "tests").rglob("*.py"))
        for name in _TEST.findall(path.read_text(encoding="utf-8"))
        for words, plain in TEST_NAME_WORDS.items()
        if set(words.split("|")) & set(name.split("_"))
        if not ("dead" in name and "dead_letter" in name)
    ]
    assert found == []


@pytest.mark.slow
def test_every_package_has_a_budget_for_messages() -> None:
    covered = [ROOT / package for package in MESSAGE_BUDGET]
    shipped = [
        path
        for package in BUDGET
        for path in ([ROOT / package] if package.endswith(".py") else (ROOT / package).rglob("*.py"))
    ]
    assert [path for path in shipped if not any(path == place or place in path.parents for place in covered)] == []
