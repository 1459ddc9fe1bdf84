"""Errors about a checkpoint and the tables it belongs to, and about the Spark process that runs a pipeline."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.errors import ConfigError, PenstockError


class CheckpointMismatch(PenstockError):
    """The checkpoint and a table contradict each other; continuing would lose or duplicate rows."""

    exit_code = 9


class KeylessTable(ConfigError):
    """A source table has no primary key, and tables without one are left out."""


class CheckpointInUse(CheckpointMismatch):
    """Another process uses the same checkpoint; one of the two has to end."""

    @classmethod
    def by_another(cls, checkpoint: str) -> CheckpointInUse:
        """Return the error with which a process ends when it finds another one on its checkpoint."""
        return cls(
            "another process is running this pipeline on the same checkpoint; this process ended, and nothing was "
            "written twice",
            checkpoint=checkpoint,
            hint="run only one of them; use a different --name or --checkpoint for another pipeline",
        )


class TablesParked(PenstockError):
    """Tables that failed were parked, and the run has ended without them."""

    exit_code = 10


class ReplayUndecidable(PenstockError):
    """It can no longer be determined whether a table has the last batch, and writing it twice would be visible."""

    exit_code = 9


class StoppedEarly(PenstockError):
    """A run that should end when it has caught up was stopped by a signal before that."""

    exit_code = 13


class SparkEnded(PenstockError):
    """The JVM that this process started has ended: usually killed on a machine short of memory."""

    exit_code = 11


class MasterUnreachable(PenstockError):
    """A Spark master on another machine did not answer, did not accept the driver, or has forgotten it."""

    exit_code = 11


class WorkerLate(PenstockError):
    """A Python worker did not start in time: Spark gives up a query after ten seconds, which cannot be configured."""

    exit_code = 11
    retryable = True


class TasksLost(PenstockError):
    """Spark gave up a batch because processes of its tasks were killed or their machines were lost."""

    exit_code = 11
    retryable = True


def not_created(errors: Mapping[str, PenstockError]) -> PenstockError:
    """Return the error of a single table unchanged, and several errors as one that names all their tables."""
    found = list(errors.values())
    if len(found) == 1:
        return found[0]
    kinds = {type(error) for error in found}
    # Errors of one kind keep their exit code.
    kind = kinds.pop() if len(kinds) == 1 else ConfigError
    hints = dict.fromkeys(error.hint for error in found if error.hint)
    messages = {table: _in_one_line(error) for table, error in errors.items()}
    return kind(f"{len(found)} tables cannot be created", hint=";  ".join(hints) or None, **messages)


def _in_one_line(error: PenstockError) -> str:
    """Return an error with the column that it is about."""
    facts = (f"{name}: {error.facts[name]}" for name in ("column", "type") if name in error.facts)
    return "; ".join((error.message, *facts))
