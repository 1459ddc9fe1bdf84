"""Syntax trees of the source, parsed once for all tests that read them."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path


@cache
def source_tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def source_nodes(path: Path) -> tuple[ast.AST, ...]:
    """Return all nodes of a module in the order of `ast.walk`."""
    return tuple(ast.walk(source_tree(path)))
