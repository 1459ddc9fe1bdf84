"""Checkpoints on object stores: Spark writes them through Hadoop, whose clients for these are jars of their own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pyspark

# Of the Hadoop that this Spark carries; the connector of Google is released on its own.
_CLIENTS = {
    "s3a": ("org.apache.hadoop:hadoop-aws:{hadoop}", "hadoop-aws"),
    "abfs": ("org.apache.hadoop:hadoop-azure:{hadoop}", "hadoop-azure"),
    "abfss": ("org.apache.hadoop:hadoop-azure:{hadoop}", "hadoop-azure"),
    "gs": ("com.google.cloud.bigdataoss:gcs-connector:hadoop3-2.2.26", "gcs-connector"),
}


@dataclass(frozen=True, slots=True)
class Needed:
    package: str
    fix: str


def checkpoint_url(location: str) -> str:
    """As Hadoop names it: its client for S3 is s3a, whatever the warehouse is called by."""
    scheme, colon, rest = location.partition("://")
    return f"s3a://{rest}" if colon and scheme in {"s3", "s3n"} else location


def checkpoint_needs(location: str, packages: str = "") -> Needed | None:
    """The jar that Spark lacks for this checkpoint; None where it has what it needs, or `packages` bring it."""
    scheme = location.partition("://")[0] if "://" in location else ""
    if scheme not in _CLIENTS:
        return None
    package, jar = _CLIENTS[scheme]
    jars = Path(pyspark.__file__).parent / "jars"
    if any(jars.glob(f"{jar}-*.jar")) or jar in packages:
        return None
    package = package.format(hadoop=hadoop_version())
    return Needed(package, f"penstock run FILE --spark-conf spark.jars.packages={package}")


def hadoop_version() -> str:
    """The version of Hadoop's client among Spark's jars: another one's classes do not fit."""
    jars = (Path(pyspark.__file__).parent / "jars").glob("hadoop-client-api-*.jar")
    return next((jar.stem.removeprefix("hadoop-client-api-") for jar in jars), "3.4.2")
