"""Penstock's errors as shown to a user of Spark."""

from __future__ import annotations

from penstock.errors import PenstockError


class plain_errors:  # noqa: N801  used as a function; contextlib's decorator would put the traceback back
    """Context manager around code that Spark calls.

    Spark shows an exception with its whole traceback; without causes and inner frames, the message and its hint are
    most of the text and its end.
    """

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, PenstockError):
            raise error.with_traceback(None) from None
