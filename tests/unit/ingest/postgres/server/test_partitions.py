"""Partitions of two plans: which came with rows, and whether some left."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.ingest.postgres.server.catalog import PgTableFacts
from penstock.ingest.postgres.server.partitions import moved_partitions

BEFORE = (20, 2, 30)  # partitions 10 and 20


@pytest.mark.parametrize(
    ("now", "moved"),
    [
        ({10: "f", 20: "t"}, (False, False)),
        ({10: "f", 20: "f", 21: "f"}, (False, False)),
        ({10: "f", 20: "f", 21: "t"}, (True, False)),
        ({5: "t", 10: "f", 20: "f"}, (True, False)),
        ({20: "f"}, (False, True)),
        ({20: "f", 21: "f"}, (False, True)),
        ({5: "t", 20: "f"}, (True, True)),
        ({}, (False, True)),
    ],
)
def test_partitions_that_came_and_left(now: dict[int, str], moved: tuple[bool, bool]) -> None:
    connection: Any = SimpleNamespace(rows=lambda _: [(str(oid), attached) for oid, attached in now.items()])
    parts = (max(now, default=0), len(now), sum(now))
    table = PgTableFacts(7, "public", "t", has_key=True, identity="d", rows=1, kind="p", parts=parts)
    assert moved_partitions(cast("Any", connection), BEFORE, table) == moved
    assert moved_partitions(cast("Any", connection), (), table) == (False, False)
