"""The name of a checkpoint for Spark, which writes it through Hadoop."""

from __future__ import annotations

from pathlib import Path


def checkpoint_url(location: str) -> str:
    """Return the URL of a checkpoint as Hadoop expects it.

    A path is one of this machine, as everywhere in Penstock; without a scheme, Hadoop would take it for one of the file
    system that fs.defaultFS names, for example HDFS on a machine of a Hadoop cluster.
    """
    if "://" in location or location.startswith("file:"):
        return location
    return f"file://{Path(location).absolute()}"
