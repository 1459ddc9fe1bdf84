"""The output of `penstock verify` for a table that differs."""

from __future__ import annotations

from penstock.pipelines.api.compared_columns import HASH_RANGE, KeyDiffers
from penstock.pipelines.api.verify import TableVerdict
from penstock.pipelines.commands.verify import _lines


def test_ranges_of_hashes_are_not_printed_and_ranges_of_keys_are() -> None:
    keys, counts = (KeyDiffers("missing", {"id": "a"}),), {"missing": 1}
    ranges = (f"{HASH_RANGE}(id) is 0 of 1024",)
    hashed = TableVerdict("ods.a", "binlog.000001:4", 1, 3, 2, ranges, keys, counts)
    assert _lines(hashed)[1:] == ["  missing  id=a"]
    numbered = TableVerdict("ods.a", "binlog.000001:4", 1, 3, 2, ("id from 0 to 9",), keys, counts)
    assert _lines(numbered)[1] == "  range  id from 0 to 9"
