"""Seeds of random tests. A quick run tries only the first one."""

from __future__ import annotations

from typing import Any

import pytest


def seeds(count: int) -> list[Any]:
    """Return numbers for `parametrize`: all but the first are left out by `make check`."""
    return [0, *(pytest.param(number, marks=pytest.mark.slow) for number in range(1, count))]
