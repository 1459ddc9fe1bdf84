"""The documentation is run: what it says to type works. Pages that need Spark or Kafka run in tests/integration."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from docs.generate import PARTS, generated
from penstock.schema_evolution.type_verdicts import Verdict, change_of
from penstock.schema_evolution.types.mapping import TypeMapping
from penstock.table.values.types import parse_type, type_json
from penstock.table_pattern import TablePattern
from tests.pages import NEEDS, PAGES, ROOT, blocks, needs, pages, run_page

LINKING = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
_LINK = re.compile(r"\]\(([^)#]+)(?:#[^)]*)?\)")
_LINK_TO_HEADING = re.compile(r"\]\(([^)#\s]*)#([^)]+)\)")
_TEST = re.compile(r"`(?:tests/)?((?:[\w-]+/)+test_\w+\.py)(?:::(\w+))?")
_CODE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
_VERDICTS = {
    Verdict.SAME: "nothing to do",
    Verdict.WIDEN: "the column becomes {type}",
    Verdict.KEEP: "the column stays {type}",
    Verdict.REFUSE: "refused",
}


def names(page: Path) -> str:
    return page.name


@pytest.mark.slow
@pytest.mark.parametrize("page", pages(None), ids=names)
def test_the_examples_of_a_page_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_page(page)


@pytest.mark.parametrize("page", LINKING, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_of_a_page_exist(page: Path) -> None:
    links = [link for link in _LINK.findall(page.read_text(encoding="utf-8")) if "://" not in link]
    assert [link for link in links if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", LINKING, ids=lambda page: str(page.relative_to(ROOT)))
def test_tests_that_a_page_names_exist(page: Path) -> None:
    found = {(ROOT / "tests" / file, test) for file, test in _TEST.findall(page.read_text(encoding="utf-8"))}
    assert sorted(str(file) for file, _ in found if not file.exists()) == []
    assert sorted(test for file, test in found if test and f"def {test}(" not in file.read_text(encoding="utf-8")) == []


def headings(page: Path) -> set[str]:
    """Return the names by which links of GitHub find the headings of a page."""
    found = _HEADING.findall(_CODE.sub("", page.read_text(encoding="utf-8")))
    return {re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-") for heading in found}


@pytest.mark.parametrize("page", LINKING, ids=lambda page: str(page.relative_to(ROOT)))
def test_headings_that_a_page_links_to_exist(page: Path) -> None:
    links = [link for link in _LINK_TO_HEADING.findall(page.read_text(encoding="utf-8")) if "://" not in link[0]]
    targets = [(page.parent / path if path else page, heading) for path, heading in links]
    assert [(path.name, heading) for path, heading in targets if heading not in headings(path)] == []


@pytest.mark.parametrize("page", PAGES, ids=names)
def test_each_block_runs_or_has_a_reason_not_to(page: Path) -> None:
    assert needs(page) <= NEEDS
    silent = [b.place for b in blocks(page) if b.note.startswith("not-run") and not b.note.partition(":")[2].strip()]
    assert silent == []


def test_the_table_of_type_pairs_matches_the_code() -> None:
    text = (ROOT / "docs" / "type-changes.md").read_text(encoding="utf-8")
    cells = [[cell.strip(" `") for cell in line.split("|")[1:-1]] for line in text.splitlines() if line[:3] == "| `"]
    rows = [row for row in cells if len(row) == 4]
    assert len(rows) > 20
    for old, new, documented, option in rows:
        change = change_of(parse_type(old), parse_type(new), TypeMapping.of([option] if option else []))
        assert documented.replace("`", "") == _VERDICTS[change.verdict].format(type=type_json(change.type)), (old, new)


@pytest.mark.slow
def test_every_error_class_has_a_remedy() -> None:
    text = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
    rooms = {
        "errors.py",
        "extensions.py",
        "references.py",
        "settings.py",
        "table_pattern.py",
        "table",
        "formats",
        "ingest",
        "pipelines",
        "schema_evolution",
        "storage",
    }
    above = {
        name: base
        for path in ROOT.rglob("*.py")
        if path.parts[len(ROOT.parts)] in rooms
        for name, base in re.findall(r"^class (\w+)\((\w+)\):", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    tree = {"PenstockError"}
    while found := {name for name, base in above.items() if base in tree} - tree:
        tree |= found
    assert len(tree) > 40
    assert sorted(name for name in tree - {"PenstockError"} if f"`{name}`" not in text) == []


@pytest.mark.parametrize("page", sorted(PARTS))
def test_generated_pages_are_current(page: str) -> None:
    kept = (ROOT / "docs" / page).read_text(encoding="utf-8")
    assert kept == generated(page), "run  python -m docs.generate"


# Names of source tables in examples.
_TABLES = ("shop.orders", "shop.users", "shop.orders_log", "crm_7.users", "ods.orders")


def patterns(page: Path) -> Iterator[tuple[str, str]]:
    """Yield the patterns of source tables in the pipeline files of a page, each with its place."""
    for block in blocks(page):
        described = yaml.safe_load(block.text) if block.language == "yaml" else None
        for section in ("transform", "expect", "route"):
            for rule in (described or {}).get(section, ()) if isinstance(described, dict) else ():
                yield block.place, rule["source-table"]


def test_patterns_of_examples_match_a_table() -> None:
    """Otherwise an example that no test runs could have misspelt rules, which have no effect."""
    found = [pair for page in PAGES for pair in patterns(page)]
    assert len(found) > 5
    unmet = [pair for pair in found if not any(TablePattern.of(pair[1]).regex.fullmatch(name) for name in _TABLES)]
    assert unmet == []


def test_every_key_of_a_pipeline_file_is_documented() -> None:
    """A row of the options' page ends with the key's effect."""
    rows = re.findall(r"^\| `.*$", (ROOT / "docs" / "options.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert [row for row in rows if row.endswith("|  |")] == []


def imported_names(page: Path) -> set[tuple[str, str]]:
    """Return the modules of penstock that the Python of a page imports, with the names it imports from them."""
    trees = [ast.parse(block.text) for block in blocks(page) if block.language == "python"]
    imports = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    ours = [node for node in imports if (node.module or "").partition(".")[0] == "penstock"]
    return {(str(node.module), alias.name) for node in ours for alias in node.names}


def test_names_that_a_page_imports_exist() -> None:
    """Pages that need a server or a package do not run here, but their imports must follow every renaming."""
    named = {(page.name, *pair) for page in PAGES for pair in imported_names(page)}
    assert len(named) > 20
    missing = [name for name in named if not hasattr(importlib.import_module(name[1]), name[2])]
    assert sorted(missing) == []


def test_every_module_that_a_page_names_exists() -> None:
    place = re.compile(r"`((?:errors|formats|ingest|pipelines|schema_evolution|storage|table|tests)/[\w/.]*)`")
    named = {(str(page.relative_to(ROOT)), name) for page in LINKING for name in place.findall(page.read_text("utf-8"))}
    assert len(named) > 80
    assert sorted(pair for pair in named if not (ROOT / pair[1]).exists()) == []
