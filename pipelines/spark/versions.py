"""The versions of Spark that are supported, and what needs a newer one than the oldest."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from penstock.errors import ConfigError
from penstock.pipelines.spark.java import pyspark_version

Version = tuple[int, int]

OLDEST: Version = (4, 0)
NEWEST: Version = (4, 3)
SUPPORTED = "4.0 to 4.3"


@dataclass(frozen=True, slots=True)
class _Need:
    title: str
    since: Version
    instead: str


class Feature(Enum):
    """A part of Penstock that needs a newer Spark than the oldest, with what to do instead."""

    FILTERS = _Need(
        'filter push-down in spark.read.format("penstock")',
        (4, 1),
        "Spark reads the whole table and filters the rows itself, which is slower; results are the same",
    )
    TIMES = _Need("columns of type TIME in Spark", (4, 1), "read the other columns with .schema(...)")
    READ_LIMITS = _Need(
        "a stream of a table with read.stream.maxRowsPerTrigger",
        (4, 2),
        "remove the option: each batch then reads all new snapshots",
    )
    CONSUMERS = _Need(
        "a stream of a table with consumer-id",
        (4, 2),
        "remove the option: a query continues from its checkpoint without it",
    )
    CDC_SOURCES = _Need(
        'sources of changes in spark.readStream, such as format("mysql-cdc")',
        (4, 2),
        "a pipeline (penstock run) reads the same sources with this Spark, and its tables can be read as streams",
    )
    NAMED_WRITES = _Need(
        "INSERT INTO a name of CREATE TABLE ... USING penstock",
        (4, 1),
        "insert into a temporary view, or write to the path",
    )
    CATALOG = _Need(
        "the Spark catalog: tables by name, MERGE, UPDATE, DELETE, CALL",
        (4, 3),
        "read and write tables by their path with format('penstock'), and run statements with  penstock sql",
    )

    @property
    def title(self) -> str:
        return self.value.title

    @property
    def since(self) -> Version:
        return self.value.since

    @property
    def is_there(self) -> bool:
        """Return whether the installed Spark is new enough."""
        return installed() >= self.since

    def require(self) -> None:
        """Raise ConfigError if the installed Spark is too old for the feature."""
        if self.is_there:
            return
        raise ConfigError(
            f"{self.title} needs Spark {text(self.since)} or newer",
            spark=pyspark_version(),
            hint=f"install PySpark {text(self.since)} or newer, below 4.4; or {self.value.instead}",
        )


def text(version: Version) -> str:
    return ".".join(map(str, version))


def installed() -> Version:
    """Return the version of the installed Spark, without importing it."""
    return parsed(pyspark_version())


def parsed(version: str) -> Version:
    """Return the first two numbers of a version."""
    found = re.match(r"(\d+)\.(\d+)", version)
    if found is None:
        raise ConfigError(f"this is not a version of Spark: {version!r}", hint=f"install PySpark {SUPPORTED}")
    return int(found[1]), int(found[2])


def check_version() -> None:
    """Raise ConfigError if the installed Spark is older than the oldest that is supported."""
    if installed() < OLDEST:
        raise ConfigError(
            f"Penstock needs Spark {text(OLDEST)} or newer",
            spark=pyspark_version(),
            hint=f"install PySpark {SUPPORTED}; on a cluster, submit to one with that version",
        )


def lacking() -> list[Feature]:
    """Return the features that need a newer Spark than the installed one."""
    return [feature for feature in Feature if installed() < feature.since]
