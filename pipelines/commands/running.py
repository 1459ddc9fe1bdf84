"""Run a pipeline in this process: a session, the job, signals."""

from __future__ import annotations

import logging
import signal
import sys
from collections.abc import Mapping
from types import FrameType

from penstock.pipelines.spec.model import PipelineSpec


def run_here(spec: PipelineSpec, *, master: str | None = None, settings: Mapping[str, str] | None = None) -> int:
    """Runs until it has caught up, is asked to stop (SIGTERM, SIGINT: exit 0 after the batch) or fails (raises)."""
    log_to_stderr()
    from penstock.pipelines.run.build import job
    from penstock.pipelines.run.job import Running
    from penstock.pipelines.run.session import open_session

    ready = job(spec)  # what is wrong with it is told before a JVM is started
    session = open_session(spec.pipeline.name, master=master, cores=spec.pipeline.parallelism, settings=settings)
    running = Running(ready, session)

    def stop(number: int, frame: FrameType | None) -> None:
        running.stop()

    before = [(number, signal.signal(number, stop)) for number in (signal.SIGTERM, signal.SIGINT)]
    try:
        running.run()
    finally:
        for number, handler in before:
            signal.signal(number, handler)
        session.stop()
    return 0


def log_to_stderr(level: int = logging.INFO) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s", "%Y-%m-%d %H:%M:%S"))
    root = logging.getLogger("penstock")
    root.setLevel(level)
    root.handlers[:] = [handler]
