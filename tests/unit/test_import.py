"""The one door: what it shows, what it costs."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import penstock

ROOT = Path(__file__).resolve().parents[2]


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_all_public_names_are_imported() -> None:
    assert penstock.__all__ == sorted(penstock.__all__)
    for name in penstock.__all__:
        assert getattr(penstock, name) is not None


def test_the_lists_of_public_names_are_equal() -> None:
    """A type checker, the lazy import and `from penstock import *` read one each: linters refuse to derive them."""
    tree = ast.parse((ROOT / "penstock.py").read_text(encoding="utf-8"))
    typed = next(node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
    imports = (node for node in typed.body if isinstance(node, ast.ImportFrom))
    homes = {alias.name: node.module for node in imports for alias in node.names}
    assert {name: home for name, home in homes.items() if name in penstock._HOME_OF} == penstock._HOME_OF
    assert set(penstock._HOME_OF) <= set(penstock.__all__)


def test_import_loads_neither_spark_nor_arrow() -> None:
    loaded = run("import penstock, sys; print([m for m in ('pyspark', 'pyarrow', 'numpy') if m in sys.modules])")
    assert loaded == "[]"


@pytest.mark.slow
def test_no_public_name_imports_spark() -> None:
    loaded = run(
        "import penstock, sys; [getattr(penstock, n) for n in penstock.__all__]; print('pyspark' in sys.modules)"
    )
    assert loaded == "False"


@pytest.mark.slow
def test_planning_batches_does_not_import_pandas() -> None:
    """The planner imports this at each start; pandas, which Arrow asks for when it has a list, takes half a second."""
    modules = "penstock.pipelines.tasks.read, penstock.pipelines.mapping.pipeline_mapping"
    assert run(f"import sys, {modules}; print('pandas' in sys.modules)") == "False"
