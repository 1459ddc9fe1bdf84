"""The tables that a pipeline leaves out, with the reasons, as its status shows them."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.ingest.connectors import connector_of
from penstock.pipelines.config.model import PipelineSpec


@dataclass(slots=True)
class LeftOut:
    """The tables that are left out, with the reasons.

    A source that describes its tables names all of them to each run. Tables of messages are known only when messages
    are read. So a run continues with the tables in the status of the previous run, if that had the same `settings`.
    """

    found: Mapping[str, str] = field(default_factory=dict)  # in this run
    settings: str | None = None  # of a source with messages
    _before: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, spec: PipelineSpec, found: Mapping[str, str]) -> LeftOut:
        if connector_of(spec.source).capabilities.describes_tables:
            return cls(found)
        sink = spec.sink.model_dump(mode="json", exclude={"catalog"})
        texts = repr((sink, spec.selection, spec.route, spec.transform, spec.keyless))
        return cls(found, hashlib.sha256(texts.encode()).hexdigest()[:16])

    def continued(self, status: Mapping[str, Any]) -> None:
        """Continue with the tables of an earlier status."""
        if self.settings is not None and status.get("left_out_by") == self.settings:
            self._before = dict(status.get("left_out", {}))

    def batch(self, found: Mapping[str, str], received: Collection[str]) -> None:
        """Note the tables that are left out after a batch, and forget tables of earlier runs that received rows."""
        self.found = found
        self._before = {table: reason for table, reason in self._before.items() if table not in received}

    def facts(self) -> dict[str, Any]:
        return {"left_out": dict(sorted({**self._before, **self.found}.items())), "left_out_by": self.settings}
