"""The options of a table in a streaming query: those of a hint, and those that the session has for all reads."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.errors import ConfigError
from penstock.table.options.checks import check_given, report
from penstock.table.options.scans import RANGE_KEYS
from penstock.table.system.streamed import NotStreamed


def check_stream_options(options: Mapping[str, str]) -> None:
    """Raise NotStreamed for the first option that is unknown, invalid, or without the effect that it is set for."""
    try:
        check_given(options)
    except ConfigError as reason:
        raise NotStreamed(reason.message, hint=reason.hint, **reason.facts) from reason
    for key in options:
        if key in RANGE_KEYS:
            hint = "scan.snapshot-id begins a stream; SET 'execution.runtime-mode' = 'batch' reads the range once"
            raise NotStreamed(f"{key} is a range of changes with an end", option=key, hint=hint)
    report("read as a stream", options)
