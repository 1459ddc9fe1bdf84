"""A story of a pipeline, as data: its description, the source tables, and what happens.

Steps:

    {"op": "send", "messages": [[partition, change], ...]}
    {"op": "run", "limit": 5, "fault": ["create", 3, "DIES_AFTER"], ...}
    {"op": "compact" | "expire" | "replay" | "zombie" | ...}

A change is `{"db": .., "table": .., "op": "I" | "U" | "D", "before": row, "after": row}`, or `{"poison": text}`, or
`{"tombstone": key}`, or `{"marker": "commit"}`, an offset without a message. Rows are texts and null by column.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

Row = Mapping[str, str | None]
Change = Mapping[str, Any]
Step = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Story:
    """`kind` is the message format; `keys` are the primary keys of the source tables, none for those without.

    `sections` are those of the pipeline file besides source and catalog. With `joins`, each process joins small ranges
    from its first batch on.
    """

    kind: str
    keys: Mapping[str, Sequence[str]]
    sections: Mapping[str, Any]
    steps: Sequence[Step]
    source: Mapping[str, Any] = field(default_factory=dict)
    tasks: int = 2
    writers: int = 2
    partitions: int = 1
    seed: int = 0
    joins: bool = False

    def __str__(self) -> str:
        return json.dumps(asdict(self), ensure_ascii=False)

    @classmethod
    def of(cls, text: str) -> Story:
        return cls(**json.loads(text))

    def keep(self, folder: Path, name: str) -> Path:
        """Store a story that failed once, so that it is always played."""
        path = folder / f"{name}.json"
        path.write_text(str(self) + "\n", encoding="utf-8")
        return path
