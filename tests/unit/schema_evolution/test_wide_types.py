"""Messages that declare a narrower type than the table has meanwhile: what fits the table is not bad."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.here import run
from tests.shop import Shop

LETTERS = {"bad-record": "dead-letter", "dead-letter": {"max-share": "100%"}}


def message(number: int, value: str, declared: str) -> str:
    return json.dumps(
        {
            "type": "INSERT",
            "database": "shop",
            "table": "items",
            "isDdl": False,
            "pkNames": ["id"],
            "mysqlType": {"id": "int", "v": declared},
            "data": [{"id": str(number), "v": value}],
            "old": None,
            "es": 1_700_000_000_000,
            "ts": 1_700_000_000_001,
        }
    )


@pytest.mark.parametrize(
    ("narrow", "wide", "value", "too_long", "condition"),
    [
        ("decimal(5,2)", "decimal(10,2)", "999999.00", "999999999.00", "v * 2 > 1"),
        ("decimal(5,2)", "decimal(10,2)", "-999999.00", "-999999999.00", "v < 1 or v > 1.5"),
        ("tinyint", "int", "999999", "9999999999", "v > 1"),
        ("varchar(2)", "varchar(6)", "abcdef", "abcdefg", "v <> 'x'"),
    ],
)
@pytest.mark.parametrize("rule", ["none", "filter", "drop", "dead-letter"])
def test_a_value_that_fits_the_table_is_not_bad(
    rule: str, narrow: str, wide: str, value: str, too_long: str, condition: str, tmp_path: Path
) -> None:
    sections: dict[str, Any] = {}
    if rule == "filter":
        sections["transform"] = [{"source-table": "shop.items", "filter": condition}]
    elif rule != "none":
        sections["expect"] = [{"source-table": "shop.items", "condition": condition, "action": rule}]
    shop = Shop(tmp_path)
    shop.put("1.json", message(1, value, wide))
    run(shop.spec(errors=LETTERS, **sections))
    shop.put("2.json", message(2, value, narrow), message(3, too_long, narrow))
    run(shop.spec(errors=LETTERS, **sections))
    assert shop.ids("items") == [1, 2]
    assert len({row["v"] for row in shop.rows("items")}) == 1
    (letter,) = shop.table("__penstock_dead_letters").scan().to_arrow().to_pylist()
    assert too_long in str(letter)


def test_a_condition_reads_what_the_message_contains(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    rule = {"source-table": "shop.items", "filter": "v > 1000"}
    shop.put("1.json", message(1, "5.00", "decimal(10,2)"), message(2, "999999.00", "decimal(10,2)"))
    shop.put("2.json", message(3, "5.00", "decimal(5,2)"), message(4, "999999.00", "decimal(5,2)"))
    run(shop.spec(transform=[rule]))
    assert shop.ids("items") == [2, 4]
