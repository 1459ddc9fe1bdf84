"""Our errors as a user of Spark sees them."""

from __future__ import annotations

from penstock.errors import PenstockError


class plain_errors:  # noqa: N801  used as a function; contextlib's decorator would put the traceback back
    """Around what Spark calls. Spark shows an exception by its whole traceback; without causes and inner frames, the
    message and its hint are most of the text and its end."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, PenstockError):
            raise error.with_traceback(None) from None
