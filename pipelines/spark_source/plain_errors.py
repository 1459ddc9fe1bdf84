"""Errors of code that Spark calls: shown as one sentence with its hint, and without a traceback."""

from __future__ import annotations

import os
import sys

from penstock.errors import PenstockError

# What Spark's workers read when they send an exception to the JVM.
_HIDES = "SPARK_HIDE_TRACEBACK"
_WORKERS = ("pyspark.", "penstock.pipelines.spark.")


class plain_errors:  # noqa: N801  used as a function; contextlib's decorator would put the traceback back
    """Context manager around code that Spark calls.

    Spark shows an exception of its workers with the whole traceback, in front of the message. A worker ends with its
    first exception, so a setting of its process leaves out the traceback of this one. Other exceptions are bugs, and
    keep theirs.
    """

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, PenstockError):
            if _in_worker():
                os.environ[_HIDES] = "1"
            raise error.with_traceback(None) from None


def _in_worker() -> bool:
    """Return whether this process is a worker of Spark, or was forked by the process that starts them."""
    main = getattr(sys.modules.get("__main__"), "__spec__", None)
    return str(getattr(main, "name", "")).startswith(_WORKERS)
