"""Transport of errors through Spark, which keeps only the text of an exception.

That text also shows data of others: records, column names, table names, file names. Therefore an error is recovered
only from a line with a secret of the run, and only as data: its class is looked up among the Penstock error classes
that this process has loaded, and nothing is imported or called by a name from the text.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from penstock.errors import PenstockError

_MARK = "penstock-error"


class CarriedError(RuntimeError):
    """An error as text: readable for a person, with a last line for `ErrorMark.recovered`."""


@dataclass(frozen=True, slots=True)
class ErrorMark:
    """The secret of one run, which its tasks receive with their code.

    Create a new mark for every attempt: once an error has been printed, its mark is not secret any more.
    """

    token: str = field(default_factory=lambda: secrets.token_hex(16), repr=False)

    @contextmanager
    def carrying(self) -> Iterator[None]:
        """A context for code that Spark calls: Penstock and OS errors leave it as text that `recovered` can read."""
        try:
            yield
        except PenstockError as error:
            raise self._carried(str(error), _fields(error)) from error
        except OSError as error:
            if error.errno is None:
                raise
            fields = {"errno": error.errno, "words": error.strerror, "file": error.filename and str(error.filename)}
            raise self._carried(str(error), fields) from error

    def recovered(self, error: BaseException) -> PenstockError | OSError | None:
        """Return the error that Spark's exception carries, None if it carries no error of this run."""
        lines = re.findall(rf"^{_MARK} {self.token} (\{{.*\}})\s*$", str(error), re.MULTILINE)
        # The last line: Python prints the cause of an exception before the exception itself.
        return _made(json.loads(lines[-1])) if lines else None

    def _carried(self, text: str, fields: Mapping[str, Any]) -> CarriedError:
        return CarriedError(f"{text}\n{_MARK} {self.token} {json.dumps(fields)}")


def _fields(error: PenstockError) -> dict[str, Any]:
    return {
        "kinds": [_name(kind) for kind in type(error).__mro__ if issubclass(kind, PenstockError)],
        "message": error.message,
        "hint": error.hint,
        "facts": {name: str(value) for name, value in error.facts.items()},
        "retryable": error.retryable,
    }


def _made(fields: Mapping[str, Any]) -> PenstockError | OSError:
    if "errno" in fields:
        named = [] if fields["file"] is None else [fields["file"]]
        return OSError(fields["errno"], fields["words"], *named)
    # The class of the error may be loaded only in the task, for example the class of an extension. Then the nearest
    # known base class is used, so that exit code and retries are the same as for its family.
    known = {_name(kind): kind for kind in _kinds(PenstockError)}
    kind = next((known[name] for name in fields["kinds"] if name in known), PenstockError)
    # Not by calling the class: the parameters of its __init__ may be others.
    made = kind.__new__(kind)
    PenstockError.__init__(made, fields["message"], hint=fields["hint"], **fields["facts"])
    if made.retryable != fields["retryable"]:
        made.retryable = fields["retryable"]
    return made


def _kinds(kind: type[PenstockError]) -> Iterator[type[PenstockError]]:
    yield kind
    for subclass in kind.__subclasses__():
        yield from _kinds(subclass)


def _name(kind: type[PenstockError]) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"
