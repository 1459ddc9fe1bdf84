"""Changes of a catalog that a failure of the store ended half way: what is left, and what finishes them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from penstock.errors import StoreError


class ChangeUnfinished(StoreError):
    """A table was dropped or renamed in part, because the store failed or refused in between."""

    def __init__(self, message: str, reason: OSError, hint: str, **facts: object) -> None:
        super().__init__(message, hint=hint, reason=str(reason).partition("\n")[0], **facts)
        # A refusal lasts.
        self.retryable = bool(getattr(reason, "retryable", False))


@contextmanager
def finished_by(message: str, hint: Callable[[], str], **facts: object) -> Iterator[None]:
    """Raise ChangeUnfinished in place of an error of the store; `hint` is asked then."""
    try:
        yield
    except ChangeUnfinished:
        raise
    except OSError as reason:
        raise ChangeUnfinished(message, reason, hint(), **facts) from reason
