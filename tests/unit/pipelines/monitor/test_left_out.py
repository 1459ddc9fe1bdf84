"""The status names the tables that are left out, also after a run that read no message of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from penstock.pipelines.api.run import run_here
from penstock.pipelines.ledger.checkpoint_folder import CheckpointFolder
from tests.shop import Shop, insert

SKIPS: dict[str, Any] = {"no-primary-key": "skip"}


def keyless(number: int) -> str:
    return json.dumps(json.loads(insert("visits", {"id": number})) | {"pkNames": None})


def left_out(shop: Shop, **sink: Any) -> dict[str, str]:
    """Run until caught up. Return what the status says then."""
    run_here(shop.spec(sink=sink))
    status = CheckpointFolder(f"{shop.folder}/checkpoint").status() or {}
    return dict(status["left_out"])


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    """A pipeline that left out a table without a key."""
    shop = Shop(tmp_path)
    shop.put("1.json", insert("orders", {"id": 1}), keyless(1))
    assert list(left_out(shop, **SKIPS)) == ["ods.visits"]
    return shop


def test_a_run_without_a_batch_keeps_them(shop: Shop) -> None:
    assert list(left_out(shop, **SKIPS)) == ["ods.visits"]


def test_a_run_with_rows_of_other_tables_keeps_them(shop: Shop) -> None:
    shop.put("2.json", insert("orders", {"id": 2}))
    assert list(left_out(shop, **SKIPS)) == ["ods.visits"]
    assert shop.ids("orders") == [1, 2]


def test_a_table_that_receives_rows_is_not_left_out_any_more(shop: Shop) -> None:
    shop.put("2.json", insert("visits", {"id": 2}))
    assert left_out(shop, **SKIPS) == {}
    assert shop.ids("visits") == [2]


def test_a_run_with_other_settings_forgets_them(shop: Shop) -> None:
    assert left_out(shop, **{"no-primary-key": "append"}) == {}
