"""Checkpoints on object stores: Spark writes them through Hadoop, whose object store clients are separate jars."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from penstock.pipelines.spark.java import pyspark_folder

# They must match the Hadoop version of this Spark; Google's connector has its own versions.
_CLIENTS = {
    "s3a": ("org.apache.hadoop:hadoop-aws:{hadoop}", "hadoop-aws"),
    "abfs": ("org.apache.hadoop:hadoop-azure:{hadoop}", "hadoop-azure"),
    "abfss": ("org.apache.hadoop:hadoop-azure:{hadoop}", "hadoop-azure"),
    "gs": ("com.google.cloud.bigdataoss:gcs-connector:hadoop3-2.2.26", "gcs-connector"),
}


@dataclass(frozen=True, slots=True)
class NeededPackage:
    package: str
    fix: str


def checkpoint_url(location: str) -> str:
    """Return the URL as Hadoop expects it: its S3 client has the scheme s3a, whatever scheme the warehouse uses.

    A path is one of this machine, as everywhere in Penstock; without a scheme, Hadoop would take it for one of the file
    system that fs.defaultFS names, for example HDFS on a machine of a Hadoop cluster.
    """
    scheme, colon, rest = location.partition("://")
    if not colon:
        return location if location.startswith("file:") else f"file://{Path(location).absolute()}"
    return f"s3a://{rest}" if scheme in {"s3", "s3n"} else location


def checkpoint_needs(location: str, packages: str = "") -> NeededPackage | None:
    """Return the jar that Spark lacks for this checkpoint, or None if it has all it needs or `packages` adds it."""
    scheme = location.partition("://")[0] if "://" in location else ""
    if scheme not in _CLIENTS:
        return None
    package, jar = _CLIENTS[scheme]
    jars = pyspark_folder() / "jars"
    # The user may have added the jar to Spark's folder, or name it in the settings of the run.
    if any(jars.glob(f"{jar}-*.jar")) or jar in packages:
        return None
    package = package.format(hadoop=hadoop_version())
    return NeededPackage(package, f"penstock run FILE --spark-conf spark.jars.packages={package}")


def hadoop_version() -> str:
    """Return the version of the Hadoop client among Spark's jars: classes of another version are incompatible."""
    jars = (pyspark_folder() / "jars").glob("hadoop-client-api-*.jar")
    return next((jar.stem.removeprefix("hadoop-client-api-") for jar in jars), "3.4.2")
