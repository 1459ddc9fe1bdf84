"""Syntax trees of the source, parsed once for all tests that read them."""

from __future__ import annotations

import ast
import gc
from functools import cache
from pathlib import Path


@cache
def source_tree(path: Path) -> ast.Module:
    # A collection in the middle of a parse may run finalizers, and let another thread parse: Python 3.11 counts the
    # depth of both in one place, and fails with "AST constructor recursion depth mismatch".
    gc.disable()
    try:
        return ast.parse(path.read_text(encoding="utf-8"))
    finally:
        gc.enable()


@cache
def source_nodes(path: Path) -> tuple[ast.AST, ...]:
    """Return all nodes of a module in the order of `ast.walk`."""
    return tuple(ast.walk(source_tree(path)))
