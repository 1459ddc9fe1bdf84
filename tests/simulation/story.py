"""A story: a table and what happens to it, as data. It can be told to our table, to Java's, and to a dict.

Steps are in the words of the Java oracle, so the `steps` of a golden table are a story too:

    {"op": "write", "rows": [["+I", 1, "a"]]}   {"op": "compact", "full": true}   {"op": "expire", "retain": 2}
    {"op": "tag", "name": "t1"}   {"op": "rollback", "snapshot": 3}   {"op": "alter", "changes": [...]}
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tests.golden.cases import Case
from tests.golden.relations import Type

Step = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Story:
    columns: Sequence[tuple[str, Type]]
    primary_keys: Sequence[str]
    steps: Sequence[Step]
    options: Mapping[str, str] = field(default_factory=dict)
    partition_keys: Sequence[str] = ()
    seed: int = 0

    def __str__(self) -> str:
        return json.dumps(asdict(self), ensure_ascii=False)

    @classmethod
    def of(cls, text: str) -> Story:
        node = json.loads(text)
        return cls(**{**node, "columns": [tuple(column) for column in node["columns"]]})

    @classmethod
    def of_case(cls, case: Case) -> Story:
        """How a golden table was made."""
        ddl = case.expected["ddl"]
        columns = [(name, kind) for name, kind, *_ in ddl["columns"]]
        return cls(columns, ddl["pk"], case.expected["steps"], ddl["options"], ddl["partition"])

    def keep(self, folder: Path, name: str) -> Path:
        """A story that failed once is told for ever."""
        path = folder / f"{name}.json"
        path.write_text(str(self) + "\n", encoding="utf-8")
        return path
