"""Options mean what Paimon means by them."""

from __future__ import annotations

import pytest

from penstock.errors import ConfigError
from penstock.table.schema.option_values import parse_duration, parse_size
from penstock.table.schema.options import Options


@pytest.mark.parametrize(
    ("text", "size"), [("128 mb", 128 << 20), ("2g", 2 << 30), ("500", 500), ("1 KB", 1024), ("8mib", 8 << 20)]
)
def test_sizes_take_units(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(
    ("text", "millis"), [("1 h", 3_600_000), ("60min", 3_600_000), ("10 s", 10_000), ("500", 500), ("7d", 604_800_000)]
)
def test_durations_take_units(text: str, millis: int) -> None:
    assert parse_duration(text) == millis


def test_missing_option_takes_the_default() -> None:
    assert Options({}).integer("num-levels", 6) == 6
    assert Options({}).size("target-file-size", None) is None


def test_a_value_that_cannot_be_read_names_its_option() -> None:
    with pytest.raises(ConfigError) as caught:
        Options({"num-levels": "six"}).integer("num-levels", 6)
    assert caught.value.facts["option"] == "num-levels"


def test_a_misspelt_choice_is_told_the_nearest() -> None:
    with pytest.raises(ConfigError) as caught:
        Options({"merge-engine": "partial-updat"}).choice(
            "merge-engine", ["deduplicate", "partial-update"], "deduplicate"
        )
    assert "partial-update" in (caught.value.hint or "")
