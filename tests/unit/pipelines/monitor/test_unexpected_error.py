"""Errors of the system and of Spark, in words of ours."""

from __future__ import annotations

import errno
import os

import pytest

from penstock.pipelines.monitor.unexpected_error import unexpected


@pytest.mark.parametrize(
    ("number", "repair"),
    [
        (errno.ENOSPC, "the disk is full"),
        (errno.EROFS, "this disk is read-only"),
        (errno.EACCES, "change the permissions"),
        (errno.ENOENT, "check the path"),
        (errno.ENOTDIR, "check the path: a part of it is a file"),
        (errno.EIO, "check the disk, its permissions"),
    ],
)
def test_an_error_of_the_system_says_what_to_do_about_its_file(number: int, repair: str) -> None:
    error = unexpected(OSError(number, os.strerror(number), "/data/x"))
    assert error.facts["file"] == "/data/x"
    assert str(error.hint).startswith(repair)


def test_a_full_disk_is_named_although_arrow_names_no_file() -> None:
    text = "Error writing bytes to file. Detail: [errno 28] No space left on device"
    assert str(unexpected(OSError(errno.ENOSPC, text)).hint).startswith("the disk is full")
    assert str(unexpected(OSError(errno.ENOENT, "no such key")).hint).startswith("check the disk, its permissions")


def test_the_last_cause_of_a_spark_error_is_reported() -> None:
    text = (
        "[STREAM_FAILED] it ended: Traceback (most recent call last):\n  File x\nOSError: Unable to load\nSQLSTATE: 1"
    )
    error = unexpected(RuntimeError(text))
    assert error.facts["cause"] == "OSError: Unable to load"
    assert error.message.count("\n") == 0
    java = "An error occurred while calling o80.start.\n: java.io.IOException: mkdir of /x failed\n\tat java.base/x"
    assert unexpected(RuntimeError(java)).facts["cause"] == "IOException: mkdir of /x failed"


@pytest.mark.parametrize(
    ("cause", "repair"),
    [
        ("ModuleNotFoundError: No module named 'pyarrow'", "a Python process of Spark lacks this module"),
        (
            "pyspark.errors.exceptions.base.PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] Python in worker has "
            "different version: 3.10 than that in driver: 3.11",
            "the workers need the Python version of the driver",
        ),
        ("terminated with exception: java.io.IOException: No space left on device SQLSTATE: XXKST", "the disk is full"),
        ("java.nio.file.FileSystemException: /tmp/blockmgr-1: Read-only file system", "this disk is read-only"),
        ("ValueError: any other", "unexpected error"),
    ],
)
def test_workers_that_lack_something_are_named(cause: str, repair: str) -> None:
    assert str(unexpected(RuntimeError(f"[STREAM_FAILED] it ended: Traceback\n  File x\n{cause}\n")).hint).startswith(
        repair
    )
