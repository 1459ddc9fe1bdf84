"""Applies the batches that parked tables missed, one by one and with their original identity."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial

from penstock.pipelines.driver.batch import BatchDriver
from penstock.pipelines.tasks.read import TaskInput
from penstock.pipelines.tasks.write import BatchResult

log = logging.getLogger(__name__)

RereadFn = Callable[[int, Sequence[TaskInput]], BatchResult]


def catch_up(batches: BatchDriver, again: RereadFn, stopped: Callable[[], bool] = lambda: False) -> None:
    """Release the parked tables that can apply the batches they missed.

    Dies half way, or is stopped: the next call continues there. A table that fails again stays parked and does not
    delay the others.
    """
    for table in sorted(batches.parking.tables):
        if _took_all(batches, table, again, stopped):
            batches.parking.release(table)
            batches.targets.take_in(table)
            log.info("event=table_released table=%s", table)


def _took_all(batches: BatchDriver, table: str, again: RereadFn, stopped: Callable[[], bool]) -> bool:
    for missed in batches.parking.missed(table):
        if stopped() or not batches.take_late(missed, table, partial(again, missed.number)):
            return False
        batches.parking.took(table, missed.number)
        batches.reading.source.close()  # what the source cached while planning one batch is not valid for the next
        log.info("event=batch_caught_up table=%s batch=%d", table, missed.number)
    return True
