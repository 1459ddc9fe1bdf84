"""Connections to a database server that may be unreachable for a while."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TypeVar

from penstock.ingest.database.findings import ConnectionLost
from penstock.ingest.patience import patience_seconds

log = logging.getLogger(__name__)
_PAUSE_S = 0.5
C = TypeVar("C")


def until_reachable(connect: Callable[[], C], server: str, patience: float) -> C:
    """Return the connection. While the server cannot be reached, try again for `patience` seconds, which is logged."""
    began, waits = time.monotonic(), False
    while True:
        try:
            opened = connect()
        except ConnectionLost as error:
            if time.monotonic() >= began + patience_seconds(patience):
                raise
            if not waits:
                reason = error.facts.get("reason", error.message)
                log.warning("event=waiting_for_server server=%s at_most=%gs reason=%s", server, patience, reason)
            waits = True
        else:
            if waits:
                log.warning("event=server_is_back server=%s after=%.0fs", server, time.monotonic() - began)
            return opened
        time.sleep(_PAUSE_S)
