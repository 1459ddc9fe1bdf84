"""Quality rules over a real broker: what is counted, dropped, kept as a dead letter, and what stops a pipeline."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import ConfigError, DecodeError, PenstockError
from penstock.formats.change import SourceField, SourceSchema
from penstock.pipelines.job import build
from penstock.pipelines.job.unmet_rules import KnownTables, unmet_rules
from penstock.table.commit.committer import Committer
from tests.here import run
from tests.integration.kafka.conftest import Broker
from tests.integration.kafka.test_soft_deletes import message, spec
from tests.shop import Shop

pytestmark = pytest.mark.kafka


def rule(condition: str, action: str, table: str = "shop.orders", **more: str) -> dict[str, str]:
    return {"source-table": table, "condition": condition, "action": action, **more}


def test_rules_of_each_kind_over_a_death(broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    topic, shop = broker.topic(), Shop(tmp_path)
    expect = [
        rule("id < 9", "warn", name="small"),
        rule("id <> 3", "drop"),
        rule("id <> 4", "dead-letter", "shop.*", name="four"),
    ]
    pipeline = spec(tmp_path, broker, topic, expect=expect, errors={"bad-record": "dead-letter"})
    broker.send(topic, *(message("INSERT", table, number) for table in ("orders", "users") for number in (1, 3, 4, 9)))
    counted: Counter[str] = Counter()
    commit = Committer.commit

    def dying(self: Committer, *given: object, **named: object) -> object:
        if self.store.name == "ods.users":
            raise PenstockError("died between two tables")
        return commit(self, *given, **named)  # type: ignore[arg-type]

    with monkeypatch.context() as patched:
        patched.setattr(Committer, "commit", dying)
        with pytest.raises(PenstockError, match="died"):
            run(pipeline)
    run(pipeline, on_batch=lambda _, report: counted.update(report.passed_over))
    assert (shop.ids("orders"), shop.ids("users")) == ([1, 9], [1, 3, 9])
    letters = shop.table("__penstock_dead_letters").scan().to_arrow().to_pylist()
    assert sorted(letter["target_table"] for letter in letters) == ["ods.orders", "ods.users"]
    assert all("four is not met" in letter["error"] for letter in letters)
    assert counted == {"expect.warn.small": 1, "expect.drop.id <> 3": 1, "expect.dead-letter.four": 2}


def test_a_row_that_must_not_be_stops_the_batch(broker: Broker, tmp_path: Path) -> None:
    topic = broker.topic()
    pipeline = spec(tmp_path, broker, topic, expect=[rule("id <> 2", "fail")])
    broker.send(topic, message("INSERT", "orders", 1), message("INSERT", "orders", 2))
    with pytest.raises(DecodeError, match="id <> 2"):
        run(pipeline)
    assert not (tmp_path / "warehouse/ods.db/orders/snapshot").exists()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (rule("id >", "warn"), "condition"),
        (rule("id > 1", "reject"), "reject"),
        (rule("id > 1", "dead-letter"), "bad-record: dead-letter"),
    ],
)
def test_rules_that_cannot_be_followed_are_refused(
    broker: Broker, tmp_path: Path, given: dict[str, Any], words: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        spec(tmp_path, broker, "none", expect=[given])
    assert words in str(refused.value)


def test_a_rule_for_a_missing_column_is_found_before_the_first_row(broker: Broker, tmp_path: Path) -> None:
    topic = broker.topic()
    broker.send(topic, message("INSERT", "orders", 1))
    run(spec(tmp_path, broker, topic))
    pipeline = spec(tmp_path, broker, topic, expect=[rule("total > 0", "warn"), rule("id > 0", "warn", "shop.nothing")])
    mapping = build.mapping_of(pipeline, build.job_warehouse(pipeline))
    decoded = json.loads(message("INSERT", "orders", 1))
    fields = tuple(SourceField(name, type_) for name, type_ in decoded["mysqlType"].items())
    found = unmet_rules(pipeline, mapping, KnownTables([SourceSchema("mysql", "shop", "orders", fields, ("id",))]))
    assert ["'total'" in str(found[0]), "shop.nothing" in str(found[1])] == [True, True]
