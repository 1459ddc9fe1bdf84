"""Debezium without its schema envelope: decimals and times arrive as encoded, and `check`, `plan` and the log warn."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from penstock.pipelines.api.check_source import check_source
from penstock.pipelines.api.sample import tables_planned
from penstock.pipelines.config.model import PipelineSpec
from tests.here import run
from tests.shop import Shop, insert

FIELDS = [{"field": "id", "type": "int64"}]
ENVELOPE = {"type": "struct", "fields": [{"field": "after", "type": "struct", "fields": FIELDS}]}
HINT = "value.converter.schemas.enable=true"


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


def message(table: str, number: int = 1) -> dict[str, object]:
    return {"op": "c", "after": {"id": number}, "source": {"db": "shop", "table": table}}


def spec_of(shop: Shop, **sink: object) -> PipelineSpec:
    return shop.spec(source={"value.format": "debezium-json"}, sink={"table-options": {"bucket": "-1"}, **sink})


def warnings(spec: PipelineSpec) -> list[str]:
    return [item.message for item in check_source(spec) if item.level == "warning"]


def test_each_table_whose_messages_declare_no_types_is_named_once(shop: Shop, caplog: pytest.LogCaptureFixture) -> None:
    typed = {"schema": ENVELOPE, "payload": message("typed")}
    shop.put("1.json", *map(json.dumps, (message("a"), message("a", 2), message("b"), typed)))
    spec = spec_of(shop)
    [a, b] = warnings(spec)
    assert a.startswith("ods.a: the messages declare no types: columns are STRING")
    assert HINT in a
    assert b.startswith("ods.b")
    plans = {plan.table: plan.warnings for plan in tables_planned(spec, 100)[1]}
    assert {table: len(warnings) for table, warnings in plans.items()} == {"ods.a": 1, "ods.b": 1, "ods.typed": 0}
    with caplog.at_level("WARNING"):
        run(spec)
    logged = [line for line in caplog.messages if "event=types_not_declared" in line]
    assert [line.split()[1] for line in logged] == ["table=ods.a", "table=ods.b"]
    assert all(HINT in line for line in logged)


def test_no_warning_if_strings_are_configured_or_the_format_has_no_types(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    shop.put("1.json", json.dumps(message("a")))
    assert warnings(spec_of(shop, **{"type-mapping": ["to-string"]})) == []
    assert len(warnings(spec_of(shop))) == 1
    other = Shop(shop.folder / "canal")
    other.put("1.json", insert("a", {"id": 1}))
    assert warnings(other.spec()) == []


def test_a_sequence_field_that_is_a_text_is_a_warning(shop: Shop, caplog: pytest.LogCaptureFixture) -> None:
    """As texts 9 is after 10, so that an older row would stay."""
    sent = message("a") | {"after": {"id": 1, "version": 9}}
    shop.put("1.json", json.dumps(sent))
    sink = {"primary-keys": ["id"], "table-options": {"bucket": "1", "sequence.field": "version"}}
    spec = spec_of(shop, **sink)
    assert any("sequence.field version is a text" in warning for warning in warnings(spec))
    with caplog.at_level("WARNING"):
        run(spec)
    assert sum("event=sequence_is_text table=ods.a" in line for line in caplog.messages) == 1
    fields = [*FIELDS, {"field": "version", "type": "int64"}]
    typed = Shop(shop.folder / "typed")
    envelope = {"type": "struct", "fields": [{"field": "after", "type": "struct", "fields": fields}]}
    typed.put("1.json", json.dumps({"schema": envelope, "payload": sent}))
    assert warnings(spec_of(typed, **sink)) == []
