"""deletes: soft, from messages: by pipeline and by route, over a driver that dies."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import ConfigError, PenstockError
from penstock.pipelines.config.model import PipelineSpec
from penstock.table.commit.committer import Committer
from tests.here import run
from tests.integration.kafka.conftest import Broker
from tests.shop import Shop

pytestmark = pytest.mark.kafka


def message(kind: str, table: str, number: int, **more: Any) -> str:
    row = {"id": str(number), "v": f"v{number}"}
    types = {"id": "int", "v": "varchar(9)"}
    known = {"database": "shop", "table": table, "pkNames": ["id"], "ts": 1000 * number, "mysqlType": types}
    return json.dumps({"type": kind, "data": [row], "old": None, **known, **more})


def spec(folder: Path, broker: Broker, topic: str, **sections: Any) -> PipelineSpec:
    source = {
        "type": "kafka",
        "topic": [topic],
        "properties": broker.properties,
        "value.format": "canal-json",
        "startup": {"mode": "earliest-offset"},
    }
    made = Shop(folder).spec(**sections)
    return made.model_validate({**made.model_dump(by_alias=True), "source": source})


def test_by_pipeline_and_by_route_over_a_death_between_two_tables(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, shop = broker.topic(), Shop(tmp_path)
    route = [{"source-table": "shop.logs", "sink-table": "ods.logs", "deletes": "hard"}]
    pipeline = spec(tmp_path, broker, topic, sink={"deletes": "soft"}, route=route)
    for table in ("logs", "orders", "users"):
        broker.send(topic, *(message("INSERT", table, number) for number in (1, 2, 3)))
    run(pipeline)
    for table in ("logs", "orders", "users"):
        broker.send(topic, message("DELETE", table, 2), message("DELETE", table, 3), message("INSERT", table, 3))
    commit = Committer.commit

    def dying(self: Committer, *given: object, **named: object) -> object:
        if self.store.name == "ods.users":
            raise PenstockError("died between two tables")
        return commit(self, *given, **named)  # type: ignore[arg-type]

    with monkeypatch.context() as patched:
        patched.setattr(Committer, "commit", dying)
        with pytest.raises(PenstockError, match="died"):
            run(pipeline)
    run(pipeline)
    assert shop.ids("logs") == [1, 3]
    assert "_deleted" not in shop.rows("logs")[0]
    at = dt.datetime(1970, 1, 1, 0, 0, 2, tzinfo=dt.UTC)
    for table in ("orders", "users"):
        assert shop.rows(table) == [
            {"id": 1, "v": "v1", "_deleted": False, "_deleted_at": None},
            {"id": 2, "v": "v2", "_deleted": True, "_deleted_at": at},
            {"id": 3, "v": "v3", "_deleted": False, "_deleted_at": None},
        ]


def test_a_table_of_before_gets_the_columns(broker: Broker, tmp_path: Path) -> None:
    topic, shop = broker.topic(), Shop(tmp_path)
    broker.send(topic, message("INSERT", "orders", 1), message("INSERT", "orders", 2))
    run(spec(tmp_path, broker, topic))
    broker.send(topic, message("DELETE", "orders", 2))
    run(spec(tmp_path, broker, topic, sink={"deletes": "soft"}))
    assert [(row["id"], row["_deleted"]) for row in shop.rows("orders")] == [(1, None), (2, True)]


@pytest.mark.parametrize(
    ("sink", "more", "words"),
    [
        ({"table-options": {"bucket": "-1"}}, {"pkNames": []}, "no primary key"),
        ({"table-options": {"bucket": "1", "merge-engine": "first-row"}}, {}, "merge-engine=first-row"),
        ({"table-options": {"bucket": "1", "ignore-delete": "true"}}, {}, "ignore-delete"),
    ],
)
def test_tables_that_cannot_show_marks_stop_the_pipeline(
    broker: Broker, tmp_path: Path, sink: dict[str, Any], more: dict[str, Any], words: str
) -> None:
    topic = broker.topic()
    broker.send(topic, message("INSERT", "orders", 1, **more))
    sink = {"deletes": "soft", "no-primary-key": "append", **sink}
    with pytest.raises(ConfigError, match=words):
        run(spec(tmp_path, broker, topic, sink=sink))
