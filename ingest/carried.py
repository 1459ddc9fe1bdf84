"""Errors on their way through Spark, which keeps nothing of an exception but its text."""

from __future__ import annotations

import importlib
import json
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING

from penstock.errors import PenstockError

if TYPE_CHECKING:
    from collections.abc import Iterator

_MARK = "penstock-error:"


class CarriedError(RuntimeError):
    """A PenstockError as text that a person can read and `recovered` can turn back."""

    def __init__(self, error: PenstockError) -> None:
        kind = type(error)
        facts = {name: str(value) for name, value in error.facts.items()}
        fields = [kind.__module__, kind.__qualname__, error.message, error.hint, facts, error.retryable]
        super().__init__(f"{error}\n{_MARK}{json.dumps(fields)}")


@contextmanager
def carrying() -> Iterator[None]:
    """Around what Spark calls: a PenstockError leaves as text that survives the way to the driver."""
    try:
        yield
    except PenstockError as error:
        raise CarriedError(error) from error


def recovered(error: BaseException) -> PenstockError | None:
    """The error that Spark's exception tells of, None when it is none of ours."""
    found = re.findall(rf"{_MARK}(\[.*\])", str(error))
    if not found:
        return None
    module, name, message, hint, facts, retryable = json.loads(found[-1])
    kind = getattr(importlib.import_module(module), name)
    made: PenstockError = kind(message, hint=hint, **facts)
    if made.retryable != retryable:
        made.retryable = retryable
    return made
