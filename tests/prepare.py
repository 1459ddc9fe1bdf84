"""Fetch what the tests run against, before the clock of the first test starts; everything is kept for the next run.

Missing tools are reported now; tests that need them are skipped with a report.
"""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from penstock.errors import ConfigError
from penstock.pipelines.spark.quick_start import archive_path, use_lean_home
from penstock.pipelines.spark.session_settings import prepare_environment
from tests.golden.cases import unpacked
from tests.integration.install.environments import WHEELS
from tests.interop.duckdb_iceberg import client as duckdb_iceberg
from tests.interop.oracle import client as oracle
from tests.interop.pypaimon import client as pypaimon
from tests.interop.pypaimon_rust import client as pypaimon_rust

SERVERS = Path(__file__).resolve().parent / "servers"


def server(kind: str, **settings: str) -> Callable[[], object]:
    environment = {**os.environ, **settings}
    return lambda: subprocess.run([SERVERS / f"{kind}.sh", "install"], check=True, env=environment)


def spark_classes() -> None:
    """An archive of Spark's classes, as `penstock warm` makes it: a JVM then starts with half the CPU time."""
    prepare_environment()
    use_lean_home()
    if not archive_path().exists():
        subprocess.run([sys.executable, "-W", "ignore", "-m", "penstock.pipelines.commands.main", "warm"], check=True)


def wheel_of_pyspark() -> None:
    """Build the wheel once: the registry has the source alone, and tests make environments that need it."""
    version = importlib.metadata.version("pyspark")
    if not list(WHEELS.glob(f"pyspark-{version}-*.whl")):
        words = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(WHEELS), f"pyspark=={version}"]
        subprocess.run(words, check=True)


STEPS: dict[str, Callable[[], object]] = {
    "golden tables": unpacked,
    "Java Paimon": oracle.prepare,
    "pypaimon": pypaimon.prepare,
    "pypaimon-rust": pypaimon_rust.prepare,
    "DuckDB for Iceberg": duckdb_iceberg.prepare,
    "classes of Spark": spark_classes,
    "wheel of PySpark": wheel_of_pyspark,
    "Kafka": server("kafka"),
    "MySQL": server("mysql"),
    "MariaDB 10.11": server("mariadb"),
    "MariaDB 11.8": server("mariadb", MARIADB_SERIES="11.8"),
    "PostgreSQL": server("postgres"),
    "PostgreSQL 14": server("postgres", POSTGRES_SERIES="14"),
    "PostgreSQL 16": server("postgres", POSTGRES_SERIES="16"),
    "PostgreSQL 17": server("postgres", POSTGRES_SERIES="17"),
    "PostgreSQL 18": server("postgres", POSTGRES_SERIES="18"),
    "PgBouncer": server("pgbouncer"),
    "Kerberos": server("kerberos"),
    "Pulsar": server("pulsar"),
    "MongoDB's stand-in": server("mongodb"),
    "Hive metastore 3.1": server("hive", HIVE_SERIES="3.1"),
    "Hive metastore 4.0": server("hive", HIVE_SERIES="4.0"),
    "Iceberg's REST catalog": server("iceberg"),
    "HDFS and YARN": server("hdfs"),
    "Azurite": server("azurite"),
    "Chromium": server("chromium"),
}

# Servers that are built from source take minutes of all cores, too much of the hour that `make test` has.
STEPS_OF_A_NIGHT: dict[str, Callable[[], object]] = {"Versity's S3 gateway": server("versitygw")}


def main() -> None:
    steps = STEPS | STEPS_OF_A_NIGHT if "--night" in sys.argv[1:] else STEPS
    for name, fetch in steps.items():
        started = time.monotonic()
        try:
            fetch()
        except (subprocess.CalledProcessError, OSError, ConfigError) as error:
            print(f"prepare: {name} IS NOT TO BE HAD HERE: {error}", flush=True)
        else:
            print(f"prepare: {name} ready after {time.monotonic() - started:.1f} s", flush=True)


if __name__ == "__main__":
    main()
