"""An editable install sees edits of the source, from any folder, and shows editors where the source is."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from tests.pages import ROOT

pytestmark = pytest.mark.slow


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A copy of the source that a test may edit."""
    build = [sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", tmp_path / "sdist"]
    subprocess.run(build, cwd=ROOT, check=True)
    (packed,) = (tmp_path / "sdist").iterdir()
    with tarfile.open(packed) as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path / packed.name.removesuffix(".tar.gz")


@pytest.fixture
def python(clone: Path, tmp_path: Path) -> Path:
    """The interpreter of an environment with an editable install and the libraries of the tests."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "env"], check=True)
    interpreter = tmp_path / "env" / "bin" / "python"
    (site,) = (tmp_path / "env").glob("lib/python*/site-packages")
    (site / "libraries.pth").write_text("\n".join(path for path in sys.path if "site-packages" in path))
    pip = [sys.executable, "-m", "pip", "--python", interpreter, "install", "-q", "--no-index"]
    subprocess.run([*pip, "--no-build-isolation", "--no-deps", "-e", clone], check=True, timeout=500)
    return interpreter


def run(python: Path, code: str, folder: Path) -> str:
    # A Spark session that another test started has put this checkout on PYTHONPATH, before what pip installed.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [python, "-c", code]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=True
    ).stdout.strip()


def test_an_edit_is_effective_in_any_folder_and_editors_find_the_source(
    clone: Path, python: Path, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    module = clone / "table" / "values" / "types.py"
    code = "import penstock.table.values.types as types; print(types.__file__, getattr(types, 'EDITED', None))"
    assert run(python, code, elsewhere) == f"{module} None"
    with module.open("a") as source:
        source.write("\nEDITED = 7\n")
    assert run(python, code, elsewhere) == f"{module} 7"
    assert (tmp_path / "env" / "bin" / "penstock").exists()
    # Editors do not run code: they look for penstock/table/... below the folders of the search path.
    found = run(python, "import sys; print(*sys.path, sep='\\n')", elsewhere).splitlines()
    assert [p for p in found if (Path(p) / "penstock/table/values/types.py").resolve() == module] != []
    assert run(python, "import importlib.util as u; print(u.find_spec('table'))", elsewhere) == "None"
