"""What can go wrong between a checkpoint and the tables it belongs to."""

from __future__ import annotations

from penstock.errors import ConfigError, PenstockError


class CheckpointMismatch(PenstockError):
    """The checkpoint and a table tell different stories; going on would lose or double rows."""

    exit_code = 9


class KeylessTable(ConfigError):
    """A source table has no primary key, and tables without one are left out."""


class CheckpointInUse(CheckpointMismatch):
    """Another process works on the same checkpoint: one of the two has to end."""


class TablesParked(PenstockError):
    """Tables that failed were set aside, and the run has ended without them."""

    exit_code = 10


class ReplayUndecidable(PenstockError):
    """Nothing tells any more whether the last batch reached a table, and writing it twice would show."""

    exit_code = 9


class SparkEnded(PenstockError):
    """The JVM that this process had started is not there any more: killed, by a machine short of memory as a rule."""

    exit_code = 11


class WorkerLate(PenstockError):
    """Spark waits ten seconds for a Python worker it starts for a query, then gives the query up; nothing sets that."""

    exit_code = 11
    retryable = True
