"""A standalone Spark master with two workers of one core each, as processes that can be killed one by one."""

from __future__ import annotations

import json
import os
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pyspark

from penstock.pipelines.spark.session_settings import JVM_FLAGS, prepare_environment
from tests.chaos.driver import kill_session
from tests.servers.launch import free_port
from tests.waiting import until

HOST = "127.0.0.1"
SETTINGS = (
    f"spark.driver.host={HOST}",
    f"spark.driver.bindAddress={HOST}",
    "spark.executor.memory=512m",
    f"spark.executor.extraJavaOptions={JVM_FLAGS}",
    "spark.sql.shuffle.partitions=2",
    "spark.task.maxFailures=8",
    "spark.python.daemon.module=penstock.pipelines.spark.worker_daemon",  # its imports, made once a worker
)


@dataclass
class Cluster:
    folder: Path
    port: int
    web: int
    master: subprocess.Popen[bytes]
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"spark://{HOST}:{self.port}"

    def add_worker(self) -> None:
        number = len(self.workers)
        # Another address for each: Spark runs the second attempt of a slow task on another host only.
        place = ["--host", f"127.0.0.{number + 1}", "--webui-port", "0", "--work-dir", f"{self.folder}/work-{number}"]
        words = ["org.apache.spark.deploy.worker.Worker", *place, "--cores", "1", "--memory", "1g", self.url]
        self.workers.append(_started(self.folder / f"worker-{number}.log", *words))

    def kill_worker(self, number: int) -> None:
        """The worker, its executors, and the Python processes of their tasks."""
        kill_session(self.workers[number].pid)
        self.workers[number].wait()

    def wait_for_workers(self, count: int) -> None:
        until(lambda: self._alive() >= count, lambda: (self.folder / "master.log").read_text()[-3000:])

    def _alive(self) -> int:
        try:
            with urllib.request.urlopen(f"http://{HOST}:{self.web}/json/", timeout=60) as answer:
                return int(json.load(answer)["aliveworkers"])
        except (OSError, json.JSONDecodeError):  # a master that has just started may answer with an empty page
            return 0

    def stop(self) -> None:
        for process in (*self.workers, self.master):
            if process.poll() is None:
                kill_session(process.pid)
                process.wait()


@contextmanager
def running(folder: Path, workers: int = 2) -> Iterator[Cluster]:
    prepare_environment()
    folder.mkdir()
    port = free_port()
    words = ["--host", HOST, "--port", str(port), "--webui-port", str(port + 1)]
    master = _started(folder / "master.log", "org.apache.spark.deploy.master.Master", *words)
    cluster = Cluster(folder, port, port + 1, master)
    try:
        for _ in range(workers):
            cluster.add_worker()
        cluster.wait_for_workers(workers)
        yield cluster
    finally:
        cluster.stop()


def _started(log: Path, kind: str, *words: str) -> subprocess.Popen[bytes]:
    command = [f"{pyspark.__path__[0]}/bin/spark-class", kind, *words]
    ours = {"SPARK_LOCAL_IP": HOST, "SPARK_DAEMON_MEMORY": "256m", "SPARK_NO_DAEMONIZE": "1"}
    environment = os.environ | ours | {"SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false"}
    with log.open("wb") as out:
        return subprocess.Popen(command, env=environment, stdout=out, stderr=out, start_new_session=True)
