"""A story: a table and what happens to it, as data. It can be performed on our table, on Java's, and on a dict.

Steps have the form that the Java oracle uses, so the `steps` of a golden table are a story too:

    {"op": "write", "rows": [["+I", 1, "a"]]}   {"op": "compact", "full": true}   {"op": "expire", "retain": 2}
    {"op": "tag", "name": "t1"}   {"op": "rollback", "snapshot": 3}   {"op": "alter", "changes": [...]}
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from tests.golden.cases import Case
from tests.golden.relations import Type

Step = Mapping[str, Any]
TIME = re.compile(r"\d{4}-\d\d-\d\dT[0-9:.]+Z?")


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
        """Return the story by which a golden table was created."""
        ddl = case.expected["ddl"]
        columns = [(name, kind) for name, kind, *_ in ddl["columns"]]
        return cls(columns, ddl["pk"], case.expected["steps"], ddl["options"], ddl["partition"])

    def tamed(self) -> Story:
        """Return the story without times before 1970.

        Java shifts them in ORC files, a little further with each rewrite.
        """
        return replace(self, steps=[without_early_times(step) for step in self.steps])

    def keep(self, folder: Path, name: str) -> Path:
        """Store a story that failed once, so that it is always played."""
        path = folder / f"{name}.json"
        path.write_text(str(self) + "\n", encoding="utf-8")
        return path


def without_early_times(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: without_early_times(part) for key, part in value.items()}
    if isinstance(value, list):
        return [without_early_times(part) for part in value]
    early = isinstance(value, str) and TIME.fullmatch(value) and value < "1970-01-02"
    return f"1971{value[4:]}" if early else value
