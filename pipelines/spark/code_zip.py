"""The package as a zip, for executors on machines where it is not installed."""

from __future__ import annotations

import py_compile
import tempfile
import zipfile
from pathlib import Path
from py_compile import PycInvalidationMode

import penstock

PACKAGE_FOLDERS = ("storage", "ingest", "formats", "schema_evolution", "table", "pipelines")
# At the root of a source tree, other modules lie beside those that an installation has in penstock/.
_OUTSIDE = {"__init__.py", "penstock.py", "pyspark_penstock.py", "hatch_build.py"}


def zip_code(folder: Path) -> Path:
    """Write the package as one zip with the layout of an installation.

    It includes bytecode, because Python does not cache bytecode for a zip. Workers with another Python version ignore
    the bytecode.
    """
    target = folder / "penstock.zip"
    root = Path(penstock.__path__[0])
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        _put(archive, Path(penstock.__file__), "penstock/__init__.py")
        for path in sorted(root.glob("*.py")):
            if path.name not in _OUTSIDE:
                _put(archive, path, f"penstock/{path.name}")
        for name in PACKAGE_FOLDERS:
            for path in sorted((root / name).rglob("*.py")):
                _put(archive, path, f"penstock/{path.relative_to(root)}")
    return target


def _put(archive: zipfile.ZipFile, path: Path, name: str) -> None:
    archive.write(path, name)
    with tempfile.NamedTemporaryFile(suffix=".pyc") as compiled:
        py_compile.compile(
            str(path), compiled.name, name, doraise=True, invalidation_mode=PycInvalidationMode.UNCHECKED_HASH
        )
        archive.write(compiled.name, f"{name}c")
