"""Starts Spark's JVM before this process imports anything large, so that both happen at the same time.

Only for commands that run in a process of their own: the process has one JVM, whose settings are known from the flags
of the command. PySpark is connected to it later. If that fails, PySpark starts a JVM itself and reports what is wrong.

Spark's own scripts start a shell and another JVM, which write the command line of the JVM. What they wrote for the same
settings and the same installation is used again.
"""

from __future__ import annotations

import atexit
import hashlib
import json
import os
import shutil
import signal
import struct
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.pipelines.spark.java import cache_folder
from penstock.pipelines.spark.named_programs import check_spark_home, check_worker_python
from penstock.pipelines.spark.quick_start import use_lean_home
from penstock.pipelines.spark.session import SUBMITTED
from penstock.pipelines.spark.session_settings import is_local, jvm_settings, prepare_environment
from penstock.pipelines.spark.versions import check_version
from penstock.references import masked

if TYPE_CHECKING:
    from py4j.java_gateway import JavaGateway

_LOOK_SECONDS = 0.005
_CONNECTION = "_PYSPARK_DRIVER_CONN_INFO_PATH"  # the JVM writes its port and its secret into this file
# Spark uses this variable only for the Python that looks for data sources among the installed packages. A pipeline
# needs none of them: with a program that does not exist, two processes fewer are started.
_NO_SEARCH = {"PYSPARK_DRIVER_PYTHON": "penstock-needs-no-other-data-sources"}
_SPARK_VARIABLES = ("SPARK_", "PYSPARK_", "JAVA_", "JDK_")


@dataclass(slots=True)
class FirstJvm:
    """A JVM that was started ahead. `output` is the reading end of its stdout and stderr."""

    process: subprocess.Popen[bytes]
    folder: Path
    output: int
    command_file: Path | None  # where its command line is kept for the next start
    _is_over: bool = False

    def gateway(self) -> JavaGateway | None:
        """Return PySpark's connection when the JVM is ready, or None if the JVM has ended."""
        connection = self._connection()
        if self._is_over:
            raise RuntimeError("this process ends, and needs no JVM")  # else PySpark would start another one
        if connection is None:
            return None
        if self.command_file is not None:
            _keep_command(self.process.pid, self.command_file)
        from pyspark.java_gateway import launch_gateway

        port, secret = connection
        # PySpark reads from the environment that it is to connect to a JVM instead of starting one.
        os.environ[SUBMITTED], os.environ["PYSPARK_GATEWAY_SECRET"] = str(port), secret
        try:
            gateway = launch_gateway()
        finally:
            del os.environ[SUBMITTED], os.environ["PYSPARK_GATEWAY_SECRET"]
        gateway.proc = self.process
        return gateway

    def _connection(self) -> tuple[int, str] | None:
        path = self.folder / "connection"
        # The JVM writes another file and renames it.
        while not path.exists():
            if self.process.poll() is not None:
                return None
            time.sleep(_LOOK_SECONDS)
        body = path.read_bytes()
        shutil.rmtree(self.folder, ignore_errors=True)
        port, length = struct.unpack_from("!ii", body)
        return port, body[8 : 8 + length].decode()

    def end_unconnected(self) -> None:
        """Kill the JVM at the end of this process if nothing has connected to it.

        It could not write its port any more, and would never notice the end of its input.
        """
        if self.folder.exists():
            self.end()

    def end(self) -> None:
        """Kill the JVM. It has no context yet, so it leaves nothing behind."""
        self._is_over = True
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


@dataclass(slots=True)
class _OfProcess:
    allowed: bool = False
    jvm: FirstJvm | None = None


_OF_PROCESS = _OfProcess()


def allow() -> None:
    """Allow a start ahead: this process runs one command and nothing else."""
    _OF_PROCESS.allowed = True


def start(master: str | None, settings: Mapping[str, str]) -> None:
    """Start the JVM if this process may, and if Spark is to run on this machine. Called again, it does nothing."""
    if _OF_PROCESS.jvm is not None:
        return
    taken = {SUBMITTED, "SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED", "PYSPARK_SUBMIT_ARGS"} & os.environ.keys()
    if not _OF_PROCESS.allowed or taken or os.name != "posix" or not is_local(master or "local"):
        return
    check_version()  # before PySpark is imported, which may fail in versions before 4.0
    prepare_environment()
    check_spark_home()
    check_worker_python()
    use_lean_home()
    if "SPARK_HOME" in os.environ:
        _OF_PROCESS.jvm = _started(os.environ["SPARK_HOME"], jvm_settings(settings))


def take() -> FirstJvm | None:
    """Return the JVM that was started ahead, once."""
    taken, _OF_PROCESS.jvm = _OF_PROCESS.jvm, None
    return taken


def end() -> None:
    """End the JVM if nobody took it: the command failed before it needed Spark."""
    first = take()
    if first is not None:
        first.end()
        os.close(first.output)


def _started(home: str, settings: Mapping[str, str]) -> FirstJvm:
    words = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    submit = [f"{home}/bin/spark-submit", *words, "pyspark-shell"]
    command_file = None if _has_secret(settings) else _command_file(home, submit)
    known = _known_command(command_file)
    folder = Path(tempfile.mkdtemp(prefix="penstock-jvm-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    environment = {**os.environ, **_NO_SEARCH, "SPARK_CONNECT_MODE": "0", _CONNECTION: str(folder / "connection")}
    output, into = os.pipe()
    try:
        process = subprocess.Popen(
            known or submit,
            # The JVM ends when this pipe does, also if this process is killed.
            stdin=subprocess.PIPE,
            stdout=into,
            stderr=into,
            env=environment | ({"PYTHONHASHSEED": "0", "SPARK_ENV_LOADED": "1"} if known else {}),
            preexec_fn=_ignore_interrupts,  # noqa: PLW1509 -- no thread was started yet
        )
    finally:
        os.close(into)
    started = FirstJvm(process, folder, output, None if known else command_file)
    atexit.register(started.end_unconnected)
    return started


def _has_secret(settings: Mapping[str, str]) -> bool:
    """Return whether a setting, or a system property within one, is a secret. Such a command line is not stored."""
    properties = [word[2:].partition("=") for text in settings.values() for word in text.split() if word[:2] == "-D"]
    pairs = [*settings.items(), *((name, value) for name, _, value in properties)]
    return any(masked(name, value) != value for name, value in pairs)


def _ignore_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _command_file(home: str, submit: Sequence[str]) -> Path | None:
    """Return where the command line for these settings is kept, or None if it also depends on files of the user."""
    if "SPARK_CONF_DIR" in os.environ or Path(home, "conf").exists():
        return None
    variables = {name: value for name, value in os.environ.items() if name.startswith(_SPARK_VARIABLES)}
    java = Path(os.environ["JAVA_HOME"], "release")
    jars = sorted(Path(home, "jars").glob("spark-launcher*.jar"))
    facts = [list(submit), variables, java.read_text() if java.exists() else "", [str(jar) for jar in jars]]
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
    return cache_folder() / "commands" / f"{digest[:16]}.json"


def _known_command(file: Path | None) -> list[str] | None:
    if file is None:
        return None
    try:
        words: Any = json.loads(file.read_text())
    except (OSError, ValueError):  # not kept yet, or cut short by a full disk
        return None
    return words if words and Path(words[0]).exists() else None


def _keep_command(pid: int, file: Path) -> None:
    """Store the command line of the JVM. Systems that do not show it start JVMs by Spark's scripts each time."""
    with suppress(OSError):
        words = [os.fsdecode(word) for word in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[:-1]]
        if "org.apache.spark.deploy.SparkSubmit" not in words:
            return
        file.parent.mkdir(parents=True, exist_ok=True)
        half = file.with_suffix(f".{pid}")
        half.write_text(json.dumps(words))
        half.replace(file)
