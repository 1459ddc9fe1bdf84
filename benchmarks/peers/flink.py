"""Flink with Java Paimon in one JVM, as a peer: fetched by its Maven coordinates, commanded by Paimon's own actions."""

from __future__ import annotations

import os
import subprocess
import zlib
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent
HOME = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "penstock" / "flink"
MADE_OF = zlib.crc32((HERE / "flink.xml").read_bytes())  # other coordinates, another folder
CLASSES = HOME / "classes"
# The connectors of Flink CDC contain classes of the same names, so each has a class path of its own.
MYSQL, POSTGRES = "flink-sql-connector-mysql-cdc", "flink-sql-connector-postgres-cdc"
OPEN = [
    f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in ("java.lang", "java.util", "java.net", "java.nio")
]


def jars_with(connector: str) -> Path:
    return HOME / f"jars-{MADE_OF:08x}-{connector}"


def prepare(connector: str = MYSQL) -> None:
    jars = jars_with(connector)
    if not jars.exists():
        HOME.mkdir(parents=True, exist_ok=True)
        words = ["mvn", "-q", "-B", "-f", HERE / "flink.xml", "dependency:copy-dependencies", "-DincludeScope=runtime"]
        subprocess.run([*words, f"-Dconnector={connector}", f"-DoutputDirectory={jars}"], check=True)
    CLASSES.mkdir(exist_ok=True)
    subprocess.run(["javac", "-cp", f"{jars}/*", "-d", CLASSES, HERE / "Peer.java"], check=True)


def command(
    action: str, flags: Sequence[str], *, connector: str = MYSQL, parallelism: int = 2, checkpoint_seconds: int = 10
) -> list[str]:
    words = ["java", "-Xmx3g", *OPEN, "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
    words += ["-cp", f"{CLASSES}:{jars_with(connector)}/*"]
    return [*words, "Peer", str(parallelism), str(checkpoint_seconds), action, *flags]
