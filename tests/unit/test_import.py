"""The one door: what it shows, what it costs."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

import penstock

ROOT = Path(__file__).resolve().parents[2]
KEPT = "MIMALLOC_PURGE_DELAY"  # for how many milliseconds Arrow's allocator keeps freed memory


def run(code: str, **variables: str) -> str:
    environment = {name: value for name, value in os.environ.items() if name != KEPT} | variables
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, env=environment)
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


def test_arrow_keeps_freed_memory_for_seconds() -> None:
    assert run(f"import penstock, os; print(os.environ['{KEPT}'])") == "10000"


def test_the_users_own_time_to_keep_freed_memory_stays() -> None:
    assert run(f"import penstock, os; print(os.environ['{KEPT}'])", **{KEPT: "0"}) == "0"


_RELEASED = """
import penstock
from penstock.formats.freed_memory import return_freed_memory
import ctypes, pyarrow as pa
from pathlib import Path

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 >> 20

before = resident()
blocks = [pa.allocate_buffer(1 << 20) for _ in range(200)]
for block in blocks:
    ctypes.memset(block.address, 1, block.size)
used = resident()
del blocks, block
return_freed_memory()
print(used - before, resident() - before)
"""


def test_freed_memory_that_arrow_keeps_is_returned_when_requested() -> None:
    """With a delay below zero, the allocator would never return any."""
    used, left = map(int, run(_RELEASED).split())
    assert used >= 180
    assert left <= used // 4


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
