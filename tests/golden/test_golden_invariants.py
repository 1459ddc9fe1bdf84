"""Java's tables keep the invariants that ours are held to."""

from __future__ import annotations

import pytest

import penstock
from tests.golden.cases import Case, case_names
from tests.invariants import check_invariants

# Java numbered the commits of one user anew after an overwrite.
NUMBERED_ANEW = "overwrite_partitions"


@pytest.mark.parametrize("name", [name for name in case_names() if name != NUMBERED_ANEW])
def test_tables_that_java_wrote_keep_the_invariants(name: str) -> None:
    case = Case(name)
    check_invariants(penstock.open_table(str(case.table)), model=case.snapshots)
