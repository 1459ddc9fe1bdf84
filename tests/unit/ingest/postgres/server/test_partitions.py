"""Partitions of two plans: which came with rows, and whether some left."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.ingest.postgres.server.catalog import PgTableFacts
from penstock.ingest.postgres.server.partitions import moved_partitions

BEFORE = (20, 2, 30, 3)  # partitions 10 and 20
LINKS = {5: 7, 10: 1, 20: 2, 21: 4}


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
    connection: Any = SimpleNamespace(rows=lambda _: [(oid, attached, LINKS[oid]) for oid, attached in now.items()])
    parts = (max(now, default=0), len(now), sum(now), sum(LINKS[oid] for oid in now))
    table = PgTableFacts(7, "public", "t", has_key=True, identity="d", rows=1, kind="p", parts=parts)
    assert moved_partitions(cast("Any", connection), BEFORE, table) == moved
    assert moved_partitions(cast("Any", connection), (), table) == (False, False)


@pytest.mark.parametrize(("before", "moved"), [(BEFORE, (True, True)), (BEFORE[:3], (False, False))])
def test_a_partition_that_was_attached_again_may_have_other_rows(
    before: tuple[int, ...], moved: tuple[bool, bool]
) -> None:
    connection: Any = SimpleNamespace(rows=lambda _: [(10, "f", 1), (20, "t", 8)])
    table = PgTableFacts(7, "public", "t", has_key=True, identity="d", rows=1, kind="p", parts=(20, 2, 30, 9))
    # Offsets of an older release do not know when it was attached.
    assert moved_partitions(cast("Any", connection), before, table) == moved
