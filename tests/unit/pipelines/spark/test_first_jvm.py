"""A JVM that is started before the process imports Spark."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.pipelines.spark import first_jvm
from penstock.pipelines.spark.first_jvm import FirstJvm

# A stand-in for the JVM: writes its port and its secret where PySpark's JVM does, then waits for the end of its input.
JVM = """
import os, struct, sys
place = os.environ["_PYSPARK_DRIVER_CONN_INFO_PATH"]
open(place + ".half", "wb").write(struct.pack("!ii", 4711, 6) + b"secret")
os.rename(place + ".half", place)
print(os.environ.get("SPARK_ENV_LOADED", "by the script"), flush=True)
print(os.environ["PYSPARK_DRIVER_PYTHON"], flush=True)
sys.stdin.read()
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return a SPARK_HOME whose spark-submit is the stand-in."""
    submit = tmp_path / "home/bin/spark-submit"
    submit.parent.mkdir(parents=True)
    (tmp_path / "jvm.py").write_text(JVM)
    submit.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{tmp_path}/jvm.py" org.apache.spark.deploy.SparkSubmit\n')
    submit.chmod(0o755)
    for name, value in {"SPARK_HOME": submit.parents[1], "XDG_CACHE_HOME": tmp_path / "cache"}.items():
        monkeypatch.setenv(name, str(value))
    for name in ("PYSPARK_GATEWAY_PORT", "SPARK_REMOTE", "SPARK_CONF_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(first_jvm, "_OF_PROCESS", first_jvm._OfProcess(allowed=True))
    monkeypatch.setattr("os.environ", os.environ.copy())
    yield submit.parents[1]
    first_jvm.end()


def started() -> FirstJvm:
    first_jvm.start(None, {})
    found = first_jvm.take()
    assert found is not None
    return found


def first_line(jvm: FirstJvm) -> str:
    with os.fdopen(jvm.output) as lines:
        return lines.readline().strip()


def test_the_command_line_of_a_jvm_is_used_again_without_the_scripts(home: Path) -> None:
    first = started()
    assert first._connection() == (4711, "secret")
    assert first.command_file is not None
    first_jvm._keep_command(first.process.pid, first.command_file)
    again = started()
    assert again.command_file is None
    for jvm, by in ((first, "by the script"), (again, "1")):
        assert first_line(jvm) == by
        jvm.end()


def test_spark_finds_no_python_to_search_for_data_sources(home: Path) -> None:
    jvm = started()
    with os.fdopen(jvm.output) as lines:
        python = [lines.readline().strip() for _ in range(2)][1]
    jvm.end()
    assert python
    assert shutil.which(python) is None


def test_a_damaged_command_line_is_written_once_more(home: Path) -> None:
    first = started()
    assert first.command_file is not None
    first.command_file.parent.mkdir(parents=True)
    for text in ("[", "[]", json.dumps(["/no/such/java"])):
        first.command_file.write_text(text)
        again = started()
        assert again.command_file == first.command_file
        again.end()
    first.end()


def test_settings_of_the_user_in_files_are_read_by_the_scripts_each_time(home: Path) -> None:
    (home / "conf").mkdir()
    jvm = started()
    assert jvm.command_file is None
    assert first_line(jvm) == "by the script"
    jvm.end()


def test_other_settings_have_another_command_line(home: Path) -> None:
    files = set()
    for memory in ("1g", "2g"):
        first_jvm.start(None, {"spark.driver.memory": memory})
        jvm = first_jvm.take()
        assert jvm is not None
        files.add(jvm.command_file)
        jvm.end()
    assert len(files) == 2


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("spark.hadoop.fs.s3a.secret.key", "hush"),
        ("spark.ssl.keyPassword", "hush"),
        ("spark.driver.extraJavaOptions", "-Dfile.encoding=UTF-8 -Djavax.net.ssl.trustStorePassword=hush"),
        ("spark.jars.repositories", "https://user:hush@repository.example/maven"),
    ],
)
def test_a_command_line_with_a_secret_is_not_stored(home: Path, name: str, value: str) -> None:
    first_jvm.start(None, {name: value})
    jvm = first_jvm.take()
    assert jvm is not None
    assert jvm.command_file is None
    assert first_line(jvm) == "by the script"
    jvm.end()


def test_an_unused_jvm_ends_with_the_command(home: Path) -> None:
    first_jvm.start(None, {})
    jvm = first_jvm._OF_PROCESS.jvm
    assert jvm is not None
    first_jvm.end()
    assert jvm.process.returncode is not None
    assert not jvm.folder.exists()


def test_a_jvm_that_ended_is_not_connected_to(home: Path) -> None:
    (home / "bin/spark-submit").write_text("#!/bin/sh\nexit 1\n")
    jvm = started()
    assert jvm.gateway() is None
    os.close(jvm.output)


@pytest.mark.parametrize(
    ("master", "variable"), [("spark://m:7077", None), (None, "SPARK_REMOTE"), (None, "PYSPARK_GATEWAY_PORT")]
)
def test_no_jvm_is_started_for_spark_elsewhere(
    master: str | None, variable: str | None, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if variable is not None:
        monkeypatch.setitem(os.environ, variable, "1")
    first_jvm.start(master, {})
    assert first_jvm.take() is None


def test_a_process_with_other_work_starts_no_jvm(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_jvm, "_OF_PROCESS", first_jvm._OfProcess())
    first_jvm.start(None, {})
    assert first_jvm.take() is None


@pytest.mark.slow
def test_a_command_starts_no_slower_for_pandas_or_pyspark() -> None:
    code = (
        "import sys, penstock.pipelines.commands.main, penstock.pipelines.commands.run, "
        "penstock.pipelines.commands.sync; print({'pyspark', 'pyarrow'} & set(sys.modules)); "
        "import penstock.table.handle, penstock.pipelines.job.build; print('pandas' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["set()", "False"]


# The command fails while a thread still waits for the JVM, as with a source that cannot be reached.
COMMAND = """
import threading
from penstock.pipelines.spark import first_jvm
first_jvm.allow()
first_jvm.start(None, {})
first = first_jvm.take()
threading.Thread(target=first.gateway, daemon=True).start()
print(first.process.pid)
"""


def test_a_jvm_that_is_still_starting_ends_with_the_process(home: Path, tmp_path: Path) -> None:
    """It cannot write its port into a folder that is gone, and then never notices the end of its input."""
    slow = f"import pathlib, time\npathlib.Path({str(tmp_path)!r}, f'jvm-{{time.time_ns()}}').touch()\ntime.sleep(60)\n"
    (tmp_path / "jvm.py").write_text(slow)
    done = subprocess.run([sys.executable, "-c", COMMAND], capture_output=True, text=True, timeout=280, check=True)
    assert not Path(f"/proc/{done.stdout.strip()}").exists()
    assert len(list(tmp_path.glob("jvm-*"))) <= 1
