from __future__ import annotations

import os
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from unittest.mock import patch

import pytest

from penstock.errors import ConfigError
from penstock.pipelines.spark import code_zip
from penstock.pipelines.spark.code_zip import zip_code
from penstock.pipelines.spark.quick_start import use_lean_home
from penstock.pipelines.spark.session_settings import LOG_SETTINGS, local_cores, prepare_environment, session_settings

ROOT = Path(__file__).resolve().parents[4]


@pytest.mark.parametrize(("master", "cores"), [("local", 1), ("local[3]", 3), ("local[2,4]", 2)])
def test_cores_of_a_local_master(master: str, cores: int) -> None:
    assert local_cores(master) == cores


def test_a_misspelt_local_master_is_refused() -> None:
    with pytest.raises(ConfigError):
        local_cores("local[two]")


def test_a_local_driver_binds_to_the_loopback_address() -> None:
    assert session_settings("local[2]", {})["spark.driver.bindAddress"] == "127.0.0.1"
    assert "spark.driver.bindAddress" not in session_settings("spark://m:7077", {})


def test_settings_of_the_user_win() -> None:
    assert session_settings("local[2]", {"spark.driver.memory": "4g"})["spark.driver.memory"] == "4g"


def test_log_settings_are_part_of_the_package() -> None:
    assert LOG_SETTINGS.exists()


def test_the_shipped_zip_contains_every_module_of_an_installation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Its bytecode, which takes seconds, is tried by the test of its import.
    monkeypatch.setattr(code_zip, "_put", lambda archive, _path, name: archive.writestr(name, b""))
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    packages = config["tool"]["hatch"]["build"]["targets"]["wheel"]["hooks"]["custom"]["packages"]
    modules = {str(path.relative_to(ROOT)) for name in packages for path in ROOT.glob(f"{name}/**/*.py")}
    modules |= {name for name in packages if name.endswith(".py")}
    zipped = {name.removeprefix("penstock/") for name in zipfile.ZipFile(zip_code(tmp_path)).namelist()}
    assert modules <= zipped


@pytest.mark.slow
def test_the_shipped_zip_imports_on_its_own(tmp_path: Path) -> None:
    archive = zip_code(tmp_path)
    code = "import penstock.ingest.kafka.source, penstock.pipelines.spark.session as s; print(s.__file__, s.__cached__)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(archive)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    file, compiled = done.stdout.split()
    assert Path(file).is_relative_to(archive)
    assert Path(compiled).suffix == ".pyc"


@pytest.mark.parametrize(("known", "address"), [(True, None), (False, "127.0.0.1")])
def test_a_machine_whose_host_name_does_not_resolve_can_run_spark(
    known: bool, address: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.pipelines.spark.session_settings.has_address", lambda: known)
    with patch.dict(os.environ):
        os.environ.pop("SPARK_LOCAL_IP", None)
        prepare_environment()
        assert os.environ.get("SPARK_LOCAL_IP") == address


def home_after(**given: str) -> str | None:
    with patch.dict(os.environ, given):
        if "SPARK_HOME" not in given:
            os.environ.pop("SPARK_HOME", None)
        use_lean_home()
        return os.environ.get("SPARK_HOME")


def test_spark_home_has_its_jars_but_no_second_copy_of_pyspark(tmp_path: Path) -> None:
    home = home_after(XDG_CACHE_HOME=str(tmp_path), PYSPARK_PYTHON=sys.executable)
    assert home is not None
    assert list(Path(home, "jars").glob("spark-core*.jar"))
    assert Path(home, "bin/spark-submit").exists()
    assert not Path(home, "python").exists()
    assert home_after(XDG_CACHE_HOME=str(tmp_path), PYSPARK_PYTHON=sys.executable) == home


def test_a_spark_home_of_the_user_is_kept_for_workers_with_another_python(tmp_path: Path) -> None:
    assert home_after(SPARK_HOME="/opt/spark") == "/opt/spark"
    assert home_after(XDG_CACHE_HOME=str(tmp_path), PYSPARK_PYTHON="/usr/bin/other") is None


@pytest.mark.slow
def test_a_jvm_that_does_not_start_is_an_error_of_the_configuration() -> None:
    code = """
from penstock.errors import ConfigError
from penstock.pipelines.spark.session import open_session
try:
    open_session("shop", settings={"spark.driver.memory": "nonsense"})
except ConfigError as error:
    print(error.message, "|", error.hint)
"""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.startswith("the JVM of Spark did not start")
    assert "spark.driver.memory" in done.stdout
    assert "nonsense" in done.stderr
