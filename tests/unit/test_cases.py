"""Cases that are one test: each that fails is named, and the others are tried too."""

from __future__ import annotations

import pytest

from tests.cases import each


def test_each_case_that_fails_is_named() -> None:
    def refuses(number: int) -> None:
        with pytest.raises(ZeroDivisionError):
            1 // number

    with pytest.raises(AssertionError, match=r"2 of 3 cases failed:\n1: Failed: .*\n2: Failed: ") as found:
        each([1, 0, 2], refuses)
    assert isinstance(found.value.__cause__, pytest.fail.Exception)
    each([0], refuses)


def test_a_test_without_cases_fails() -> None:
    with pytest.raises(AssertionError, match="there are no cases"):
        each([], print)
