"""Names that tests replace in modules exist: code that moves takes its patches along, also in tests that run seldom."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PATCHES = {"setattr", "object", "before", "after"}  # monkeypatch.setattr, patch.object, and those of tests/chaos


def imported(tree: ast.AST) -> dict[str, list[str]]:
    """Return what a module imports from ours by its name there, and what variables of loops stand for."""
    names = {
        name.asname or name.name: [f"{node.module}.{name.name}"]
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("penstock")
        for name in node.names
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.For) and isinstance(node.target, ast.Name) and isinstance(node.iter, ast.Tuple):
            parts = [part.id for part in node.iter.elts if isinstance(part, ast.Name)]
            names[node.target.id] = [full for part in parts for full in names.get(part, [])]
    return names


def called(function: ast.expr) -> str:
    match function:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
    return ""


def patched(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield the objects that calls replace an attribute of, with the name of the attribute."""
    names = imported(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and called(node.func) in PATCHES and len(node.args) > 1:
            target, attribute = node.args[:2]
            if isinstance(target, ast.Name) and isinstance(attribute, ast.Constant):
                yield from ((name, str(attribute.value)) for name in names.get(target.id, []))


def found(name: str) -> object:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        module, _, attribute = name.rpartition(".")
        return getattr(importlib.import_module(module), attribute)


def test_patched_names_exist() -> None:
    missing = {
        f"{file.relative_to(ROOT)}: {name}.{attribute}"
        for file in (ROOT / "tests").rglob("*.py")
        if any(f"{patch}(" in (text := file.read_text(encoding="utf-8")) for patch in PATCHES)
        for name, attribute in patched(ast.parse(text))
        if not hasattr(found(name), attribute)
    }
    assert missing == set()
