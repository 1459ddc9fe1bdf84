"""Sends events as JSON to a webhook. A separate thread does it, so that a slow receiver never delays a batch."""

from __future__ import annotations

import http.client
import json
import logging
import queue
import threading
import time
import urllib.error
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.request import Request

from penstock.errors import ConfigError, PenstockError
from penstock.http_opener import limited_opener
from penstock.pipelines.monitor.facts import BatchFacts, Look
from penstock.pipelines.monitor.failure_facts import failure_text
from penstock.pipelines.monitor.sent_failure import SentFailure
from penstock.references import resolve
from penstock.settings import seconds

log = logging.getLogger(__name__)

WAITING = 100  # events that wait for the receiver at most; the newest are dropped
TIMEOUT_SECONDS = 10.0
_MOST_SECONDS = 60.0
_MOST_OF_ANSWER = 1 << 20
# The element of the queue that ends the thread.
_LAST = None


def post(url: str, event: dict[str, Any]) -> None:
    """Send an event. `url` may be a reference; raise OSError if the receiver cannot be reached or refuses it."""
    body = json.dumps(event).encode()
    target = resolve(url).strip()
    if not target.startswith(("http://", "https://")):
        raise ConfigError(
            "the webhook URL does not begin with http:// or https://",
            hint="correct it; a secret URL may be a reference, such as ${WEBHOOK_URL}",
        )
    try:
        request = Request(target, body, {"Content-Type": "application/json"})  # noqa: S310
        with limited_opener(seconds=_MOST_SECONDS).open(request, timeout=TIMEOUT_SECONDS) as answer:
            answer.read(_MOST_OF_ANSWER)
    except (ValueError, http.client.HTTPException) as error:  # they quote the URL, whose path is the secret
        raise ConfigError(
            f"the webhook cannot be called: {type(error).__name__}",
            hint="check the URL: it must be complete, and a server must answer there by HTTP",
        ) from None


@dataclass(slots=True)
class WebhookObserver:
    """An observer that sends events. Slack and others show the member `text`; programs read the rest."""

    pipeline: str
    webhook: str
    events: Sequence[str]
    at_most_every: float = 60.0
    send: Callable[[str, dict[str, Any]], None] = post
    clock: Callable[[], float] = time.monotonic
    failures: SentFailure | None = None  # what earlier runs have sent
    _sent: dict[tuple[str, str], float] = field(default_factory=dict)
    _queue: queue.Queue[dict[str, Any] | None] = field(default_factory=lambda: queue.Queue(WAITING))
    _thread: threading.Thread | None = None
    _failure: PenstockError | None = None
    _newest: dict[str, int] = field(default_factory=dict)
    _deferred: dict[str, float] = field(default_factory=dict)  # how long rows of a table may be deferred

    def batch(self, facts: BatchFacts) -> None:
        self._newest |= facts.newest
        self._deferred |= facts.deferred_seconds
        for change in facts.schemas:
            self._event(
                "schema-changed", change.table, f"schema {change.schema} of {change.table}", schema=change.schema
            )
        for table, reason in facts.stats.parked.items():
            self._event("table-parked", table, f"{table} failed and is parked: {reason}")
        bad = sum(facts.bad.values())
        if bad:
            reasons = ", ".join(f"{reason} {count}" for reason, count in facts.bad.items())
            self._event("dead-letter", "", f"{bad} bad records: {reasons}", count=bad, batch=facts.number)

    def looked(self, look: Look) -> None:
        """Send an event for each table whose newest change is too old while the source has more."""
        if look.caught_up:
            return
        for event in self.events:
            if not event.startswith("lag>"):
                continue
            for table, newest in self._newest.items():
                age = (look.millis - newest) / 1000
                if age > seconds(event.removeprefix("lag>")) + self._deferred.get(table, 0):
                    self._event(event, table, f"{table} is {age:.0f} s behind its source", seconds=round(age))

    def ended(self, error: PenstockError | None) -> None:
        if error is None:
            self._event("stopped", "", "it stopped")
        elif self.failures is None or "failed" not in self.events or self.failures.is_new(error, self.at_most_every):
            self._failure = error
            self._event("failed", "", f"it failed: {failure_text(error)}", error=type(error).__name__, hint=error.hint)
        if self._thread is not None:
            self._put(_LAST)
            # One event may be under way while the last one waits.
            self._thread.join(2 * TIMEOUT_SECONDS)

    def _event(self, event: str, about: str, text: str, **more: Any) -> None:
        now = self.clock()
        last = self._sent.get((event, about))
        if event not in self.events or (last is not None and now - last < self.at_most_every):
            return
        self._sent[event, about] = now
        facts = {"event": event, "pipeline": self.pipeline, "table": about or None, "at": int(time.time()), **more}
        self._put({"text": f"{self.pipeline}: {text}", **{k: v for k, v in facts.items() if v is not None}})

    def _put(self, event: dict[str, Any] | None) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="penstock-notify", daemon=True)
            self._thread.start()
        try:
            self._queue.put_nowait(event)
        except queue.Full:
            log.warning("event=notification_dropped reason=the receiver is slower than the events")

    def _run(self) -> None:
        while (event := self._queue.get()) is not None:  # until _LAST
            try:
                self.send(self.webhook, event)
                # Not before, because a failure that was noted but has not arrived would be left out at the next start.
                if self.failures is not None and self._failure is not None and event["event"] == "failed":
                    self.failures.note(self._failure)
            except (OSError, urllib.error.URLError, PenstockError, ValueError) as error:
                reason = error.message if isinstance(error, PenstockError) else error
                log.warning("event=notification_failed kind=%s reason=%s", event["event"], reason)
