"""Servers from Docker images, by testcontainers: for versions that no package has. Needs a Docker daemon on Linux.

| kind | images |
|---|---|
| mysql | mysql:8.0, mysql:8.4, percona:8.0 and others with the entry point of MySQL's official image |
| mariadb | mariadb:10.6, mariadb:12 and others of the official image |
| mongodb | mongo:7, mongo:8 and others of the official image: a replica set of one |

Options, users and the effects of `kill` and `stop` are those of the scripts beside this module. Data are in the
container. A further container of testcontainers removes the containers of a run that was killed,
unless `TESTCONTAINERS_RYUK_DISABLED=true` is set.
"""

from __future__ import annotations

import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.waiting import until

if TYPE_CHECKING:
    from testcontainers.core.container import DockerContainer

_LOG = "--server-id=1 --log-bin=binlog --binlog-format=ROW --binlog-row-image=FULL --binlog-row-metadata=FULL"
_LIGHT = "--innodb-buffer-pool-size=128M --innodb-flush-log-at-trx-commit=0 --sync-binlog=0 --skip-name-resolve"
_OPTIONS = {
    "mysql": f"{_LOG} {_LIGHT} --gtid-mode=ON --enforce-gtid-consistency=ON --mysqlx=OFF",
    "mariadb": f"{_LOG} {_LIGHT} --character-set-server=utf8mb4",
}
_READER = "SELECT, RELOAD, LOCK TABLES, SHOW DATABASES, REPLICATION SLAVE, REPLICATION CLIENT"
_EMPTY_PASSWORD = {"MYSQL_ALLOW_EMPTY_PASSWORD": "yes", "MARIADB_ALLOW_EMPTY_ROOT_PASSWORD": "yes"}
_REPLICA_SET = """
    const members = [{_id: 0, host: '127.0.0.1:PORT'}]
    try { rs.initiate({_id: 'rs0', members: members}) } catch (e) { if (e.code !== 23) throw e }
    while (!db.hello().isWritablePrimary) sleep(100)"""
_SHELL = 'exec "$(command -v mongosh || command -v mongo)" --quiet --port "$0" --eval "$1"'
_started: dict[Path, DockerContainer] = {}


def start(kind: str, image: str, folder: Path, port: int, *options: str) -> None:
    """Start a server at this port, on the data that it has left if it was started for this folder before."""
    known = _started.get(folder.resolve())
    try:
        if known is None:
            known = _started[folder.resolve()] = _created(kind, image, port, *options)
            known.start()
        else:
            known.get_wrapped_container().start()
        _await_answer(known, image, port)
        if kind == "mongodb":
            _make_replica_set(known, image, port)
    except BaseException:
        discard(folder)
        raise


def _make_replica_set(started: DockerContainer, image: str, port: int) -> None:
    code, output = started.exec(["sh", "-c", _SHELL, str(port), _REPLICA_SET.replace("PORT", str(port))])
    if code:
        raise RuntimeError(f"{image} does not become a replica set: {output.decode(errors='replace')}")


def kill(folder: Path) -> None:
    """End a server at once, and keep its data."""
    _started[folder.resolve()].get_wrapped_container().kill()


def stop(folder: Path) -> None:
    """Shut a server down, and keep its data."""
    if known := _started.get(folder.resolve()):
        known.get_wrapped_container().stop(timeout=60)


def discard(folder: Path) -> None:
    """Remove a server with its data."""
    if known := _started.pop(folder.resolve(), None):
        known.stop()


def _created(kind: str, image: str, port: int, *options: str) -> DockerContainer:
    address = ["--bind-address=127.0.0.1", f"--port={port}"]
    if kind == "mongodb":
        address = ["--replSet", "rs0", "--bind_ip", "127.0.0.1", "--port", str(port)]
    from testcontainers.core.container import DockerContainer  # runs without Docker do not need it

    # On a busy machine, creating a container may take longer than the minute that the client waits.
    made = DockerContainer(image, docker_client_kw={"timeout": 600}, network_mode="host")
    made.with_command([*address, *_OPTIONS.get(kind, "").split(), *options]).with_envs(**_EMPTY_PASSWORD)
    if kind != "mongodb":
        # Run once, when the data are created. The server listens at its port only after that.
        made.with_copy_into_container(_users(kind).encode(), "/docker-entrypoint-initdb.d/users.sql")
    return made


def _users(kind: str) -> str:
    reader = f"{_READER}, SLAVE MONITOR" if kind == "mariadb" else _READER
    return f"""SET sql_log_bin = 0;
CREATE USER IF NOT EXISTS 'root'@'127.0.0.1' IDENTIFIED BY '';
GRANT ALL ON *.* TO 'root'@'127.0.0.1' WITH GRANT OPTION;
CREATE USER IF NOT EXISTS 'cdc'@'%' IDENTIFIED BY 'cdc';
GRANT {reader} ON *.* TO 'cdc'@'%';
"""


def _await_answer(started: DockerContainer, image: str, port: int) -> None:
    container: Any = started.get_wrapped_container()

    def answers() -> bool:
        container.reload()
        if container.status != "running":
            raise RuntimeError(f"{image} has ended:\n{container.logs(tail=20).decode(errors='replace')}")
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    until(answers, f"{image} at port {port}")
