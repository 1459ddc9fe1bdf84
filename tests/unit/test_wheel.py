"""The wheel lays the folders below penstock/, and a user's own folders beside his script change nothing."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

import penstock

ROOT = Path(__file__).resolve().parents[2]
_TARGETS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]["build"]["targets"]
PACKAGES = [name.removesuffix(".py") for name in _TARGETS["wheel"]["hooks"]["custom"]["packages"]]


def build(kind: str, source: Path, target: Path) -> Path:
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", target], cwd=source, check=True)
    (built,) = (path for path in target.iterdir() if path.suffix in {".whl", ".gz"})
    return built


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("wheel", ROOT, tmp_path_factory.mktemp("wheel"))


@pytest.mark.slow
def test_a_wheel_built_from_the_source_package_has_the_same_content(wheel: Path, tmp_path: Path) -> None:
    with tarfile.open(build("sdist", ROOT, tmp_path / "sdist")) as packed:
        packed.extractall(tmp_path, filter="data")
    (source,) = tmp_path.glob("penstock-*")
    assert {path.name for path in ROOT.glob("*.md")} | {"LICENSE", "NOTICE"} <= {path.name for path in source.iterdir()}
    again = build("wheel", source, tmp_path / "wheel")
    assert zipfile.ZipFile(again).namelist() == zipfile.ZipFile(wheel).namelist()


@pytest.mark.slow
def test_the_wheel_contains_every_module_and_the_spark_entry_point(wheel: Path) -> None:
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    modules = {str(path.relative_to(ROOT)) for folder in PACKAGES for path in ROOT.glob(f"{folder}/**/*.py")}
    wanted = {
        "__init__.py",
        "__main__.py",
        "errors.py",
        "extensions.py",
        "references.py",
        "settings.py",
        "table_pattern.py",
        "py.typed",
        *modules,
    }
    assert wanted <= {name.removeprefix("penstock/") for name in names if name.startswith("penstock/")}
    assert {name.partition("/")[0] for name in names} == {"penstock", "pyspark_penstock.py"}
    assert not [name for name in names if "__pycache__" in name or "/tests/" in name]


@pytest.mark.slow
def test_installed_wheel_imports_among_folders_of_the_same_names(wheel: Path, tmp_path: Path) -> None:
    site, beside = tmp_path / "site", tmp_path / "user"
    zipfile.ZipFile(wheel).extractall(site)
    for name in PACKAGES:
        (beside / name).mkdir(parents=True)
        (beside / name / "__init__.py").write_text("raise ImportError('the user has his own folder of this name')")
    (beside / "script.py").write_text(
        "import penstock, penstock.table.values.types\n"
        "for name in penstock.__all__: getattr(penstock, name)\n"
        "print(penstock.__file__)\n"
    )
    done = run_beside(site, beside, "script.py")
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.strip()) == site / "penstock" / "__init__.py"


def run_beside(site: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python in a folder, with the installed packages and the libraries of this environment."""
    libraries = [path for path in sys.path if "site-packages" in path]
    path = {"PYTHONPATH": ":".join([str(site), *libraries])}
    return subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=path, capture_output=True, text=True, check=False
    )


@pytest.mark.slow
def test_the_command_runs_as_a_module(wheel: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    zipfile.ZipFile(wheel).extractall(site)
    for folder in (tmp_path, ROOT):  # the source tree, in which penstock.py is found first
        done = run_beside(site, folder, "-m", "penstock", "--version")
        assert (done.returncode, done.stdout.strip()) == (0, penstock.__version__), done.stderr


def test_wheel_carries_the_licence(wheel: Path) -> None:
    names = {Path(name).name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/licenses/" in name}
    assert names == {"LICENSE", "NOTICE"}


def test_console_command_is_declared(wheel: Path) -> None:
    packed = zipfile.ZipFile(wheel)
    (declared,) = [name for name in packed.namelist() if name.endswith("entry_points.txt")]
    assert "penstock = penstock.pipelines.commands.main:main" in packed.read(declared).decode()
