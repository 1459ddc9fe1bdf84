"""Real servers for tests: start one in a folder, use its port, stop it at the end."""

from __future__ import annotations

import fcntl
import os
import random
import socket
import subprocess
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TextIO

from tests.servers import containers

if TYPE_CHECKING:
    from collections.abc import Iterator

Kind = Literal[
    "kafka",
    "mysql",
    "mariadb",
    "mariadb-11.8",
    "postgres",
    "postgres-14",
    "postgres-16",
    "postgres-17",
    "postgres-18",
    "pgbouncer",
    "kerberos",
    "mongodb",
    "pulsar",
    "hdfs",
    "yarn",
    "hive",
    "hive-3.1",
    "hive-4.0",
    "iceberg",
    "azurite",
    "versitygw",
]
# The kinds whose servers `tests/servers/containers.py` starts from Docker images.
IMAGES = ("mysql", "mariadb", "mongodb")
HERE = Path(__file__).resolve().parent


@contextmanager
def running(kind: Kind, folder: Path, *options: str) -> Iterator[int]:
    """The port of a server of this kind whose data live in `folder`; ended at once when the block ends.

    A server that cannot be installed or started is an error that carries the script's own words, never a skip.
    """
    port = free_port()
    start(kind, folder, port, *options)
    try:
        yield port
    finally:
        _discard(kind, folder)


def start(kind: Kind, folder: Path, port: int, *options: str) -> None:
    if image := _image(kind):
        containers.start(kind, image, folder, port, *options)
        return
    done = _script(kind, "start", str(folder), str(port), *options)
    if done.returncode:
        raise RuntimeError(f"{kind}.sh start failed ({done.returncode}):\n{done.stdout}{done.stderr}")


def standby(kind: Kind, primary: Path, folder: Path, port: int, *options: str) -> None:
    """Start a standby of a running server, in `folder`."""
    done = _script(kind, "standby", str(primary), str(folder), str(port), *options)
    if done.returncode:
        raise RuntimeError(f"{kind}.sh standby failed ({done.returncode}):\n{done.stdout}{done.stderr}")


def promote(kind: Kind, folder: Path) -> None:
    done = _script(kind, "promote", str(folder))
    if done.returncode:
        raise RuntimeError(f"{kind}.sh promote failed ({done.returncode}):\n{done.stdout}{done.stderr}")


def kill(kind: Kind, folder: Path) -> None:
    """End a server at once, without a checkpoint."""
    if _image(kind):
        containers.kill(folder)
    else:
        _script(kind, "kill", str(folder))


def stop(kind: Kind, folder: Path) -> None:
    if _image(kind):
        containers.stop(folder)
    else:
        _script(kind, "stop", str(folder))


def _discard(kind: Kind, folder: Path) -> None:
    """End a server whose data nobody reads again: a clean shutdown takes seconds, and nothing is proved by it."""
    if _image(kind):
        containers.discard(folder)
    elif kind.startswith("postgres"):
        kill(kind, folder)
    elif kind == "yarn":
        stop(kind, folder)  # its containers are processes of their own
    else:
        _script(kind, "stop", str(folder), STOP_SECONDS="0")


def _script(kind: Kind, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    script, _, series = kind.partition("-")
    more = {f"{script.upper()}_SERIES": series} if series else {}
    return subprocess.run(
        [HERE / f"{script}.sh", *words],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={**os.environ, **more, **environment},
    )


def _image(kind: str) -> str | None:
    return os.environ.get(image_variable(kind))


def image_variable(kind: str) -> str:
    """The variable with the Docker image from which servers of this kind are started: `--docker` of pytest sets it."""
    return f"PENSTOCK_IMAGE_{kind.upper()}"


def free_port() -> int:
    """A port whose successors are free too: Kafka's controller and Pulsar's admin interface and bookie listen there.

    Below those that the system gives to outgoing connections: one stopped and started finds its port again. No other
    process of these tests gets it while this one lives: a server needs seconds until it listens.
    """
    while True:
        port = random.randrange(20_000, 32_000, 4)
        with socket.socket() as first, socket.socket() as second, socket.socket() as third:
            try:
                for number, socket_ in enumerate((first, second, third)):
                    socket_.bind(("127.0.0.1", port + number))
            except OSError:
                continue
        if _claimed(port):
            return port


_CLAIMS: list[TextIO] = []


def _claimed(port: int) -> bool:
    # The system frees the lock when the process ends, however it ends. Each worker has its own temporary folder, so the
    # locks are beside the servers, which all runs share.
    folder = Path.home() / ".cache" / "penstock-servers" / "ports"
    folder.mkdir(parents=True, exist_ok=True)
    claim = (folder / str(port)).open("w")
    try:
        fcntl.flock(claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        claim.close()
        return False
    _CLAIMS.append(claim)
    return True
