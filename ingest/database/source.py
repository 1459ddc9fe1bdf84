"""A database as a `ChangeSource`: its planner, which is created where batches are planned, and repeated plans."""

from __future__ import annotations

import logging
import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from penstock.errors import PositionLost, SourceError
from penstock.ingest.connector_requests import TableName
from penstock.ingest.database.settings import Address, DatabaseSettings
from penstock.ingest.database.skipped_parts import SKIPS
from penstock.ingest.patience import is_patient
from penstock.ingest.source import SMALL_BYTES, Limit, Offsets

log = logging.getLogger(__name__)

# The weight of a full chunk as a range, in bytes of the log. A snapshot's batch of two million rows, the default, is
# too large for the driver, since Spark reads chunks on all cores.
CHUNK_WEIGHT = 8 << 20
_ATTEMPTS = 3


class BatchPlanner(Protocol):
    """The planner of batches. `at_barrier`: the last batch ends before a change of a whole table, or applies one.

    Its states (`Any` here) have the methods `to_json` and `from_json` of their database's offsets.
    """

    at_barrier: bool

    def begin(self) -> Any:
        """Return the start of a pipeline without a checkpoint."""

    def next(self, before: Any, limit: Limit, until: Any) -> Any:
        """Return the end of the batch after `before`, with its content; None if there is nothing to do."""


S = TypeVar("S", bound=DatabaseSettings[Address])
P = TypeVar("P", bound=BatchPlanner)
T = TypeVar("T")


@dataclass(slots=True)
class DatabaseSource(ABC, Generic[S, P]):
    """A source over one server. Offsets contain the whole content of their batch, so it is the same at every read."""

    settings: S
    _planner: P | None = field(default=None, repr=False, compare=False)

    def __reduce__(self) -> tuple[type[DatabaseSource[S, P]], tuple[S]]:
        return type(self), (self.settings,)

    def small_weight(self) -> int:
        return SMALL_BYTES

    @property
    def planner(self) -> P:
        self._planner = self._planner or self.new_planner()
        return self._planner

    @abstractmethod
    def new_planner(self) -> P:
        """Return a planner that knows only the settings."""

    @abstractmethod
    def progress_at(self, offsets: Offsets) -> Any:
        """Return the planner's state that these offsets contain."""

    @abstractmethod
    def position_at(self, offsets: Offsets) -> Any:
        """Return the position in the log of offsets that `available` returned."""

    def initial_offsets(self) -> Offsets:
        # The position is determined together with the first end, which the checkpoint stores.
        return {}

    def latest_offsets(self, start: Offsets, limit: Limit, until: Offsets | None = None) -> Offsets:
        return self.repeated(lambda: self._end_of_batch(start, limit, until))

    def repeated(self, work: Callable[[], T]) -> T:
        """Return the result of a part of planning, which is repeated if the connection to the server is lost."""
        for attempt in range(_ATTEMPTS):
            try:
                return work()
            except SourceError as error:
                # A failed plan may have changed the planner's knowledge of tables; both are discarded.
                self._planner = None
                # The planner has waited for an unreachable server already, so there is no pause between attempts. A
                # caller who does not wait for a server, as after a stop, wants no further attempt either.
                if not self.plans_again(error, attempt) or attempt == _ATTEMPTS - 1 or not is_patient():
                    raise
                log.warning(
                    "event=plan_again try=%d of=%d waits=%gs reason=%s",
                    attempt + 2,
                    _ATTEMPTS,
                    self.settings.server.patience,
                    error.message,
                )
        raise AssertionError

    def plans_again(self, error: SourceError, attempt: int) -> bool:
        """Return whether a plan that failed is repeated by a new planner."""
        return error.retryable

    def _end_of_batch(self, start: Offsets, limit: Limit, until: Offsets | None) -> Offsets:
        stop = None if until is None else self.position_at(until)
        begin = self.progress_at(start) if "server" in start else self.planner.begin()
        end = self.planner.next(begin, limit, stop)
        if end is not None:
            return dict(end.to_json())
        # The first end is stored even if there is nothing to read. Otherwise the next call would begin at the
        # server's position of that time, and the changes before it would be lost.
        return start if "server" in start else dict(begin.to_json())

    def filled_columns(self, table: TableName, columns: Collection[str]) -> list[str]:
        if not (self.settings.fills_added_columns and self.settings.reads_tables):
            return []
        return [name for name in self.columns_with_values(table) if name in columns]

    def columns_with_values(self, table: TableName) -> list[str]:
        """Return the columns of a table that have a value in rows which are older than the column."""
        return []

    def read_again(self, table: TableName) -> None:
        self.settings.requests.add(table)

    def skips_if_lost(self, reread: str, check: Callable[[], None] | None = None) -> dict[str, bool]:
        """Return the marks for the ranges of a batch if the batch after it reads all tables again.

        That is so if a request to do so is not carried out yet; `reread` is the one that the batch knows. It is also so
        if `check` finds that the batch's own part of the log is gone, and this is the answer to a lost position. The
        request is stored first: the run may end before the next batch, and be followed by one without the request.
        """
        settings = self.settings
        if settings.is_requested(reread) and not settings.reset:
            request = settings.rereads
        elif check is not None and settings.rereads_when_lost and _is_lost(check):
            request = secrets.token_hex(4)
        else:
            return {}
        settings.requests.add_emptying((), request)
        return {SKIPS: True}

    def at_barrier(self) -> bool:
        return self._planner is not None and self._planner.at_barrier

    def close(self) -> None:
        self._planner = None


def _is_lost(check: Callable[[], None]) -> bool:
    """Return whether the part of the log that a batch was planned with is gone for good."""
    try:
        check()
    except PositionLost as error:
        if error.retryable:
            return False  # reading the batch fails, and is repeated
        log.warning("event=position_lost reason=%s position=%s", error.message, error.facts.get("position"))
        return True
    return False
