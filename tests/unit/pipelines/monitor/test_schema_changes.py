"""Changes of schemas that a run reports after its batches."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.errors import StoreError
from penstock.pipelines.monitor.schema_changes import SeenSchemas


class Warehouse:
    """A warehouse whose tables have these schemas; a table without one cannot be read."""

    def __init__(self, **schemas: int | None) -> None:
        self.schemas = schemas

    def store(self, table: str) -> Any:
        def schema(number: int | None = self.schemas[table]) -> Any:
            if number is None:
                raise StoreError("the store answered 503")
            return SimpleNamespace(id=number, fields=[])

        return SimpleNamespace(schema=schema, schemas=SimpleNamespace(get=schema))


def test_a_change_is_reported_later_if_another_table_cannot_be_read() -> None:
    """The first table was noted before the second one failed, so that no batch reported its change."""
    warehouse = Warehouse(a=0, b=0)
    seen, facts = SeenSchemas(cast("Any", warehouse)), cast("Any", SimpleNamespace(rows={"a": 1, "b": 1}, millis=0))
    assert seen.changes(facts) == []
    warehouse.schemas = {"a": 1, "b": None}
    with pytest.raises(StoreError):
        seen.changes(facts)
    warehouse.schemas = {"a": 1, "b": 0}
    assert [(fact.table, fact.schema) for fact in seen.changes(facts)] == [("a", 1)]
