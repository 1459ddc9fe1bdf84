"""The root of the error tree. Folders derive their own errors from these in an `errors.py` of theirs.

PenstockError
  ConfigError         the spec, an option or the command line is wrong       exit 2   never retried
  SourceError         MySQL, Kafka or a file said no                         exit 3   `retryable` decides
    PositionLost      the binlog or the offsets are gone                     exit 4   never passed in silence
  SchemaConflict      a source change the policy forbids                     exit 5
  TableCorrupt        a file contradicts its metadata                        exit 6
  CommitConflict      another writer won                                     exit 7   retried inside first
  StoreError          the store of the tables failed, perhaps for a moment   exit 12  retried
  DecodeError         one record cannot be read                              exit 8   or the dead-letter table
"""

from __future__ import annotations


class PenstockError(Exception):
    """What happened, where, and what to do about it.

    `facts` are printed one a line below the message (table=, topic=, partition=, offset=, file=, ...); `hint` is the
    repair and comes last.
    """

    exit_code = 1
    retryable = False

    def __init__(self, message: str, *, hint: str | None = None, **facts: object) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.facts = {name: value for name, value in facts.items() if value is not None}

    def __str__(self) -> str:
        lines = [self.message]
        lines += [f"  {name.replace('_', ' ')}: {value}" for name, value in self.facts.items()]
        if self.hint:
            lines.append(f"  to repair: {self.hint}")
        return "\n".join(lines)

    def __reduce__(self) -> tuple[object, ...]:
        # Spark carries errors between processes by pickle, which forgets keyword arguments.
        return _revive, (type(self), self.message, self.hint, self.facts)


def _revive(kind: type[PenstockError], message: str, hint: str | None, facts: dict[str, object]) -> PenstockError:
    return kind(message, hint=hint, **facts)


class ConfigError(PenstockError):
    exit_code = 2


class SourceError(PenstockError):
    exit_code = 3

    def __init__(self, message: str, *, hint: str | None = None, retryable: bool = False, **facts: object) -> None:
        super().__init__(message, hint=hint, **facts)
        self.retryable = retryable


class PositionLost(SourceError):
    exit_code = 4


class SchemaConflict(PenstockError):
    exit_code = 5


class TableCorrupt(PenstockError):
    exit_code = 6


class CommitConflict(PenstockError):
    exit_code = 7
    retryable = True


class StoreError(PenstockError, OSError):
    """The store of the tables does not answer, or fails. What was asked of it may have been done all the same.

    It is an OSError too, so code that handles the errors of a store need not know where the store is.
    """

    exit_code = 12
    retryable = True


class DecodeError(PenstockError):
    exit_code = 8
