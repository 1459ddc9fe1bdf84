"""The root of the error tree. Packages derive their own errors from these classes in an `errors.py`.

PenstockError
  ConfigError         the spec, an option or the command line is wrong             exit 2   never retried
  SourceError         a database, a broker or a file is unreadable                 exit 3   `retryable` decides
    PositionLost      the binlog or the offsets no longer exist                    exit 4   never skipped silently
  SchemaConflict      the policy forbids a schema change of the source             exit 5
  TableCorrupt        a file contradicts its metadata                              exit 6
  CommitConflict      a concurrent writer committed first                          exit 7   retried inside first
  StoreError          the store that contains the tables failed, perhaps briefly   exit 12  retried
  DecodeError         one record cannot be decoded                                 exit 8   or the dead-letter table
  CheckpointDamaged   a file of the checkpoint is cut or damaged                   exit 9
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import ClassVar, overload

# The user and the password are between :// and the last @ before the path. On Azure, the name before the @ is that of
# the container, and hints write `user@`. A quote and a comma end a text of SQL or JSON, and with it the URL.
_LOGIN = re.compile(
    r"""(?<=://)(?!(?:(?<=abfs://)|(?<=abfss://))[\w$-]+@)(?!user@(?![^/?#\s]*@))(?:(?!["'][],:})])[^/?#\s])*@""",
    re.IGNORECASE,
)
# Texts of other libraries show addresses as they were given. Only such texts are searched for it: in sentences of
# Penstock, `a:b@c` may be anything. A password with a blank or a quote is shown from there on.
_BARE_LOGIN = re.compile(r"""(?<![^\s"'(=,\[])[^\s"'@:/(=,\[]{1,200}:[^\s"'@/]{1,200}@(?=[\w\[])""")
# A signed URL has its signature or key among the parameters. The length of their names has a limit, since a search
# without one takes minutes in a long text with many question marks.
_QUERY_SECRET = re.compile(
    r"""([?&][^?=&#\s"']{0,80}(?:key|secret|token|password|sig|credential)[^?=&#\s"']{0,80}=)[^&#\s]+""", re.IGNORECASE
)


def without_login(text: str) -> str:
    """Return the text without the user names, passwords and keys of the URLs it contains."""
    return _QUERY_SECRET.sub(r"\1***", _LOGIN.sub("", text))


def without_bare_logins(text: str) -> str:
    """Return the text without logins, also those of addresses without a protocol, such as `user:password@host`."""
    return _BARE_LOGIN.sub("", without_login(text))


def without_logins(addresses: str) -> str:
    """Return addresses such as `host:port` as they may be shown; all before the last login is left out with it."""
    return without_login(addresses).rpartition("@")[2]


class PenstockError(Exception):
    """An error that states what happened, where, and what to do about it.

    `facts` (table=, topic=, partition=, offset=, file=, ...) are printed below the message, one per line. `hint` says
    how to repair the problem and is printed last.
    """

    exit_code = 1
    retryable = False
    advice: ClassVar[str | None] = None  # the hint of errors of a class that have none of their own

    def __init__(self, message: str, *, hint: str | None = None, **facts: object) -> None:
        message = without_login(message)
        super().__init__(message)
        self.message = message
        self.hint = self.advice if hint is None else without_login(hint)
        # Callers pass all facts that they may know; unknown ones are None and are not shown.
        self.facts = {name: _shown(value) for name, value in facts.items() if value is not None}

    def __str__(self) -> str:
        lines = [self.message]
        lines += [f"  {label(name)}: {value}" for name, value in self.facts.items()]
        if self.hint:
            lines.append(f"  to repair: {self.hint}")
        return "\n".join(lines)

    def __reduce__(self) -> tuple[object, ...]:
        # Spark pickles errors between processes, and the default pickling of exceptions loses keyword arguments.
        return _revive, (type(self), self.message, self.hint, self.facts)


def _shown(value: object) -> object:
    """Return a fact without the logins of URLs: an address in it may have one where none belongs."""
    return without_login(value) if isinstance(value, str) else value


def in_one_line(error: BaseException) -> str:
    """Return the text of an error for an event of the log, which programs read line by line."""
    return "; ".join(filter(None, map(str.strip, str(error).splitlines())))


def label(fact: str) -> str:
    """Return the name of a fact as it is shown; a name of a table or column stays as it is."""
    return fact.replace("_", " ") if fact.isidentifier() else fact


def _revive(kind: type[PenstockError], message: str, hint: str | None, facts: dict[str, object]) -> PenstockError:
    return kind(message, hint=hint, **facts)


class ConfigError(PenstockError):
    """An error in the spec, an option or the command line."""

    exit_code = 2


class SourceError(PenstockError):
    """A failed read from a database, a broker or a file. `retryable` says whether another attempt may succeed."""

    exit_code = 3

    def __init__(self, message: str, *, hint: str | None = None, retryable: bool = False, **facts: object) -> None:
        super().__init__(message, hint=hint, **facts)
        self.retryable = retryable


class PositionLost(SourceError):
    """A position in the source that no longer exists: the binlog or the offsets have been deleted."""

    exit_code = 4


class SchemaConflict(PenstockError):
    """A schema change of the source that the policy forbids."""

    exit_code = 5


class TableCorrupt(PenstockError):
    """A file of a table that contradicts the table's metadata."""

    exit_code = 6
    advice = (
        "restore the file from a backup; or go back to a snapshot that does not need it with  penstock rollback-to , "
        "which deletes all newer snapshots, and let a pipeline read the rows again with  --reset TABLE , which empties "
        "the table first"
    )


class CommitConflict(PenstockError):
    """A commit that failed because a concurrent writer committed first."""

    exit_code = 7
    retryable = True


class StoreError(PenstockError, OSError):
    """A failed or unanswered request to the store that contains the tables; it may have taken effect all the same.

    The class derives from OSError as well, so that code can handle errors of any store without knowing which store it
    is.
    """

    exit_code = 12
    retryable = True


class DecodeError(PenstockError):
    """A record that cannot be decoded."""

    exit_code = 8


class CheckpointDamaged(PenstockError):
    """A file of the checkpoint that is cut or damaged, because a disk was full or lost power."""

    exit_code = 9


def counted(number: int, noun: str) -> str:
    """Return a number of things as text, such as "1 table" or "2,000 tables"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def nearest(name: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """Return the known name that is most similar to an unknown one, or None if no name is similar."""
    return next(iter(_close_matches(name, known, 1, cutoff)), None)


@overload
def did_you_mean(name: str, known: Iterable[str], *, cutoff: float = 0.6, most: int = 1) -> str | None: ...


@overload
def did_you_mean(name: str, known: Iterable[str], otherwise: str, *, cutoff: float = 0.6, most: int = 1) -> str: ...


def did_you_mean(
    name: str, known: Iterable[str], otherwise: str | None = None, *, cutoff: float = 0.6, most: int = 1
) -> str | None:
    """Return the hint that suggests the `most` nearest known names, or `otherwise` if no name is similar."""
    near = _close_matches(name, known, most, cutoff)
    return f"did you mean {' or '.join(near)}?" if near else otherwise


def _close_matches(name: str, known: Iterable[str], most: int, cutoff: float) -> list[str]:
    import difflib  # needed for errors only, and every process imports this module

    # A name in another case is nearer than any other.
    spelt: dict[str, list[str]] = {}
    for spelling in dict.fromkeys(known):
        spelt.setdefault(spelling.casefold(), []).append(spelling)
    found = difflib.get_close_matches(name.casefold(), spelt, most, cutoff)
    return [name for folded in found for name in spelt[folded]][:most]
