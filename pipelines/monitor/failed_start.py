"""A run that fails before its first batch is planned: its status and its notification.

The source may deny access, or a table may no longer fit its source. A supervisor starts such a run again and again.
"""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from penstock.errors import PenstockError
from penstock.pipelines.config.model import PipelineSpec
from penstock.pipelines.job.job import may_pass
from penstock.pipelines.ledger.checkpoint_folder import CheckpointFolder
from penstock.pipelines.monitor.driver_process import has_ended, is_silent
from penstock.pipelines.monitor.failure_facts import failure_facts
from penstock.pipelines.monitor.sent_failure import NOT_NOTED
from penstock.pipelines.monitor.unexpected_error import unexpected

log = logging.getLogger(__name__)


@contextmanager
def failed_starts_noted(spec: PipelineSpec, asked: Callable[[], bool] = lambda: False) -> Iterator[None]:
    """Write the failure to the status of the pipeline and send the event `failed`, as after a batch that fails.

    `asked` returns whether the run was asked to stop, which ends the wait for a source that is away: no failure.
    """
    try:
        yield
    except Exception as error:
        is_stop = asked() and may_pass(error)
        for note in () if is_stop else (_write_status, _notify):
            try:
                note(spec, error)
            except NOT_NOTED as reason:
                log.warning("event=failure_not_noted reason=%s", reason)
        raise


def _write_status(spec: PipelineSpec, error: Exception) -> None:
    """Write the status, also of a pipeline that has never run, unless another process runs it now.

    A container that is started again has another host name, or the process number of the one before.
    """
    folder = CheckpointFolder(spec.checkpoint, spec.sink.catalog.store_options)
    last, now = folder.status(), int(time.time() * 1000)
    if last is not None and not _is_over(last, now):
        return
    process = {"host": socket.gethostname(), "pid": os.getpid(), "heard_millis": now}
    folder.put_status((last or {}) | process | {"state": "failed"} | failure_facts(error))


def _is_over(last: Mapping[str, Any], now_millis: int) -> bool:
    return last.get("state") in {"stopped", "failed"} or has_ended(last) or is_silent(last, now_millis)


def _notify(spec: PipelineSpec, error: Exception) -> None:
    from penstock.pipelines.monitor.observers import webhook_of

    if (webhook := webhook_of(spec)) is not None:
        webhook.ended(error if isinstance(error, PenstockError) else unexpected(error))
