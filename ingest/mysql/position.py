"""Positions in the binlog: a position in a file, and the set of transactions before it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

from penstock.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

FIRST_EVENT = 4  # after the four magic bytes of the file
DAMAGED_OFFSETS = (
    "the checkpoint is damaged or of a newer release: restore it, or start with a new --checkpoint and --resnapshot"
)


@dataclass(frozen=True, slots=True)
class LogSample:
    """The digest of the events from `first` to `last` (exclusive), which are positions in one file."""

    first: int
    last: int
    digest: str

    def to_json(self) -> list[Any]:
        return [self.first, self.last, self.digest]

    @classmethod
    def from_json(cls, value: Sequence[Any]) -> LogSample:
        match list(value):
            case [int(first), int(last), str(digest)]:
                return cls(first, last, digest)
        raise ConfigError("the offsets contain no sample of a binlog", value=value, hint=DAMAGED_OFFSETS)


@dataclass(frozen=True, slots=True)
class LogPosition:
    """The start of a transaction; `skip_events` row events of that transaction were processed already.

    `gtid` is the set of all transactions before this position, empty if the server has no GTIDs. `begun` is when the
    server began the file, in seconds, 0 if it is not known: a server that was reset or restored gives names, positions
    and GTIDs again, for other transactions. `sample` is of events of the file that were read.
    """

    file: str
    pos: int
    gtid: str = ""
    skip_events: int = 0
    time_ms: int = 0
    begun: int = 0
    sample: LogSample | None = field(default=None, compare=False)

    @property
    def order(self) -> tuple[int, int, int]:
        """The sort key among positions of one server."""
        return file_number(self.file), self.pos, self.skip_events

    def is_before(self, other: LogPosition) -> bool:
        return self.order < other.order

    def at(self, pos: int, gtid: str | None = None) -> LogPosition:
        return replace(self, pos=pos, gtid=self.gtid if gtid is None else gtid, skip_events=0)

    def to_json(self) -> dict[str, object]:
        known: dict[str, object] = {"file": self.file, "pos": self.pos}
        known |= {"gtid": self.gtid} if self.gtid else {}
        known |= {"skip_events": self.skip_events} if self.skip_events else {}
        known |= {"ts": self.time_ms} if self.time_ms else {}
        known |= {"begun": self.begun} if self.begun else {}
        return known | ({} if self.sample is None else {"sample": self.sample.to_json()})

    @classmethod
    def from_json(cls, value: Mapping[str, object]) -> LogPosition:
        numbers = (value.get(name, 0) for name in ("skip_events", "ts", "begun"))
        match [value.get("file"), value.get("pos"), value.get("gtid", ""), *numbers]:
            case [str(file), int(pos), str(gtid), int(skip), int(time_ms), int(begun)]:
                sample = value.get("sample")
                known = LogSample.from_json(sample) if isinstance(sample, list) else None
                return cls(file, pos, gtid, skip, time_ms, begun, known)
        raise ConfigError("the offsets contain no binlog position", value=dict(value), hint=DAMAGED_OFFSETS)

    def __str__(self) -> str:
        return f"{self.file}:{self.pos}" + (f"+{self.skip_events}" if self.skip_events else "")


def file_number(file: str) -> int:
    """Return the number at the end of a log file's name, which may have more than six digits."""
    digits = file.rpartition(".")[2]
    if not digits.isdecimal():
        raise ConfigError(
            "the name of a binlog file must end in a number",
            file=file,
            hint="write it as  SHOW BINARY LOGS  of the server shows it, such as binlog.000042",
        )
    return int(digits)


class TransactionSet(Protocol):
    """A set of transactions of either server; a transaction is named as in its GTID event."""

    def has(self, transaction: str) -> bool: ...
    def add(self, transaction: str) -> None: ...
    def __bool__(self) -> bool: ...
    def __str__(self) -> str: ...


class MySqlGtidSet:
    """A set like `uuid:1-5:7,uuid:tag:3`, as intervals per (uuid, tag)."""

    def __init__(self, text: str = "") -> None:
        self._intervals: dict[str, list[tuple[int, int]]] = {}
        for part in "".join(text.split()).lower().split(","):
            if part:
                self._read(part)

    def _read(self, part: str) -> None:
        uuid, *pieces = part.split(":")
        source = uuid
        for piece in pieces:
            first, _, last = piece.partition("-")
            if first.isdecimal() and (not last or last.isdecimal()):
                self._insert(source, int(first), int(last or first))
            elif last or not piece:
                raise ConfigError(
                    "not a GTID set",
                    gtid=part,
                    hint="write it as  SELECT @@global.gtid_executed  of MySQL shows it: UUID:1-5,UUID:7",
                )
            else:
                # A tag: the intervals after it belong to this uuid and tag.
                source = f"{uuid}:{piece}"

    def _insert(self, source: str, first: int, last: int) -> None:
        known = self._intervals.setdefault(source, [])
        # Transactions of one source arrive in order, so the last interval usually grows.
        if known and known[-1][0] <= first <= known[-1][1] + 1:
            known[-1] = (known[-1][0], max(known[-1][1], last))
            return
        merged: list[tuple[int, int]] = []
        for low, high in sorted([*known, (first, last)]):
            if merged and low <= merged[-1][1] + 1:
                merged[-1] = (merged[-1][0], max(merged[-1][1], high))
            else:
                merged.append((low, high))
        self._intervals[source] = merged

    def add(self, transaction: str) -> None:
        source, _, number = transaction.lower().rpartition(":")
        self._insert(source, int(number), int(number))

    def add_range(self, source: str, first: int, last: int) -> None:
        self._insert(source, first, last)

    def has(self, transaction: str) -> bool:
        source, _, number = transaction.lower().rpartition(":")
        return any(low <= int(number) <= high for low, high in self._intervals.get(source, ()))

    def contains(self, other: MySqlGtidSet) -> bool:
        return all(
            any(mine_low <= low and high <= mine_high for mine_low, mine_high in self._intervals.get(source, ()))
            for source, intervals in other._intervals.items()
            for low, high in intervals
        )

    def intervals(self) -> dict[str, list[tuple[int, int]]]:
        return {source: list(intervals) for source, intervals in self._intervals.items()}

    def __bool__(self) -> bool:
        return bool(self._intervals)

    def __str__(self) -> str:
        return ",".join(
            ":".join([source, *(f"{low}-{high}" if high > low else str(low) for low, high in intervals)])
            for source, intervals in sorted(self._intervals.items())
        )


class MariaDbGtidSet:
    """A set as `domain-server-sequence` of the last transaction per domain: it contains everything up to that."""

    def __init__(self, text: str = "") -> None:
        self._last: dict[int, tuple[int, int]] = {}
        for part in "".join(text.split()).split(","):
            if part:
                self.add(part)

    def add(self, transaction: str) -> None:
        numbers = transaction.split("-")
        if len(numbers) != 3 or not all(number.isdecimal() for number in numbers):
            raise ConfigError(
                "the text is not a GTID of MariaDB",
                gtid=transaction,
                hint="write it as 0-1-42: domain, server, sequence",
            )
        domain, server, sequence = map(int, numbers)
        self._last[domain] = (server, sequence)

    def has(self, transaction: str) -> bool:
        # The server does not matter: sequence numbers of a domain grow across servers.
        domain, _, sequence = map(int, transaction.split("-"))
        return domain in self._last and sequence <= self._last[domain][1]

    def __bool__(self) -> bool:
        return bool(self._last)

    def __str__(self) -> str:
        return ",".join(f"{domain}-{server}-{sequence}" for domain, (server, sequence) in sorted(self._last.items()))


def transaction_set(text: str, *, mariadb: bool) -> TransactionSet:
    """Parse a GTID set of either server."""
    return MariaDbGtidSet(text) if mariadb else MySqlGtidSet(text)
