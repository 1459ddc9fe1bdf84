"""Many small cases of one test, which would cost more as tests than by what they do."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

import pytest

Case = TypeVar("Case")


def each(cases: Iterable[Case], check: Callable[[Case], object]) -> None:
    """Check all cases. AssertionError with each case that failed, and why, or if there is no case."""
    tried: list[Case] = []
    failed: list[tuple[Case, BaseException]] = []
    for case in cases:
        tried.append(case)
        try:
            check(case)
        except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001  -- all are reported together
            failed.append((case, error))
    assert tried, "there are no cases"
    told = "".join(f"\n{case}: {type(error).__name__}: {error}" for case, error in failed)
    if failed:
        raise AssertionError(f"{len(failed)} of {len(tried)} cases failed:{told}") from failed[0][1]
