"""How Spark reads and writes the files of a checkpoint: with fewer processes than by default, and after a kill."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from py4j.protocol import Py4JJavaError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTING = "spark.sql.streaming.checkpointFileManagerClass"
_REFUSES_LEFT_FILES = "spark.sql.streaming.verifyCheckpointDirectoryEmptyOnStart"
# Whether the setting is from here, and not the user's.
_CHOSEN_HERE = "spark.penstock.checkpointFilesChosen"
_QUICK = "FileSystemBasedCheckpointFileManager"
_STREAMING = "org.apache.spark.sql.execution.streaming"
# Since Spark 4.1, and before.
_PACKAGES = (f"{_STREAMING}.checkpointing", _STREAMING)


def prefer_quick_files(session: SparkSession, checkpoint: str) -> None:
    """Let Spark write the files of a local checkpoint by Hadoop's FileSystem and not by its FileContext.

    Both write a temporary file and rename it. Without Hadoop's native libraries, FileContext runs ten processes per
    file (stat, readlink, chmod) and FileSystem two, so a file takes a quarter of the time. A batch has two files. Other
    file systems keep Spark's default, and so does a session in which the user has set the class.
    """
    chosen_here = session.conf.get(_CHOSEN_HERE, "") == "true"
    if session.conf.get(SETTING, "") and not chosen_here:
        return
    if _is_local(checkpoint):
        session.conf.set(SETTING, _quick_class(session))
        session.conf.set(_CHOSEN_HERE, "true")
    elif chosen_here:
        session.conf.unset(SETTING)
        session.conf.unset(_CHOSEN_HERE)


@contextmanager
def files_of_copy(session: SparkSession) -> Iterator[None]:
    """Let a query that starts here write a local copy of its logs, if the user has set the class for a store instead.

    Spark's documentation recommends such a class for S3. It refuses local files.
    """
    given = session.conf.get(SETTING, "")
    session.conf.set(SETTING, _quick_class(session))
    try:
        yield
    finally:
        if given:
            session.conf.set(SETTING, given)
        else:
            session.conf.unset(SETTING)


def accept_left_files(session: SparkSession) -> None:
    """Let a query begin although its checkpoint contains files and no batch.

    A driver that is killed while it writes its first batch leaves a temporary file there, and then newer versions of
    Spark refuse every further start. Of two drivers that begin together, Spark would end one with an error about other
    data; its log of offsets ends one too, and says that two use it. Which tables belong to a checkpoint is compared
    before a query starts.
    """
    session.conf.set(_REFUSES_LEFT_FILES, "false")


def _is_local(checkpoint: str) -> bool:
    return "://" not in checkpoint or checkpoint.startswith("file:")


def _quick_class(session: SparkSession) -> str:
    """Return the name of the class in this version of Spark."""
    jvm = session.sparkContext._jvm
    if jvm is None:
        raise RuntimeError("the session has been stopped")
    for package in _PACKAGES:
        try:
            jvm.java.lang.Class.forName(f"{package}.{_QUICK}")
        except Py4JJavaError:
            continue
        return f"{package}.{_QUICK}"
    raise RuntimeError(f"this version of Spark has no class {_QUICK}")
