"""Nulls of NOT NULL members are refused, and members of null values are not."""

from __future__ import annotations

import pyarrow as pa
import pytest

from penstock.table.buckets.member_nulls import NullMember, with_optional_members, with_required_members


def required(name: str, type_: pa.DataType) -> pa.Field:
    return pa.field(name, type_, nullable=False)


POINT = pa.struct([required("x", pa.int32()), pa.field("label", pa.string())])
INSIDE = {
    "bool": (pa.bool_(), True),
    "date": (pa.date32(), 3),
    "time": (pa.time32("ms"), 3),
    "timestamp": (pa.timestamp("us", "UTC"), 3),
    "decimal": (pa.decimal128(10, 2), 3),
    "double": (pa.float64(), 0.5),
    "text": (pa.string(), "x"),
    "bytes": (pa.binary(), b"x"),
    "fixed": (pa.binary(2), b"xy"),
    "row": (POINT, {"x": 1, "label": None}),
    "array": (pa.list_(required("element", pa.int64())), [1, 2]),
    "map": (pa.map_(pa.string(), required("value", pa.int8())), [("k", 1)]),
}


@pytest.mark.parametrize("kind", INSIDE)
@pytest.mark.parametrize("sliced", [False, True])
def test_members_of_null_values_may_be_null(kind: str, sliced: bool) -> None:
    type_, value = INSIDE[kind]
    for target, full, path in (
        (pa.struct([required("a", type_)]), {"a": value}, "c.a"),
        (pa.list_(required("element", type_)), [value], "c.element"),
        (pa.map_(pa.string(), required("value", type_)), [("k", value)], "c.value"),
    ):
        expected = pa.array([full, full], target).to_pylist()
        column = pa.array([None, full, None, full], with_optional_members(target))
        found = with_required_members(column[1:] if sliced else column, target, "c")
        found.validate(full=True)
        assert found.type == target
        assert found.to_pylist() == [None, expected[0], None, expected[1]][sliced:]
        empty = {"a": None} if pa.types.is_struct(target) else [("k", None)] if pa.types.is_map(target) else [None]
        with pytest.raises(NullMember) as refused:
            with_required_members(pa.array([full, empty], with_optional_members(target)), target, "c")
        assert refused.value.path == path


def test_the_path_names_the_innermost_member() -> None:
    target = pa.struct([pa.field("rows", pa.list_(pa.field("element", POINT)))])
    column = pa.array([{"rows": [None, {"x": None, "label": "l"}]}], with_optional_members(target))
    with pytest.raises(NullMember) as refused:
        with_required_members(column, target, "c")
    assert refused.value.path == "c.rows.element.x"
